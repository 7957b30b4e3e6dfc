//! When jobs come and how long they run.

use tailbound_time::{Duration, Rate};

use super::Check;
use crate::arrival_curve::ArrivalCurve;
use crate::description::Task;
use crate::parser::KeyPath;
use crate::workload::{Arrivals, Bin, ExecutionTime, Gaps, LaterDistance, PoissonState};

/// A second of shorter stays would take a simulation longer than a second.
const SHORTEST_STAY: Duration = Duration::from_micros(1);

/// Checks when the jobs of a task come.
pub(super) fn arrivals(check: &mut Check<'_>, place: &KeyPath, arrivals: &Arrivals) {
    match arrivals {
        Arrivals::Periodic { period, .. } => {
            check.above_zero(&place.key("period"), "the period", *period)
        }
        Arrivals::Sporadic {
            min_gap, max_gap, ..
        } => {
            check.above_zero(&place.key("min_gap"), "the minimal gap", *min_gap);
            if max_gap < min_gap {
                let message = format!("max_gap {max_gap} is shorter than min_gap {min_gap}");
                check.error(
                    &place.key("max_gap"),
                    message,
                    "exchange them, or correct one",
                );
            }
        }
        Arrivals::SporadicExponential {
            min_gap, mean_gap, ..
        } => {
            check.above_zero(&place.key("min_gap"), "the minimal gap", *min_gap);
            above_least(
                check,
                &place.key("mean_gap"),
                ("min_gap", *min_gap),
                *mean_gap,
            );
        }
        Arrivals::Bursts {
            jobs,
            spacing,
            gaps,
            ..
        } => bursts(check, place, *jobs, *spacing, gaps),
        Arrivals::Poisson { rate } => servable(check, &place.key("rate"), *rate),
        Arrivals::MarkovModulatedPoisson { states } => modulated(check, place, states),
        curve @ Arrivals::MinimumDistances {
            distances,
            later,
            mean_gap,
        } => {
            minimum_distances(check, place, distances, later);
            mean_of_distances(check, place, curve, *mean_gap);
        }
        Arrivals::Trace { file } => path(check, &place.key("file"), file),
        Arrivals::Users {} => {}
    }
}

fn servable(check: &mut Check<'_>, place: &KeyPath, rate: Rate) {
    if rate.mean_gap().is_zero() {
        let message = format!("{rate} is more than one per nanosecond");
        check.error(place, message, "write a rate that a host can serve");
    }
}

fn modulated(check: &mut Check<'_>, place: &KeyPath, states: &[PoissonState]) {
    let here = place.key("states");
    if states.iter().all(|state| state.rate.is_none()) {
        check.error(
            &here,
            "no job comes in any state",
            "give at least one of them a `rate`",
        );
    }
    for (index, state) in states.iter().enumerate() {
        let here = here.index(index);
        if let Some(rate) = state.rate {
            servable(check, &here.key("rate"), rate);
        }
        if state.mean_stay < SHORTEST_STAY {
            check.error(
                &here.key("mean_stay"),
                format!("a mean stay of {} is too short to matter", state.mean_stay),
                format!("write at least \"{SHORTEST_STAY}\""),
            );
        }
    }
}

/// An exponential rest has a mean above zero.
fn above_least(
    check: &mut Check<'_>,
    place: &KeyPath,
    (least_key, least): (&str, Duration),
    mean: Duration,
) {
    if mean <= least {
        check.error(
            place,
            format!("the mean gap {mean} is not above {least_key} {least}"),
            "lengthen it; for gaps that are all the same, use periodic arrivals or uniform gaps",
        );
    }
}

fn bursts(check: &mut Check<'_>, place: &KeyPath, jobs: u32, spacing: Duration, gaps: &Gaps) {
    let here = place.key("gaps");
    match gaps {
        Gaps::Uniform { min, max } => {
            check.above_zero(&here.key("max"), "the longest gap", *max);
            if max < min {
                let message = format!("max {max} is shorter than min {min}");
                check.error(&here.key("max"), message, "exchange them, or correct one");
            }
        }
        Gaps::Exponential { min, mean } => {
            above_least(check, &here.key("mean"), ("min", *min), *mean);
        }
    }
    let length = spacing.checked_mul(u64::from(jobs.saturating_sub(1)));
    let length = length.unwrap_or(Duration::MAX);
    if length > gaps.least() {
        check.error(
            &here.key("min"),
            format!(
                "a burst takes {length}, and the next may start {} after it",
                gaps.least()
            ),
            "make the shortest gap at least as long as a burst, or the spacing shorter",
        );
    }
}

fn minimum_distances(
    check: &mut Check<'_>,
    place: &KeyPath,
    distances: &[Duration],
    later: &[LaterDistance],
) {
    let here = place.key("distances");
    for (index, pair) in distances.windows(2).enumerate() {
        if let [before, after] = pair
            && after < before
        {
            check.error(
                &here.index(index + 1),
                format!("{after} is shorter than {before}, the distance to the job before"),
                "distances count from the same job and never fall, such as [\"200us\", \"1ms\"]",
            );
        }
    }
    let last_distance = distances.last().copied().unwrap_or(Duration::ZERO);
    let mut before = (distances.len() as u64, last_distance);
    for (index, one) in later.iter().enumerate() {
        let here = place.key("later").index(index);
        if one.jobs <= before.0 {
            let message = format!(
                "{} jobs later is no later than {}, which stands before",
                one.jobs, before.0
            );
            check.error(
                &here.key("jobs"),
                message,
                "write them in rising order, beyond `distances`",
            );
        }
        if one.distance < before.1 {
            let message = format!(
                "{} is shorter than {}, the distance to fewer jobs",
                one.distance, before.1
            );
            check.error(
                &here.key("distance"),
                message,
                "distances count from the same job and never fall",
            );
        }
        before = (one.jobs, one.distance);
    }
    if !distances.is_empty() {
        let here = match later.len() {
            0 => place.key("distances").index(distances.len() - 1),
            count => place.key("later").index(count - 1).key("distance"),
        };
        check.above_zero(&here, "the longest distance", before.1);
    }
}

/// A mean gap that the distances leave room for.
fn mean_of_distances(
    check: &mut Check<'_>,
    place: &KeyPath,
    arrivals: &Arrivals,
    mean_gap: Option<Duration>,
) {
    let (Some(mean_gap), Some(curve)) = (mean_gap, ArrivalCurve::of(arrivals)) else {
        return;
    };
    let (jobs, length) = curve.rate();
    if u128::from(mean_gap.as_nanos()) * u128::from(jobs) <= u128::from(length.as_nanos()) {
        check.error(
            &place.key("mean_gap"),
            format!(
                "the mean gap {mean_gap} is not above {}, which the distances allow at best",
                length / jobs
            ),
            "lengthen it, or leave it out: then jobs come as soon as the distances allow",
        );
    }
}

fn path(check: &mut Check<'_>, place: &KeyPath, file: &std::path::Path) {
    if file.as_os_str().is_empty() {
        check.error(
            place,
            "the file's name is empty",
            "name a file; relative paths start at the description",
        );
    }
}

/// Checks how long the jobs of a task run.
pub(super) fn execution_time(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    let is_of_no_trace = matches!(task.execution_time, ExecutionTime::Trace {})
        && !matches!(task.arrivals, Arrivals::Trace { .. });
    match is_of_no_trace {
        true => check.error(
            place,
            "the execution times are those of a trace, and the arrivals are not",
            "add arrivals = { kind = \"trace\", file = \"jobs.csv\" }, or use samples",
        ),
        false => lengths(check, place, &task.execution_time),
    }
}

/// Checks a law of execution times.
pub(super) fn lengths(check: &mut Check<'_>, place: &KeyPath, law: &ExecutionTime) {
    match law {
        ExecutionTime::Constant { value } => {
            check.above_zero(&place.key("value"), "the execution time", *value)
        }
        law @ (ExecutionTime::Uniform { .. }
        | ExecutionTime::Exponential { .. }
        | ExecutionTime::Lognormal { .. }) => {
            if let ExecutionTime::Uniform { max, .. } = law {
                check.above_zero(&place.key("max"), "the longest execution time", *max);
            }
            for reversal in law.reversals() {
                let key = place.key(reversal.upper.0);
                check.error(&key, reversal.message(), reversal.remedy());
            }
        }
        ExecutionTime::Samples { file } => path(check, &place.key("file"), file),
        ExecutionTime::Histogram { bins, file } => histogram(check, place, bins, file.as_deref()),
        ExecutionTime::Trace {} => {}
        ExecutionTime::Calibrated { expected } => {
            if let Some(expected) = expected {
                check.above_zero(
                    &place.key("expected"),
                    "the expected execution time",
                    *expected,
                );
            }
        }
    }
}

/// Refuses what the synthetic service needs no calibration for.
pub(super) fn never_calibrated(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    if matches!(task.execution_time, ExecutionTime::Calibrated { .. }) {
        check.error(
            place,
            "a synthetic service runs for as long as it is told, and the kernel answers echo requests: \
there is nothing to calibrate",
            "use constant, uniform, exponential, lognormal, samples or histogram",
        );
    }
}

fn histogram(check: &mut Check<'_>, place: &KeyPath, bins: &[Bin], file: Option<&std::path::Path>) {
    match (bins.is_empty(), file) {
        (true, Some(file)) => path(check, &place.key("file"), file),
        (true, None) => check.error(
            place,
            "the histogram has no bins",
            "add `bins`, such as [{ from = \"1ms\", to = \"2ms\", count = 3 }], or a `file`",
        ),
        (false, Some(_)) => check.error(
            &place.key("file"),
            "the histogram has bins here and in a file",
            "leave one of them out",
        ),
        (false, None) => {}
    }
    let here = place.key("bins");
    for (index, bin) in bins.iter().enumerate() {
        if bin.to < bin.from {
            let message = format!("to {} is shorter than from {}", bin.to, bin.from);
            let place = here.index(index).key("to");
            check.error(&place, message, "exchange them, or correct one");
        }
    }
    let counted = bins.iter().any(|bin| bin.count > 0 && !bin.to.is_zero());
    if !bins.is_empty() && !counted {
        check.error(
            &here,
            "no bin has a job that takes any time",
            "give at least one bin a count and an end above zero",
        );
    }
}
