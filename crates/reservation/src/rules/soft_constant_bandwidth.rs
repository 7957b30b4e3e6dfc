//! The constant-bandwidth server that gets a new budget at once, and a deadline one period later (Abeni
//! and Buttazzo 1998).

use super::constant_bandwidth::ConstantBandwidth;
use crate::NEVER;
use crate::budget::{Budget, Replenishment};

/// The soft constant-bandwidth server.
#[derive(Clone, Debug, Default)]
pub(crate) struct SoftConstantBandwidth(ConstantBandwidth);

impl Replenishment for SoftConstantBandwidth {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.0.wake_up(budget, now);
    }

    fn update(&mut self, budget: &mut Budget, _now: u64) {
        if budget.left == 0 {
            self.0.postpone(budget);
        }
    }

    fn next_change(&self, _budget: &Budget) -> u64 {
        NEVER
    }

    fn deadline(&self) -> u64 {
        self.0.deadline_ns
    }
}
