//! A polling server as a resource: what it gives to tasks with work.
//!
//! The server looks for work at the start of a period and loses its budget where there is none, so
//! work that comes right after has to wait for the next period. In a window that begins with work,
//! a budget is lost no later than at the beginning; from the next replenishment on, at most a
//! period away, there is work whenever the server looks, and each budget has been given by the
//! server's worst-case response time after its replenishment. An explicit-deadline periodic
//! resource with that deadline gives its first budget by a budget sooner, since one was given in
//! the period before; so this supply is that one, a budget later.

use serde::Serialize;
use tailbound_time::Duration;

use super::explicit_deadline_periodic::ExplicitDeadlinePeriodic;
use super::supply::SupplyBound;
use crate::AnalysisError;

/// The supply of a polling server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PollingSupply {
    explicit: ExplicitDeadlinePeriodic,
}

impl PollingSupply {
    /// A server that others may hold up by `jitter` altogether while it spends a budget.
    ///
    /// # Errors
    /// As of [`ExplicitDeadlinePeriodic::by_response_time`].
    pub fn with_jitter(
        budget: Duration,
        period: Duration,
        jitter: Duration,
    ) -> Result<Self, AnalysisError> {
        ExplicitDeadlinePeriodic::by_response_time(budget, period, jitter)
            .map(|explicit| Self { explicit })
    }
}

impl SupplyBound for PollingSupply {
    fn supplied_down(&self, window: Duration) -> Duration {
        let later = window.saturating_sub(self.explicit.budget());
        self.explicit.supplied_down(later)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        if work.is_zero() {
            return Duration::ZERO;
        }
        let sooner = self.explicit.time_to_supply(work);
        sooner.saturating_add(self.explicit.budget())
    }

    fn rate(&self) -> (u64, u64) {
        self.explicit.rate()
    }

    fn delay_up(&self) -> Duration {
        self.explicit
            .delay_up()
            .saturating_add(self.explicit.budget())
    }

    fn repeats_after(&self) -> Duration {
        self.explicit.repeats_after()
    }

    fn name(&self) -> &'static str {
        "polling server by its worst-case response time (docs/concepts/interfaces.md)"
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
        let supply = PollingSupply::with_jitter(ns(3), ns(10), ns(0)).unwrap();
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
            let supply = PollingSupply::with_jitter(ns(budget), ns(period), ns(0)).unwrap();
            let bound = supply.supplied_down(ns(window)).as_nanos();
            prop_assert!(bound <= given(budget, period, start, window));
        }

        #[test]
        fn time_and_supply_are_inverse(budget in 1_u64..8, rest in 0_u64..8, work in 1_u64..60) {
            let supply = PollingSupply::with_jitter(ns(budget), ns(budget + rest), ns(0)).unwrap();
            let time = supply.time_to_supply(ns(work));
            prop_assert!(supply.supplied_down(time) >= ns(work));
            prop_assert!(supply.supplied_down(time - ns(1)) < ns(work));
        }
    }
}
