//! The sporadic server to the letter of POSIX: what comes back in the middle of an activation is used as
//! if it had been there from the start.

use super::sporadic::Parts;
use crate::budget::{Budget, Replenishment};

/// POSIX's sporadic server.
#[derive(Clone, Debug, Default)]
pub(crate) struct PosixSporadic(Parts);

impl Replenishment for PosixSporadic {
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        self.0.replenish(budget, now);
        self.0.activated = now;
    }

    fn sleep(&mut self, budget: &mut Budget, _now: u64) {
        self.0.set_replenishment(budget);
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        let empty = budget.left == 0;
        if empty {
            self.0.set_replenishment(budget);
        }
        self.0.replenish(budget, now);
        if empty && budget.left > 0 {
            self.0.activated = now;
        }
    }

    fn next_change(&self, budget: &Budget) -> u64 {
        self.0.next_change(budget)
    }
}
