//! Keeps its budget while idle, and at a grid point what is left of it, up to one more budget: Linux's CFS
//! bandwidth control with a burst as long as the quota (kernel documentation, `sched-bwc`, "Burst
//! feature"; Linux 5.14).

use crate::budget::{Budget, Replenishment};
use crate::{NEVER, ReplenishmentGrid};

/// The burstable server.
#[derive(Clone, Debug)]
pub(crate) struct Burstable(pub(crate) ReplenishmentGrid);

impl Replenishment for Burstable {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.update(budget, now);
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        if let Some((_, skipped)) = self.0.latest(now) {
            self.0.pass(now);
            let points = skipped.saturating_add(1);
            let more = budget.budget_ns.saturating_mul(points);
            let most = budget.budget_ns.saturating_mul(2);
            budget.refill(budget.left.saturating_add(more).min(most));
        }
    }

    fn next_change(&self, budget: &Budget) -> u64 {
        if budget.active { self.0.next } else { NEVER }
    }

    fn deadline(&self) -> u64 {
        self.0.next
    }
}
