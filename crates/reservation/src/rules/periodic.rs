//! The budget passes when its turn comes, whether used or not; full again at every grid point.

use crate::ReplenishmentGrid;
use crate::budget::{Budget, Replenishment};

/// The periodic server.
#[derive(Clone, Debug)]
pub(crate) struct Periodic(ReplenishmentGrid);

impl Periodic {
    /// The first part of the period that holds the origin has passed unused.
    pub(crate) fn new(grid: ReplenishmentGrid, budget: &mut Budget) -> Self {
        let passed = budget.period_ns - grid.next;
        budget.left = budget.budget_ns.saturating_sub(passed);
        Self(grid)
    }
}

impl Replenishment for Periodic {
    fn update(&mut self, budget: &mut Budget, now: u64) {
        if self.0.pass(now) {
            budget.refill(budget.budget_ns);
        }
    }

    fn next_change(&self, _budget: &Budget) -> u64 {
        self.0.next
    }

    fn deadline(&self) -> u64 {
        self.0.next
    }
}
