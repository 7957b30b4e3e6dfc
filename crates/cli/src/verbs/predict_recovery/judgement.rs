//! Predicted bounds beside measured maxima, for the recoveries of one kind.

use tailbound_analysis::recovery::{Envelope, Network, Observation, Protocol, election_messages};
use tailbound_time::Duration;

use super::breakdown::{Breakdown, Recovery};
use super::busy_host::BusyHost;
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
    /// The bound where all threads of the servers have CPUs, if there is one.
    pub alone: Option<Duration>,
    /// The bound or the estimate for the host in question, if there is one.
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
    /// Whether the measured recoveries are of the host in question.
    pub comparable: bool,
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

/// Judges one kind of recovery, with `margin` percent added to what was only estimated. The recoveries
/// of the breakdown are of a host with CPUs for all; `busy` is the host in question, if another one.
pub fn judge(
    breakdown: &Breakdown,
    case: &Case,
    margin: u32,
    busy: Option<&BusyHost>,
) -> Result<Judged, Failure> {
    let of_variant = breakdown.of(&case.variant, &case.cause);
    let known = match &breakdown.parameters {
        Some(parameters) => {
            let protocol = protocol(&case.variant)?;
            let bound = protocol.bound(parameters, case.servers - 1, Network::Local);
            Some(bound.map_err(Failure::from_error)?)
        }
        None => None,
    };
    let (estimating, compared) = parted(&of_variant, case, known.is_some(), busy);
    let mut phases = Vec::new();
    for (name, measure, factor) in PHASES {
        let given = known.as_ref().and_then(|bound| match name {
            "election" => Some(bound.election_ns),
            "recovery" => Some(bound.recovery_ns),
            _ => None,
        });
        let alone = match given {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => estimate(&estimating, measure, factor, case.servers, margin)?,
        };
        let predicted = stretched(alone, case, busy)?;
        let measured: Vec<u64> = compared.iter().filter_map(|one| measure(one)).collect();
        if let Some(&longest) = measured.iter().max() {
            phases.push(Phase {
                name,
                alone,
                predicted,
                measured: Duration::from_nanos(longest),
                recoveries: measured.len(),
            });
        }
    }
    phases.extend(total(&phases, &compared, case, busy)?);
    let mut method = known.as_ref().map_or_else(
        || match busy {
            Some(_) => format!("smallest envelope over all recoveries, {margin} % above"),
            None => format!("smallest envelope over every other recovery, {margin} % above"),
        },
        |bound| format!("{}; detection and first write by envelope", bound.method),
    );
    let mut assumptions = known.map_or_else(
        || vec!["the recoveries to come are like those that estimated".to_owned()],
        |bound| bound.assumptions,
    );
    if let Some(busy) = busy {
        method = format!("{method}; {}", busy.share.method());
        assumptions.extend(busy.share.assumptions());
    }
    Ok(Judged {
        phases,
        method,
        assumptions,
        comparable: busy.is_none_or(|busy| busy.against.is_some()),
    })
}

/// What the bounds are estimated from, and what they have to stand up to: recoveries of a busy host if
/// there are any, else those of the breakdown that estimate nothing.
fn parted<'a>(
    of_variant: &[&'a Recovery],
    case: &Case,
    known: bool,
    busy: Option<&'a BusyHost>,
) -> (Vec<&'a Recovery>, Vec<&'a Recovery>) {
    let (estimating, compared) = match busy {
        Some(busy) => {
            let against = busy.of(case).unwrap_or_else(|| of_variant.to_vec());
            (of_variant.to_vec(), against)
        }
        None => {
            let (estimating, rest) = halves(of_variant);
            let compared = if known { of_variant.to_vec() } else { rest };
            (estimating, compared)
        }
    };
    let same_size = |one: &&Recovery| one.servers == case.servers;
    (estimating, compared.into_iter().filter(same_size).collect())
}

fn stretched(
    alone: Option<Duration>,
    case: &Case,
    busy: Option<&BusyHost>,
) -> Result<Option<Duration>, Failure> {
    match (alone, busy) {
        (Some(alone), Some(busy)) => busy
            .share
            .stretch(alone, case.servers - 1)
            .map(Some)
            .map_err(Failure::from_error),
        (alone, _) => Ok(alone),
    }
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

/// The phases together beside the longest recovery.
fn total(
    phases: &[Phase],
    compared: &[&Recovery],
    case: &Case,
    busy: Option<&BusyHost>,
) -> Result<Option<Phase>, Failure> {
    let Some(longest) = compared.iter().map(|one| one.total_ns).max() else {
        return Ok(None);
    };
    let each: Option<Vec<Duration>> = phases.iter().map(|phase| phase.alone).collect();
    let alone = each.as_ref().and_then(|each| {
        each.iter()
            .try_fold(Duration::ZERO, |sum, one| sum.checked_add(*one))
    });
    let predicted = match (each, busy) {
        (Some(each), Some(busy)) => Some(
            busy.share
                .stretch_together(&each, case.servers - 1)
                .map_err(Failure::from_error)?,
        ),
        _ => alone,
    };
    Ok(Some(Phase {
        name: "total",
        alone,
        predicted,
        measured: Duration::from_nanos(longest),
        recoveries: compared.len(),
    }))
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
