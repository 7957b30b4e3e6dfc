//! How far, and at which points, demand has to be held against supply.

use tailbound_time::Duration;

use super::demand::{LONGEST, Workload};
use super::supply::SupplyBound;
use crate::AnalysisError;
use crate::periodic_load::common_multiple;

/// The most points that demand and supply are compared at in one test.
pub(super) const MOST_POINTS: u64 = 3_000_000;
/// Binary digits of the fraction in rounded rates.
const FRACTION: u32 = 40;

pub(super) fn too_many_points(what: &str) -> AnalysisError {
    AnalysisError::NotAnalysed {
        reason: format!(
            "{what}, so that too many points in time would have to be tested; leave more \
             bandwidth above the utilisation, or make the periods harmonic"
        ),
    }
}

/// A length from which on a demand of at most `constant_work` + U t never exceeds the supply;
/// `None` where the rate is not discernibly above the utilisation U.
pub(super) fn linear_horizon(
    workload: &Workload,
    constant_work: u128,
    supply: &dyn SupplyBound,
) -> Option<Duration> {
    let (numerator, denominator) = supply.rate();
    let rate_down = (u128::from(numerator) << FRACTION) / u128::from(denominator.max(1));
    let share_up = |(execution, period): (u64, u64)| {
        (u128::from(execution) << FRACTION).div_ceil(u128::from(period))
    };
    let shares = workload
        .tasks()
        .iter()
        .map(|task| share_up((task.execution.as_nanos(), task.period.as_nanos())));
    let gap = rate_down.checked_sub(shares.sum())?;
    let delay = u128::from(supply.delay_up().as_nanos());
    // rate x delay, rounded up; the delay is below 2^57 and the rate below 2^32.
    let late = (((rate_down + 1) * delay) >> FRACTION) + 1;
    let ahead = constant_work.checked_add(late)?;
    if gap == 0 || ahead >= 1 << 80 {
        return None;
    }
    let length = u64::try_from((ahead << FRACTION).div_ceil(gap)).ok()?;
    (length <= LONGEST.as_nanos() * 32).then(|| Duration::from_nanos(length))
}

/// The common multiple of the periods of the first `count` tasks and of the supply, if it is not
/// beyond all use.
pub(super) fn common_period(
    workload: &Workload,
    count: usize,
    supply: &dyn SupplyBound,
) -> Option<Duration> {
    let tasks = workload.tasks().iter().take(count);
    let periods = tasks.map(|task| task.period.as_nanos());
    let multiple = common_multiple(periods.chain([supply.repeats_after().as_nanos().max(1)]));
    let multiple = multiple.to_u64().map(Duration::from_nanos)?;
    (multiple <= LONGEST).then_some(multiple)
}

/// A length from which on the demand bound function of EDF exceeds the supply only if it does so
/// before. The utilisation is at most the rate.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] where the two are the same and the pattern of demand and supply
/// takes too long to repeat.
pub(super) fn demand_horizon(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Duration, AnalysisError> {
    // dbf(t) <= U t + the sum of C (T + J - D) / T over tasks where that is above zero.
    let constant = |task: &super::RecurringTask| {
        let ahead = (task.period + task.jitter).saturating_sub(task.deadline);
        (u128::from(ahead.as_nanos()) * u128::from(task.execution.as_nanos()))
            .div_ceil(u128::from(task.period.as_nanos()))
    };
    let linear = linear_horizon(
        workload,
        workload.tasks().iter().map(constant).sum(),
        supply,
    );
    let latest_start = |task: &super::RecurringTask| task.deadline.saturating_sub(task.jitter);
    let starts = workload.tasks().iter().map(latest_start);
    let start = starts.max().unwrap_or_default().max(supply.delay_up());
    let repeating = common_period(workload, workload.tasks().len(), supply)
        .and_then(|period| period.checked_add(start));
    match (linear, repeating) {
        (Some(linear), Some(repeating)) => Ok(linear.min(repeating)),
        (Some(only), None) | (None, Some(only)) => Ok(only),
        (None, None) => Err(too_many_points(
            "the utilisation is all but the bandwidth, and the pattern takes too long to repeat",
        )),
    }
}

/// The first point found at which a demand exceeds the supply, if any: from `from` down to
/// `until`, by jumps that leave out only points where it does not (Zhang and Burns 2009, with the
/// supply in place of time). `demand` never falls; between neighbouring points of `before`, which
/// gives the next lower one, demand less supply is highest at an end. Where the two are the same,
/// `tie_fails` decides.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] after too many points.
pub(super) fn find_shortage(
    from: Duration,
    until: Duration,
    supply: &dyn SupplyBound,
    demand: impl Fn(Duration) -> Duration,
    tie_fails: impl Fn(Duration) -> bool,
    before: impl Fn(Duration) -> Option<Duration>,
) -> Result<Option<Duration>, AnalysisError> {
    let mut at = from;
    for _ in 0..MOST_POINTS {
        let demanded = demand(at);
        let supplied = supply.supplied_down(at);
        if demanded > supplied || (demanded == supplied && tie_fails(at)) {
            return Ok(Some(at));
        }
        // Down to where just this much is supplied, no less can be too little.
        let enough = supply.time_to_supply(demanded);
        let next = if enough < at {
            Some(enough)
        } else {
            before(at)
        };
        match next {
            _ if at <= until => return Ok(None),
            Some(next) => at = next.max(until),
            None => return Ok(None),
        }
    }
    Err(too_many_points("demand and supply stay close for long"))
}
