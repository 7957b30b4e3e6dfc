//! Boosts: reservations that come before all others for a moment, whatever is left of their budgets.

use super::engine::Engine;

impl Engine {
    /// A job boosts its reservations, from the inside out, until an instant at most.
    pub(super) fn boost(&mut self, task: usize, until: u64) {
        let mut level = self.tasks[task].level;
        while let Some((outer, _)) = self.levels[level].parent {
            self.levels[level].boost(task, until);
            self.settle(level);
            level = outer;
        }
    }

    /// A job that boosted its reservations is done.
    pub(super) fn end_boost(&mut self, task: usize) {
        let mut level = self.tasks[task].level;
        while let Some((outer, _)) = self.levels[level].parent {
            self.levels[level].end_boost(task);
            self.settle(level);
            level = outer;
        }
    }
}
