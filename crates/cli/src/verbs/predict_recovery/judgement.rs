//! Predicted bounds beside measured maxima, for the recoveries of one kind.

use tailbound_analysis::recovery::{Envelope, Network, Observation, Protocol, election_messages};
use tailbound_time::Duration;

use super::breakdown::{Breakdown, Recovery};
use crate::failure::Failure;

/// Recoveries that are judged together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The servers' variant.
    pub variant: String,
    /// Why the leader was given up.
    pub cause: String,
    /// Voting servers of the configuration.
    pub servers: u32,
}

impl Case {
    /// The kind of a recovery.
    pub fn of(recovery: &Recovery) -> Self {
        Self {
            variant: recovery.variant.clone(),
            cause: recovery.cause.clone(),
            servers: recovery.servers,
        }
    }
}

/// One phase.
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The bound, if there is one.
    pub predicted: Option<Duration>,
    /// The longest one measured.
    pub measured: Duration,
    /// How many were measured.
    pub recoveries: usize,
}

/// What came of one kind.
pub struct Judged {
    /// The phases, and the total.
    pub phases: Vec<Phase>,
    /// How the bounds came about.
    pub method: String,
    /// What they take for granted.
    pub assumptions: Vec<String>,
}

type Measure = fn(&Recovery) -> Option<u64>;
type Factor = fn(u32) -> u64;

/// Phases by name, with what is measured and with what the model's cost grows.
const PHASES: [(&str, Measure, Factor); 4] = [
    ("detection", |one| Some(one.detection_ns), |_| 0),
    ("election", |one| Some(one.election_ns), election_messages),
    (
        "recovery",
        |one| Some(one.phase_2_ns()),
        |alive| u64::from(alive),
    ),
    ("first write", |one| one.first_write_ns, |_| 0),
];

/// Judges one kind of recovery, with `margin` percent added to what was only estimated.
pub fn judge(breakdown: &Breakdown, case: &Case, margin: u32) -> Result<Judged, Failure> {
    let of_variant: Vec<&Recovery> = breakdown
        .recoveries
        .iter()
        .filter(|one| one.variant == case.variant && one.cause == case.cause)
        .collect();
    let known = match &breakdown.parameters {
        Some(parameters) => {
            let protocol = protocol(&case.variant)?;
            let bound = protocol.bound(parameters, case.servers - 1, Network::Local);
            Some(bound.map_err(Failure::from_error)?)
        }
        None => None,
    };
    // Every other recovery of each size estimates, the rest is what the bound has to stand up to.
    let (estimating, rest) = halves(&of_variant);
    let judged = if known.is_some() { of_variant } else { rest };
    let judged: Vec<&Recovery> = judged
        .into_iter()
        .filter(|one| one.servers == case.servers)
        .collect();
    let mut phases = Vec::new();
    for (name, measure, factor) in PHASES {
        let given = known.as_ref().and_then(|bound| match name {
            "election" => Some(bound.election_ns),
            "recovery" => Some(bound.recovery_ns),
            _ => None,
        });
        let predicted = match given {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => estimate(&estimating, measure, factor, case.servers, margin)?,
        };
        let measured: Vec<u64> = judged.iter().filter_map(|one| measure(one)).collect();
        if let Some(&longest) = measured.iter().max() {
            phases.push(Phase {
                name,
                predicted,
                measured: Duration::from_nanos(longest),
                recoveries: measured.len(),
            });
        }
    }
    phases.extend(total(&phases, &judged));
    Ok(Judged {
        phases,
        method: known.as_ref().map_or_else(
            || format!("smallest envelope over every other recovery, {margin} % above"),
            |bound| format!("{}; detection and first write by envelope", bound.method),
        ),
        assumptions: known.map_or_else(
            || vec!["the recoveries to come are like those that estimated".to_owned()],
            |bound| bound.assumptions,
        ),
    })
}

fn halves<'a>(all: &[&'a Recovery]) -> (Vec<&'a Recovery>, Vec<&'a Recovery>) {
    let mut seen = std::collections::BTreeMap::new();
    all.iter().partition(|one| {
        let count = seen.entry(one.servers).or_insert(0_u32);
        *count += 1;
        *count % 2 == 1
    })
}

fn estimate(
    estimating: &[&Recovery],
    measure: Measure,
    factor: Factor,
    servers: u32,
    margin: u32,
) -> Result<Option<Duration>, Failure> {
    let observations: Vec<Observation> = estimating
        .iter()
        .filter_map(|one| {
            let took = Duration::from_nanos(measure(one)?);
            Some(Observation {
                factor: factor(one.servers - 1),
                took,
            })
        })
        .collect();
    if observations.is_empty() {
        return Ok(None);
    }
    let envelope = Envelope::around(&observations).map_err(Failure::from_error)?;
    let bound = envelope
        .at(factor(servers - 1))
        .map_err(Failure::from_error)?;
    Ok(Some(bound.scaled_up(100 + u64::from(margin), 100)))
}

/// The sum of the phases' bounds beside the longest recovery.
fn total(phases: &[Phase], judged: &[&Recovery]) -> Option<Phase> {
    let longest = judged.iter().map(|one| one.total_ns).max()?;
    let predicted = phases
        .iter()
        .try_fold(Duration::from_nanos(0), |sum, phase| {
            sum.checked_add(phase.predicted?)
        });
    Some(Phase {
        name: "total",
        predicted,
        measured: Duration::from_nanos(longest),
        recoveries: judged.len(),
    })
}

fn protocol(variant: &str) -> Result<Protocol, Failure> {
    match variant {
        "vanilla" | "vanilla-best" => Ok(Protocol::Vanilla),
        "thesis-lite" => Ok(Protocol::ThesisLite),
        "thesis-full" => Ok(Protocol::ThesisFull),
        // What a write under way leaves behind when the leader dies.
        "tailbound" => Ok(Protocol::CompleteVote {
            uncommitted_tail: true,
        }),
        other => Err(Failure::with_help(
            format!("no equation is known for variant \"{other}\""),
            "vanilla, vanilla-best, thesis-lite, thesis-full and tailbound have one; without \
             `parameters` in the file any variant is estimated",
        )),
    }
}
