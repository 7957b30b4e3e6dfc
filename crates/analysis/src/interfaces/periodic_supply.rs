//! A budget in every period as a resource, by four rules.
//!
//! The rules differ in the longest time without supply; from there on the budget is given at once in every
//! period.
//!
//! A *deferrable server* keeps its budget while its tasks have nothing to do, so that it has been used up before its
//! time only by these tasks, no earlier than a budget after a replenishment. From there the next replenishment is at
//! most period - budget away, and then the server runs at once if nobody is above it. With others above, it has run
//! for its budget by its worst-case response time after the replenishment. So in windows with work it gives what an
//! explicit-deadline periodic resource gives whose deadline is that response time; where that is the period, it is
//! the periodic resource model.
//!
//! A *polling server* looks for work at the start of a period and loses its budget where there is none, so work that
//! comes right after has to wait for the next period. In a window that begins with work, a budget is lost no later
//! than at the beginning; from the next replenishment on, at most a period away, there is work whenever the server
//! looks, and each budget has been given by the server's worst-case response time after its replenishment. An
//! explicit-deadline periodic resource with that deadline gives its first budget by a budget sooner, since one was
//! given in the period before; so this supply is that one, a budget later.

use tailbound_time::Duration;

use super::demand::LONGEST;
use super::supply::SupplyBound;
use crate::AnalysisError;

/// A resource that gives a budget in every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicSupply {
    budget: Duration,
    period: Duration,
    /// The longest time without supply.
    longest_gap: Duration,
    /// The model, with its source.
    name: &'static str,
}

impl PeriodicSupply {
    /// The periodic resource model, Γ = (Π, Θ) of the paper: `budget` somewhere in every `period`.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget <= period and 0 < period <= [`LONGEST`].
    pub fn somewhere(budget: Duration, period: Duration) -> Result<Self, AnalysisError> {
        Ok(Self {
            name: "periodic resource model (Shin and Lee 2003)",
            ..Self::by_deadline(budget, period, period)?
        })
    }

    /// The explicit-deadline periodic resource model: `budget` in every `period`, by `deadline` after its start.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget <= deadline <= period and 0 < period <= [`LONGEST`].
    pub fn by_deadline(
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
            // Given at once in one period, and as late as allowed in the next.
            longest_gap: (period - budget) + (deadline - budget),
            name: "explicit-deadline periodic resource model (Easwaran, Anand and Lee 2007)",
        })
    }

    /// A deferrable server that others may hold up by `jitter` altogether while it spends a budget; zero where nobody
    /// else on its CPU is above.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget + jitter <= period and 0 < period <= [`LONGEST`].
    pub fn deferrable(
        budget: Duration,
        period: Duration,
        jitter: Duration,
    ) -> Result<Self, AnalysisError> {
        Ok(Self {
            name: "deferrable server by its worst-case response time (docs/concepts/interfaces.md)",
            ..Self::by_deadline(budget, period, budget.saturating_add(jitter))?
        })
    }

    /// A polling server that others may hold up by `jitter` altogether while it spends a budget.
    ///
    /// # Errors
    /// As of [`deferrable`](Self::deferrable).
    pub fn polling(
        budget: Duration,
        period: Duration,
        jitter: Duration,
    ) -> Result<Self, AnalysisError> {
        let sooner = Self::deferrable(budget, period, jitter)?;
        Ok(Self {
            longest_gap: sooner.longest_gap + budget,
            name: "polling server by its worst-case response time (docs/concepts/interfaces.md)",
            ..sooner
        })
    }

    /// The CPU time per period.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl SupplyBound for PeriodicSupply {
    fn supplied_down(&self, window: Duration) -> Duration {
        let Some(after) = window.checked_sub(self.longest_gap) else {
            return Duration::ZERO;
        };
        let whole = after / self.period;
        let supplied = self.budget * whole + (after % self.period).min(self.budget);
        debug_assert!(supplied <= window, "one CPU gives no more than the window");
        supplied
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
        let end = full.and_then(|full| full.checked_add(self.longest_gap)?.checked_add(rest));
        let end = end.unwrap_or(Duration::MAX);
        debug_assert!(end >= work, "one CPU takes at least the length of the work");
        end
    }

    fn rate(&self) -> (u64, u64) {
        (self.budget.as_nanos(), self.period.as_nanos())
    }

    fn delay_up(&self) -> Duration {
        self.longest_gap
    }

    fn repeats_after(&self) -> Duration {
        self.period
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    /// A polling server at the highest priority, tick by tick, with a backlog from `start` on.
    fn given(budget_ns: u64, period_ns: u64, start: u64, window: u64) -> u64 {
        let mut left = 0;
        let mut given = 0;
        for tick in 0..start + window {
            let works = tick >= start;
            if tick % period_ns == 0 {
                left = if works { budget_ns } else { 0 };
            }
            if works && left > 0 {
                left -= 1;
                given += 1;
            }
        }
        given
    }

    #[test]
    fn work_that_comes_right_after_a_poll_waits_for_a_period() {
        let supply = PeriodicSupply::polling(ns(3), ns(10), ns(0)).unwrap();
        assert_eq!(supply.supplied_down(ns(10)), ns(0));
        assert_eq!(supply.supplied_down(ns(13)), ns(3));
        assert_eq!(supply.time_to_supply(ns(4)), ns(21));
        assert_eq!(supply.time_to_supply(ns(0)), ns(0));
    }

    proptest! {
        #[test]
        fn no_start_of_the_work_gets_less(
            budget in 1_u64..8,
            rest in 0_u64..8,
            start in 1_u64..20,
            window in 0_u64..60,
        ) {
            let period = budget + rest;
            let supply = PeriodicSupply::polling(ns(budget), ns(period), ns(0)).unwrap();
            let bound = supply.supplied_down(ns(window)).as_nanos();
            prop_assert!(bound <= given(budget, period, start, window));
        }

        #[test]
        fn time_and_supply_are_inverse(budget in 1_u64..8, rest in 0_u64..8, work in 1_u64..60) {
            let supply = PeriodicSupply::polling(ns(budget), ns(budget + rest), ns(0)).unwrap();
            let time = supply.time_to_supply(ns(work));
            prop_assert!(supply.supplied_down(time) >= ns(work));
            prop_assert!(supply.supplied_down(time - ns(1)) < ns(work));
        }
    }
}
