//! The explicit-deadline periodic resource model (Easwaran, Anand and Lee 2007).

use serde::Serialize;
use tailbound_time::Duration;

use super::component::{LocalScheduler, schedulable};
use super::demand::{LONGEST, Workload};
use super::supply::SupplyBound;
use crate::AnalysisError;

/// The budget is given in every period, by the deadline after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExplicitDeadlinePeriodic {
    budget: Duration,
    period: Duration,
    deadline: Duration,
}

impl ExplicitDeadlinePeriodic {
    /// A resource of `budget` in every `period`, by `deadline` after its start.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget <= deadline <= period and
    /// 0 < period <= [`LONGEST`].
    pub fn new(
        budget: Duration,
        period: Duration,
        deadline: Duration,
    ) -> Result<Self, AnalysisError> {
        if period.is_zero() || period > LONGEST || budget > deadline || deadline > period {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "a budget of {budget} by {deadline} in every {period} cannot be given; the \
                     deadline must lie between budget and period, and the period be above zero \
                     and at most {LONGEST}"
                ),
            });
        }
        Ok(Self {
            budget,
            period,
            deadline,
        })
    }

    /// The resource whose deadline is the worst-case response time of a server that others may hold
    /// up by `jitter` altogether while it spends a budget: budget + jitter, at most the period.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn by_response_time(
        budget: Duration,
        period: Duration,
        jitter: Duration,
    ) -> Result<Self, AnalysisError> {
        Self::new(budget, period, budget.saturating_add(jitter))
    }

    /// The CPU time per period.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// By when in each period the budget has been given.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The longest time without supply: given at once in one period, and as late as allowed in
    /// the next.
    pub fn longest_gap(&self) -> Duration {
        // The budget is at most the deadline and the period.
        (self.period - self.budget) + (self.deadline - self.budget)
    }

    /// The linear lower bound of the supply, (budget / period) (t - longest gap), rounded down.
    pub fn supplied_linearly_down(&self, window: Duration) -> Duration {
        window
            .saturating_sub(self.longest_gap())
            .scaled_down(self.budget.as_nanos(), self.period.as_nanos())
    }

    /// The latest deadline at which `workload` is schedulable with this budget and period, which
    /// is the least demanding for those who share the CPU (section 4 of the paper); exact, by
    /// bisection, since the supply falls with the deadline. `None` if no deadline will do.
    ///
    /// # Errors
    /// As of [`new`](Self::new) and [`schedulable`].
    pub fn with_latest_deadline(
        workload: &Workload,
        scheduler: LocalScheduler,
        budget: Duration,
        period: Duration,
    ) -> Result<Option<Self>, AnalysisError> {
        let at = |deadline_ns: u64| Self::new(budget, period, Duration::from_nanos(deadline_ns));
        let passes = |deadline_ns: u64| {
            schedulable(workload, scheduler, &at(deadline_ns)?).map(|verdict| verdict.schedulable)
        };
        let (mut good, mut bad) = (budget.as_nanos(), period.as_nanos());
        if passes(bad)? {
            return at(bad).map(Some);
        }
        if !passes(good)? {
            return Ok(None);
        }
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if passes(middle)? {
                good = middle;
            } else {
                bad = middle;
            }
        }
        at(good).map(Some)
    }
}

impl SupplyBound for ExplicitDeadlinePeriodic {
    fn supplied_down(&self, window: Duration) -> Duration {
        let Some(after) = window.checked_sub(self.longest_gap()) else {
            return Duration::ZERO;
        };
        let whole = after / self.period;
        // At most the window.
        self.budget * whole + (after % self.period).min(self.budget)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        let Some(before_last) = work.as_nanos().checked_sub(1) else {
            return Duration::ZERO;
        };
        let Some(whole) = before_last.checked_div(self.budget.as_nanos()) else {
            return Duration::MAX;
        };
        let rest = work - self.budget * whole;
        let full = self.period.checked_mul(whole);
        let end = full.and_then(|full| full.checked_add(self.longest_gap())?.checked_add(rest));
        end.unwrap_or(Duration::MAX)
    }

    fn rate(&self) -> (u64, u64) {
        (self.budget.as_nanos(), self.period.as_nanos())
    }

    fn delay_up(&self) -> Duration {
        self.longest_gap()
    }

    fn repeats_after(&self) -> Duration {
        self.period
    }

    fn name(&self) -> &'static str {
        "explicit-deadline periodic resource model (Easwaran, Anand and Lee 2007)"
    }
}
