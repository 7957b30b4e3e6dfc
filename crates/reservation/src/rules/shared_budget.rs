//! One of several CPUs that share a deferrable budget: full again at every grid point, whether or not this CPU has work.

use crate::ReplenishmentGrid;
use crate::budget::{Budget, Replenishment};

/// The rule of a CPU with a part in a shared budget. Its account keeps what is left for all of them.
#[derive(Clone, Debug)]
pub(crate) struct SharedBudget(pub(crate) ReplenishmentGrid);

impl Replenishment for SharedBudget {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.update(budget, now);
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        if self.0.pass(now) {
            budget.refill(budget.budget_ns);
        }
    }

    /// The others may spend the budget while this CPU has no work.
    fn next_change(&self, _budget: &Budget) -> u64 {
        self.0.next
    }

    fn deadline(&self) -> u64 {
        self.0.next
    }
}
