//! Keeps its budget while idle; full again at every grid point (Strosnider, Lehoczky and Sha 1995).

use crate::budget::{Budget, Replenishment};
use crate::{NEVER, ReplenishmentGrid};

/// The deferrable server.
#[derive(Clone, Debug)]
pub(crate) struct Deferrable(pub(crate) ReplenishmentGrid);

impl Replenishment for Deferrable {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.update(budget, now);
    }

    #[inline]
    fn update(&mut self, budget: &mut Budget, now: u64) {
        if self.0.pass(now) {
            budget.refill(budget.budget_ns);
        }
    }

    #[inline]
    fn next_change(&self, budget: &Budget) -> u64 {
        if budget.active { self.0.next } else { NEVER }
    }

    fn deadline(&self) -> u64 {
        self.0.next
    }
}
