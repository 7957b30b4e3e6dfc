//! Dual priority: hard jobs give way to soft ones until they must not any longer.

use super::jobs::{Done, Jobs};
use super::policy::{On, PolicyChoice, SoftJobPolicy};
use super::{AperiodicCosts, Gain};
use crate::timers::NEVER;

/// Three bands (Davis and Wellings 1995): promoted hard jobs, soft jobs, hard jobs that are not promoted;
/// by rank within the first and the last, in order of release in the middle.
///
/// # Why the extensions are safe
///
/// *Self.* A job that executed x before its promotion is promoted x later. Its deadline is still met, and
/// so is that of every lower rank: seen from an instant at which nothing promoted waits, the promoted
/// work of task j within t is then at most P(t + x) - x, where P is that of a task that is promoted on
/// time. With X the largest of all x, the fixed point of the response-time equation with P is R, and that
/// of the new one at most R - X.
///
/// *Propagated.* What a job left of its worst-case execution time is given away when this job would have
/// used it: from its promotion on, at its rank, as long as no promoted job of a lower rank number runs.
/// Everybody who relies on the job's worst case sees it executed.
#[derive(Clone, Debug)]
pub(super) struct DualPriority {
    tasks: Vec<Promotion>,
    self_gain: bool,
    propagated_gain: bool,
    promotion_cost: u64,
    gain_cost: u64,
    /// All overheads up to now.
    overheads: u64,
    /// The rank whose gift passes by the last choice.
    giving: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Promotion {
    /// From the release to the promotion.
    after: u64,
    /// When the job that is there is promoted, if it is not.
    at: u64,
    /// Whether there is a job that is promoted.
    promoted: bool,
    /// What a job left of its worst case, to be given away.
    gift: u64,
    /// From when on it is given; 0 once that has come.
    gift_from: u64,
    /// All overheads before the job that is there.
    overheads_before: u64,
}

impl Promotion {
    fn begin(&mut self, release: u64, now: u64) {
        self.at = release.saturating_add(self.after);
        self.promoted = self.at <= now;
    }

    /// When it changes by itself; `waits` if there is a job that is not promoted and does not run.
    fn next_change(&self, waits: bool) -> u64 {
        let to_begin = self.gift > 0 && self.gift_from > 0;
        let gift = if to_begin { self.gift_from } else { NEVER };
        if waits { gift.min(self.at) } else { gift }
    }
}

impl DualPriority {
    pub(super) fn new(
        after: impl Iterator<Item = u64>,
        gain: Gain,
        costs: &AperiodicCosts,
    ) -> Self {
        let tasks = after.map(|after| Promotion {
            after,
            at: NEVER,
            promoted: false,
            gift: 0,
            gift_from: NEVER,
            overheads_before: 0,
        });
        Self {
            tasks: tasks.collect(),
            self_gain: matches!(gain, Gain::Own | Gain::Both),
            propagated_gain: matches!(gain, Gain::Propagated | Gain::Both),
            promotion_cost: costs.promotion.as_nanos(),
            gain_cost: costs.gain.as_nanos(),
            overheads: 0,
            giving: None,
        }
    }

    /// The first of the band above the soft jobs: a promoted job, or a gift.
    fn first_above(&self) -> Option<(usize, bool)> {
        self.tasks.iter().enumerate().find_map(|(index, task)| {
            if task.gift > 0 && task.gift_from == 0 {
                Some((index, true))
            } else {
                task.promoted.then_some((index, false))
            }
        })
    }
}

impl SoftJobPolicy for DualPriority {
    fn next_change(&self, jobs: &Jobs, on: On) -> u64 {
        let mut next = NEVER;
        for (index, (task, hard)) in self.tasks.iter().zip(&jobs.hard).enumerate() {
            let moves = self.self_gain && on == On::Hard(index);
            let waits = !hard.backlog.is_empty() && !task.promoted && !moves;
            next = next.min(task.next_change(waits));
        }
        next
    }

    fn change(&mut self, jobs: &Jobs, now: u64) -> u64 {
        let mut cost = 0;
        for (task, hard) in self.tasks.iter_mut().zip(&jobs.hard) {
            if !hard.backlog.is_empty() && !task.promoted && task.at <= now {
                task.promoted = true;
                cost += self.promotion_cost;
            }
            if task.gift > 0 && task.gift_from <= now {
                task.gift_from = 0;
            }
        }
        cost
    }

    fn hard_released(&mut self, jobs: &Jobs, task: usize, now: u64) {
        let backlog = &jobs.hard[task].backlog;
        if let (1, Some(first)) = (backlog.len(), backlog.front()) {
            self.tasks[task].begin(first.release, now);
            self.tasks[task].overheads_before = self.overheads;
        }
    }

    fn hard_done(&mut self, jobs: &Jobs, done: &Done, now: u64) -> u64 {
        let hard = &jobs.hard[done.task];
        let task = &mut self.tasks[done.task];
        let mut cost = 0;
        if self.propagated_gain {
            // The worst case may have to cover overheads; what they took is not left.
            let overheads = self.overheads - task.overheads_before;
            let taken = done.executed.saturating_add(overheads);
            task.gift = hard.worst.saturating_sub(taken);
            task.gift_from = if task.promoted || task.at <= now {
                0
            } else {
                task.at
            };
            cost = self.gain_cost;
        }
        task.promoted = false;
        if let Some(next) = hard.backlog.front() {
            task.begin(next.release, now);
            task.overheads_before = self.overheads;
        }
        cost
    }

    fn choose(&mut self, jobs: &Jobs, _now: u64) -> PolicyChoice {
        self.giving = None;
        let mut length = NEVER;
        match self.first_above() {
            Some((task, false)) => return PolicyChoice::without_limit(On::Hard(task)),
            Some((task, true)) => {
                self.giving = Some(task);
                length = self.tasks[task].gift;
            }
            None => {}
        }
        let on = if jobs.soft_waits() {
            On::Soft
        } else {
            jobs.first_hard().map_or(On::Idle, On::Hard)
        };
        PolicyChoice {
            on,
            length,
            // Without promoted jobs the end of a gift changes nothing.
            interrupts: self.giving.is_some() && self.tasks.iter().any(|task| task.promoted),
        }
    }

    fn passed(&mut self, on: On, length: u64) {
        if on == On::Overhead {
            self.overheads += length;
            for task in &mut self.tasks {
                task.gift = task.gift.saturating_sub(length);
            }
            return;
        }
        if let Some(task) = self.giving {
            self.tasks[task].gift -= length;
        }
        if let (true, On::Hard(index)) = (self.self_gain, on) {
            let task = &mut self.tasks[index];
            if !task.promoted {
                task.at = task.at.saturating_add(length);
            }
        }
    }
}
