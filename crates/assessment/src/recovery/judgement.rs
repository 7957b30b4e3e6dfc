//! Predicted bounds beside measured maxima, for the recoveries of one kind.

use tailbound_analysis::recovery::{
    Envelope, MeasuredPhase, Network, RecoveryBound, RecoveryProtocol, election_messages,
};
use tailbound_distribution::Evidence;
use tailbound_time::Duration;

use super::{
    Breakdown, BusyHost, PhaseBound, RecoveryAnswer, RecoveryCase, RecoveryError, ServerRecovery,
};

type Measure = fn(&ServerRecovery) -> Option<u64>;
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

/// Judges one kind of recovery, and adds its phases to `answer`.
pub(super) fn judge(
    breakdown: &Breakdown,
    case: &RecoveryCase,
    margin: u32,
    busy: Option<&BusyHost>,
    answer: &mut RecoveryAnswer,
) -> Result<(), RecoveryError> {
    let of_variant = breakdown.of(&case.variant, &case.cause);
    let (bound, of_equations) = match &breakdown.parameters {
        Some(parameters) => {
            let protocol = protocol(&case.variant)?;
            let bound = protocol.bound(parameters, case.servers - 1, Network::Local)?;
            (Some(bound), protocol.evidence())
        }
        None => (None, Evidence::Estimate),
    };
    let (estimating, compared) = parted(&of_variant, case, bound.is_some(), busy);
    if compared.is_empty() {
        answer.unmeasured.push(case.clone());
    }
    let mut bounds = Vec::new();
    for (name, measure, factor) in PHASES {
        let measured = compared.iter().filter_map(|one| measure(one));
        let given = bound.as_ref().and_then(|bound| match name {
            "election" => Some(bound.election_ns),
            "recovery" => Some(bound.recovery_ns),
            _ => None,
        });
        let alone = match given {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => estimate(&estimating, measure, factor, case.servers, margin)?,
        };
        let predicted = match (alone, busy) {
            (Some(alone), Some(busy)) => Some(busy.share.stretch(alone, case.servers - 1)?),
            (alone, _) => alone,
        };
        let evidence = match given {
            Some(_) => of_equations,
            None => Evidence::Estimate,
        };
        let judged = phase(case, name, (alone, predicted, evidence), measured, busy);
        bounds.extend(judged.is_some().then_some(alone));
        answer.phases.extend(judged);
    }
    if !compared.is_empty() {
        let totals = compared.iter().map(|one| one.total_ns);
        let (alone, predicted) = total(bounds.into_iter().collect(), case, busy)?;
        // Detection and the first write are never bounded, so that their sum with the others is not, either.
        let total = (alone, predicted, Evidence::Estimate);
        answer
            .phases
            .extend(phase(case, "total", total, totals, busy));
    }
    explain(bound, margin, busy, answer);
    Ok(())
}

/// Adds to `answer` by which methods one kind of recovery was predicted, and their assumptions.
fn explain(
    bound: Option<RecoveryBound>,
    margin: u32,
    busy: Option<&BusyHost>,
    answer: &mut RecoveryAnswer,
) {
    let mut method = match (&bound, busy) {
        (Some(bound), _) => format!("{}; detection and first write by envelope", bound.method),
        (None, Some(_)) => format!("smallest envelope over all recoveries, {margin} % above"),
        (None, None) => format!("smallest envelope over every other recovery, {margin} % above"),
    };
    match bound {
        Some(bound) => answer.assumptions.extend(bound.assumptions),
        None => {
            let likeness = "the recoveries to come are like those that estimated";
            answer.assumptions.insert(likeness.to_owned());
        }
    }
    if let Some(busy) = busy {
        method = format!("{method}; {}", busy.share.method());
        answer.assumptions.extend(busy.share.assumptions());
    }
    answer.methods.insert(method);
}

/// The predictions for a phase, alone with their evidence and on the host in question, beside the longest one measured;
/// none where none was measured. Recoveries of the breakdown are not held against predictions for another host.
fn phase(
    case: &RecoveryCase,
    phase: &'static str,
    (alone, predicted, evidence): (Option<Duration>, Option<Duration>, Evidence),
    measured_ns: impl Iterator<Item = u64> + Clone,
    busy: Option<&BusyHost>,
) -> Option<PhaseBound> {
    let measured_max = Duration::from_nanos(measured_ns.clone().max()?);
    let comparable = busy.is_none_or(|busy| busy.against.is_some());
    let judged = predicted.filter(|_| comparable);
    Some(PhaseBound {
        case: case.clone(),
        phase,
        alone: busy.and(alone),
        predicted,
        evidence: predicted.map(|_| match busy.map(|busy| busy.share.evidence()) {
            Some(Evidence::Estimate) => Evidence::Estimate,
            _ => evidence,
        }),
        measured_max,
        recoveries: measured_ns.count(),
        holds: judged.map(|bound| measured_max <= bound),
    })
}

/// Recoveries from which the bounds are estimated, and those that the bounds have to hold: recoveries of a busy host if
/// there are any, else those of the breakdown that estimate nothing.
fn parted<'a>(
    of_variant: &[&'a ServerRecovery],
    case: &RecoveryCase,
    are_given: bool,
    busy: Option<&'a BusyHost>,
) -> (Vec<&'a ServerRecovery>, Vec<&'a ServerRecovery>) {
    let (estimating, compared) = match busy {
        Some(busy) => {
            let against = busy.of(case).unwrap_or_else(|| of_variant.to_vec());
            (of_variant.to_vec(), against)
        }
        None => {
            let (estimating, rest) = halves(of_variant);
            let compared = if are_given { of_variant.to_vec() } else { rest };
            (estimating, compared)
        }
    };
    let same_size = |one: &&ServerRecovery| one.servers == case.servers;
    (estimating, compared.into_iter().filter(same_size).collect())
}

fn halves<'a>(all: &[&'a ServerRecovery]) -> (Vec<&'a ServerRecovery>, Vec<&'a ServerRecovery>) {
    let mut seen = std::collections::BTreeMap::new();
    all.iter().partition(|one| {
        let count = seen.entry(one.servers).or_insert(0_u32);
        *count += 1;
        *count % 2 == 1
    })
}

fn estimate(
    estimating: &[&ServerRecovery],
    measure: Measure,
    factor: Factor,
    servers: u32,
    margin: u32,
) -> Result<Option<Duration>, RecoveryError> {
    let observations: Vec<MeasuredPhase> = estimating
        .iter()
        .filter_map(|one| {
            let took = Duration::from_nanos(measure(one)?);
            Some(MeasuredPhase {
                factor: factor(one.servers - 1),
                took,
            })
        })
        .collect();
    if observations.is_empty() {
        return Ok(None);
    }
    let bound = Envelope::around(&observations)?.at(factor(servers - 1))?;
    Ok(Some(bound.scaled_up(100 + u64::from(margin), 100)))
}

/// The bounds of all phases together, alone and on the host in question; none where one phase has none.
fn total(
    phases: Option<Vec<Duration>>,
    case: &RecoveryCase,
    busy: Option<&BusyHost>,
) -> Result<(Option<Duration>, Option<Duration>), RecoveryError> {
    let Some(phases) = phases else {
        return Ok((None, None));
    };
    let mut each = phases.iter();
    let alone = each.try_fold(Duration::ZERO, |sum, one| sum.checked_add(*one));
    let predicted = match busy {
        Some(busy) => Some(busy.share.stretch_together(&phases, case.servers - 1)?),
        None => alone,
    };
    Ok((alone, predicted))
}

fn protocol(variant: &str) -> Result<RecoveryProtocol, RecoveryError> {
    match variant {
        "vanilla" | "vanilla-best" => Ok(RecoveryProtocol::Vanilla),
        "thesis-lite" => Ok(RecoveryProtocol::ThesisLite),
        "thesis-full" => Ok(RecoveryProtocol::ThesisFull),
        // A write under way leaves an uncommitted tail behind when the leader dies.
        "tailbound" => Ok(RecoveryProtocol::CompleteVote {
            uncommitted_tail: true,
        }),
        other => Err(RecoveryError::NoEquation {
            variant: other.to_owned(),
        }),
    }
}
