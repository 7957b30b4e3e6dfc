//! Soft jobs on a reservation server.

use super::jobs::Jobs;
use super::policy::{On, PolicyChoice, SoftJobPolicy};
use tailbound_reservation::Account;

/// A reservation server between the hard tasks. Its budget follows the same [`Account`] as that of a
/// reservation in a tree.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) account: Account,
    /// So many hard tasks come before it.
    pub(super) behind: usize,
    /// Whether soft jobs go on behind all hard tasks when the budget is used up.
    pub(super) spills: bool,
    /// The cost of a replenishment.
    pub(super) replenishment_ns: u64,
    /// Whether the last choice was to run on the budget.
    pub(super) on_budget: bool,
}

impl SoftJobPolicy for Served {
    fn next_change(&self, _jobs: &Jobs, _on: On) -> u64 {
        self.account.next_change()
    }

    fn change(&mut self, _jobs: &Jobs, now: u64) -> u64 {
        self.account.update(now);
        self.replenishment_ns
    }

    fn settle(&mut self, now: u64) {
        if self.on_budget && self.account.left() == 0 {
            self.account.update(now);
        }
    }

    fn soft_wakes(&mut self, now: u64) {
        self.account.wake(now);
    }

    fn soft_sleeps(&mut self, now: u64) {
        self.account.sleep(now);
    }

    fn choose(&mut self, jobs: &Jobs, _now: u64) -> PolicyChoice {
        let first = jobs.first_hard();
        let comes_first = first.is_none_or(|task| task >= self.behind);
        self.on_budget = jobs.soft_waits() && comes_first && self.account.left() > 0;
        if self.on_budget {
            return PolicyChoice::up_to(On::Soft, self.account.left());
        }
        // With budget left, only a hard task before the server is why the soft jobs do not run.
        match first {
            None if !self.spills => PolicyChoice::without_limit(On::Idle),
            _ => PolicyChoice::background(jobs),
        }
    }

    fn passed(&mut self, on: On, length: u64) {
        if on == On::Soft && self.on_budget {
            self.account.spend(length);
        }
    }

    fn begins_shortage(&mut self) -> bool {
        self.account.begins_shortage()
    }
}
