//! What was used from an activation on comes back one period after the activation, also when less than
//! all was used (Sprunt, Sha and Lehoczky 1989, with activations told apart as Stanovich et al. 2010
//! correct POSIX).

use std::collections::VecDeque;

use crate::NEVER;
use crate::budget::{Budget, Replenishment};

/// The sporadic server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sporadic(pub(crate) Parts);

/// The parts of a budget that come back, by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// Since when the present activation counts.
    pub(crate) activated: u64,
    pending: VecDeque<PendingReplenishment>,
}

#[derive(Clone, Copy, Debug)]
struct PendingReplenishment {
    at: u64,
    amount: u64,
}

impl Parts {
    /// What was used since the activation comes back one period after it.
    pub(crate) fn set_replenishment(&mut self, budget: &mut Budget) {
        if budget.used > 0 {
            let at = self.activated.saturating_add(budget.period_ns);
            let amount = std::mem::take(&mut budget.used);
            self.pending.push_back(PendingReplenishment { at, amount });
        }
    }

    /// The next part, if it comes back by an instant.
    fn take_by(&mut self, instant: u64) -> Option<PendingReplenishment> {
        let next = self.pending.front().copied();
        let due = next.filter(|part| part.at <= instant)?;
        self.pending.pop_front();
        Some(due)
    }

    /// Adds all parts that have come back.
    pub(crate) fn replenish(&mut self, budget: &mut Budget, now: u64) {
        while let Some(part) = self.take_by(now) {
            budget.add(part.amount);
        }
    }

    /// When the next part comes back to work that waits.
    #[inline]
    pub(crate) fn next_change(&self, budget: &Budget) -> u64 {
        let next = self.pending.front().filter(|_| budget.active);
        next.map_or(NEVER, |part| part.at)
    }
}

impl Sporadic {
    /// The present part is used up; the next one is taken if it is there. It counts from when it came
    /// back, since the server has been active since before.
    fn next_part(&mut self, budget: &mut Budget, now: u64) {
        if let Some(part) = self.0.take_by(now) {
            self.0.activated = part.at;
            budget.refill(part.amount);
            self.join_parts(budget);
        }
    }

    /// What comes back before the present part can be used up belongs to it.
    fn join_parts(&mut self, budget: &mut Budget) {
        while let Some(part) = self.0.take_by(self.0.activated.saturating_add(budget.left)) {
            budget.left = budget
                .left
                .saturating_add(part.amount)
                .min(budget.budget_ns);
        }
    }
}

impl Replenishment for Sporadic {
    /// What is there counts from now on, together with what comes back before it could be used up.
    fn wake(&mut self, budget: &mut Budget, now: u64) {
        if budget.left == 0 {
            self.next_part(budget, now);
        }
        if budget.left > 0 {
            self.0.activated = now;
            self.join_parts(budget);
        }
    }

    fn sleep(&mut self, budget: &mut Budget, now: u64) {
        // What is left of the part may be used from now on; what was used comes back later.
        self.0.set_replenishment(budget);
        self.0.activated = now;
    }

    fn update(&mut self, budget: &mut Budget, now: u64) {
        if budget.left == 0 {
            self.0.set_replenishment(budget);
            self.next_part(budget, now);
        }
    }

    /// The next part is looked at only when the present one is used up.
    fn next_change(&self, budget: &Budget) -> u64 {
        if budget.left > 0 {
            NEVER
        } else {
            self.0.next_change(budget)
        }
    }
}
