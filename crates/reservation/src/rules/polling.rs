//! Gets its budget at a grid point if there is work, and loses it as soon as there is none.

use crate::budget::{Budget, Replenishment};
use crate::{NEVER, ReplenishmentGrid};

/// The polling server.
#[derive(Clone, Debug)]
pub(crate) struct Polling(pub(crate) ReplenishmentGrid);

impl Replenishment for Polling {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.update(budget, now);
        if self.0.next - now == budget.period_ns {
            budget.refill(budget.budget_ns);
        } else {
            budget.lose();
        }
    }

    fn sleep(&mut self, budget: &mut Budget, _now: u64) {
        budget.left = 0;
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        if self.0.pass(now) {
            budget.refill(budget.budget_ns);
        }
    }

    fn next_change(&self, budget: &Budget) -> u64 {
        if budget.active { self.0.next } else { NEVER }
    }

    fn deadline(&self) -> u64 {
        self.0.next
    }
}
