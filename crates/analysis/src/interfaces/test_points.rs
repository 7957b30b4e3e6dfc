//! How far, and at which points, demand has to be held against supply.

use num_traits::ToPrimitive;
use tailbound_time::Duration;

use super::demand::{LONGEST, Workload};
use super::supply::SupplyBound;
use crate::rational::common_multiple;
use crate::{AnalysisError, SporadicTask};

/// The most points that demand and supply are compared at in one test.
pub(crate) const MOST_POINTS: u64 = 400_000;
/// Binary digits of the fraction in rounded rates.
const FRACTION: u32 = 40;

pub(crate) fn too_many_points(what: &str) -> AnalysisError {
    AnalysisError::NotAnalysed {
        reason: format!(
            "{what}, so that too many points in time would have to be tested; leave more \
             bandwidth above the utilisation, or make the periods harmonic"
        ),
    }
}

/// A length from which on a demand of at most `constant_work` + U t never exceeds the supply;
/// `None` where the rate is not discernibly above the utilisation U.
pub(crate) fn linear_horizon(
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
        .map(|task| share_up((task.execution().as_nanos(), task.period().as_nanos())));
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
pub(crate) fn common_period(
    workload: &Workload,
    count: usize,
    supply: &dyn SupplyBound,
) -> Option<Duration> {
    let tasks = workload.tasks().iter().take(count);
    let periods = tasks.map(|task| task.period().as_nanos());
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
pub(crate) fn demand_horizon(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Duration, AnalysisError> {
    // dbf(t) <= U t + the sum of C (T + J - D) / T over tasks where that is above zero.
    let constant = |task: &SporadicTask| {
        let ahead = (task.period() + task.jitter()).saturating_sub(task.deadline());
        (u128::from(ahead.as_nanos()) * u128::from(task.execution().as_nanos()))
            .div_ceil(u128::from(task.period().as_nanos()))
    };
    let linear = linear_horizon(
        workload,
        workload.tasks().iter().map(constant).sum(),
        supply,
    );
    let latest_start = |task: &SporadicTask| task.deadline().saturating_sub(task.jitter());
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

/// What is held against a supply.
pub(crate) trait Demand {
    /// What is asked for in a window; it never falls.
    fn in_window(&self, window: Duration) -> Duration;

    /// Whether asking for just what is supplied may be too much.
    fn tie_fails(&self, window: Duration) -> bool;

    /// The next window below at which demand less supply may be highest among its neighbours.
    fn next_before(&self, window: Duration) -> Option<Duration>;
}

/// A window at which a demand exceeds the supply, if there is one from `until` up to `horizon`.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] after too many points.
pub(crate) fn find_shortage(
    until: Duration,
    horizon: Duration,
    supply: &dyn SupplyBound,
    demand: &impl Demand,
) -> Result<Option<Duration>, AnalysisError> {
    WindowSweep::from(until).next_shortage(horizon, supply, demand)
}

/// A walk over all windows, which may go on with more supply where it found too little: windows
/// that once were long enough stay so. Most shortages are in short windows, so these come first,
/// and then each time up to eight times longer ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSweep {
    /// The windows up to here are long enough ...
    low: Duration,
    /// ... and those from here on, ...
    at: Duration,
    /// ... up to here.
    high: Duration,
    points: u64,
    most_points: u64,
}

impl WindowSweep {
    /// A walk over the windows from `until` on.
    pub(crate) fn from(until: Duration) -> Self {
        let high = until.saturating_add(until).max(Duration::from_nanos(1_000));
        Self {
            low: until,
            at: high,
            high,
            points: 0,
            most_points: MOST_POINTS,
        }
    }

    /// The same walk with fewer points at a time, for one of `count` walks of a search.
    pub(crate) fn of_a_search(mut self, count: usize) -> Self {
        self.most_points = MOST_POINTS / 8 / (count as u64).max(1);
        self
    }

    /// Lets the walk go on after too many points.
    pub(crate) fn renew(&mut self) {
        self.points = 0;
    }

    /// The next window that is too short, up to `horizon`, from which on none is.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] after too many points.
    pub(crate) fn next_shortage(
        &mut self,
        horizon: Duration,
        supply: &dyn SupplyBound,
        demand: &impl Demand,
    ) -> Result<Option<Duration>, AnalysisError> {
        if self.at > horizon {
            self.at = horizon.max(self.low);
            self.high = self.at;
        }
        loop {
            if let Some(window) = self.find_downwards(supply, demand)? {
                self.at = window;
                return Ok(Some(window));
            }
            if self.high >= horizon {
                return Ok(None);
            }
            self.low = self.high;
            self.high = self
                .high
                .checked_mul(8)
                .unwrap_or(Duration::MAX)
                .min(horizon);
            self.at = self.high;
        }
    }

    /// From `at` down to `low`, by jumps that leave out only windows that are not too short
    /// (Zhang and Burns 2009, with the supply in place of time).
    fn find_downwards(
        &mut self,
        supply: &dyn SupplyBound,
        demand: &impl Demand,
    ) -> Result<Option<Duration>, AnalysisError> {
        let mut at = self.at;
        loop {
            self.points += 1;
            if self.points > self.most_points {
                // To go on from here with fresh points and more supply.
                self.at = at;
                return Err(too_many_points("demand and supply stay close for long"));
            }
            let demanded = demand.in_window(at);
            let supplied = supply.supplied_down(at);
            if demanded > supplied || (demanded == supplied && demand.tie_fails(at)) {
                return Ok(Some(at));
            }
            if at <= self.low {
                return Ok(None);
            }
            // Down to where just this much is supplied, no less can be too little; and down to the
            // next bend it is so at both ends, if there.
            let enough = supply.time_to_supply(demanded);
            let next = demand.next_before(at).map(|bend| bend.min(enough));
            match next {
                Some(next) => at = next.max(self.low),
                None => return Ok(None),
            }
        }
    }
}

/// The demand bound function of EDF on one CPU, which rises at deadlines only.
impl Demand for Workload {
    fn in_window(&self, window: Duration) -> Duration {
        self.demand_bound(window)
    }

    fn tie_fails(&self, _: Duration) -> bool {
        false
    }

    fn next_before(&self, window: Duration) -> Option<Duration> {
        self.latest_deadline(window).map(|(_, due)| due)
    }
}
