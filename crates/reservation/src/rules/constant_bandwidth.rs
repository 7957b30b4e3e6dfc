//! SCHED_DEADLINE's constant-bandwidth server: at the end of its budget it waits for its deadline.

use crate::NEVER;
use crate::budget::{Budget, Replenishment};

/// The hard constant-bandwidth server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConstantBandwidth {
    pub(crate) deadline_ns: u64,
}

impl ConstantBandwidth {
    /// The wake-up rule (Abeni and Buttazzo 1998): where the rest of the budget until the deadline
    /// would exceed the bandwidth, or the deadline has passed, both start anew.
    pub(crate) fn wake_up(&mut self, budget: &mut Budget, now: u64) {
        let exceeds = now >= self.deadline_ns || {
            let until = u128::from(self.deadline_ns - now);
            let bound = until * u128::from(budget.budget_ns);
            u128::from(budget.left) * u128::from(budget.period_ns) > bound
        };
        if exceeds {
            self.deadline_ns = now;
            self.postpone(budget);
        }
    }

    /// A new budget, and a deadline one period later.
    pub(crate) fn postpone(&mut self, budget: &mut Budget) {
        self.deadline_ns = self.deadline_ns.saturating_add(budget.period_ns);
        budget.refill(budget.budget_ns);
    }
}

impl Replenishment for ConstantBandwidth {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.wake_up(budget, now);
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        if budget.left == 0 && now >= self.deadline_ns {
            self.postpone(budget);
        }
    }

    fn next_change(&self, budget: &Budget) -> u64 {
        if budget.active && budget.left == 0 {
            self.deadline_ns
        } else {
            NEVER
        }
    }

    fn deadline(&self) -> u64 {
        self.deadline_ns
    }
}
