//! What a policy decides.

use super::jobs::{Done, Jobs};
use crate::timers::NEVER;

/// Who has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Hard(usize),
    Soft,
    Idle,
    Overhead,
}

/// A decision, and for how long it holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyChoice {
    pub(super) on: On,
    pub(super) length: u64,
    /// Whether the end of this length interrupts who runs; if not, it only ends a piece of
    /// bookkeeping that can be made up for later.
    pub(super) interrupts: bool,
}

impl PolicyChoice {
    pub(super) fn without_limit(on: On) -> Self {
        Self {
            on,
            length: NEVER,
            interrupts: false,
        }
    }

    pub(super) fn up_to(on: On, length: u64) -> Self {
        Self {
            on,
            length,
            interrupts: true,
        }
    }

    /// Hard tasks by rank, and soft jobs when there are none.
    pub(super) fn background(jobs: &Jobs) -> Self {
        Self::without_limit(match jobs.first_hard() {
            Some(task) => On::Hard(task),
            None if jobs.soft_waits() => On::Soft,
            None => On::Idle,
        })
    }
}

/// A policy by which soft jobs share the CPU with hard tasks. Methods that return a number return what
/// their work costs, in nanoseconds.
pub(super) trait SoftJobPolicy {
    /// When something happens by itself while this one has the CPU.
    fn next_change(&self, jobs: &Jobs, on: On) -> u64 {
        let _ = (jobs, on);
        NEVER
    }

    /// What happens by itself at `now`.
    fn change(&mut self, jobs: &Jobs, now: u64) -> u64 {
        let _ = (jobs, now);
        0
    }

    /// What follows at once from a budget that is used up, after completions.
    fn settle(&mut self, now: u64) {
        let _ = now;
    }

    fn hard_released(&mut self, jobs: &Jobs, task: usize, now: u64) {
        let _ = (jobs, task, now);
    }

    /// A hard job is done, and no longer among the jobs.
    fn hard_done(&mut self, jobs: &Jobs, done: &Done, now: u64) -> u64 {
        let _ = (jobs, done, now);
        0
    }

    /// There is soft work, and there was none.
    fn soft_wakes(&mut self, now: u64) {
        let _ = now;
    }

    /// There is no soft work any more.
    fn soft_sleeps(&mut self, now: u64) {
        let _ = now;
    }

    fn choose(&mut self, jobs: &Jobs, now: u64) -> PolicyChoice;

    /// Somebody had the CPU for so long; if not an overhead, then by the last choice.
    fn passed(&mut self, on: On, length: u64) {
        let _ = (on, length);
    }

    /// Whether work has begun to wait for budget since the last call.
    fn begins_shortage(&mut self) -> bool {
        false
    }
}

/// Soft jobs run when no hard one is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Background;

impl SoftJobPolicy for Background {
    fn choose(&mut self, jobs: &Jobs, _now: u64) -> PolicyChoice {
        PolicyChoice::background(jobs)
    }
}
