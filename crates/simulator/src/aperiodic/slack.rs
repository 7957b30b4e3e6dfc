//! Dynamic approximate slack stealing.

use super::jobs::{Done, Hard, Jobs};
use super::policy::{On, PolicyChoice, SoftJobPolicy};
use super::{AperiodicCosts, Gain};

/// The rule of Davis, Tindell and Burns 1993 and Davis 1993 (YCS 217).
///
/// The slack of task i is what is left of the time until its next deadline d, at the latest, when the
/// work of its job and all that tasks of lower rank numbers can execute until then is taken off:
///
/// ```text
/// S_i = (d - t) - c_i - sum over j < i of (c_j + f_j C_j + min(C_j, d - x_j - f_j T_j))
/// f_j = floor((d - x_j) / T_j)
/// ```
///
/// with c what released jobs may still execute, x the next release; c_i is C_i where the job is still to
/// come. It is computed anew when a job of the task is done, since its deadline then moves on. Until
/// then it is kept as a counter: time passes from it in which neither the task nor one before it runs.
/// The counter is what the formula yields at any time, and may be below zero, where the formula is too
/// cautious; what may be stolen then is nothing.
///
/// Soft jobs run before the hard task k if all tasks from k on have slack. HostOverheads pass from all
/// counters.
#[derive(Clone, Debug)]
pub(super) struct SlackStealing {
    levels: Vec<SlackLevel>,
    gain: Gain,
    slack_cost: u64,
    gain_cost: u64,
}

#[derive(Clone, Copy, Debug)]
struct SlackLevel {
    slack: i64,
    /// The deadline that it is counted for.
    due: u64,
}

impl SlackStealing {
    pub(super) fn new(jobs: &Jobs, gain: Gain, costs: &AperiodicCosts) -> Self {
        let levels = 0..jobs.hard.len();
        Self {
            levels: levels.map(|task| SlackLevel::of(jobs, task, 0)).collect(),
            gain,
            slack_cost: costs.slack_per_task.as_nanos(),
            gain_cost: costs.gain.as_nanos(),
        }
    }

    /// What may be stolen from a task and from all behind it.
    fn stealable(&self, from: usize) -> u64 {
        let levels = self.levels[from..].iter();
        let least = levels.map(|level| level.slack).min().unwrap_or(i64::MAX);
        u64::try_from(least).unwrap_or(0)
    }
}

impl SlackLevel {
    fn of(jobs: &Jobs, task: usize, now: u64) -> Self {
        let own = &jobs.hard[task];
        let (due, work) = match own.backlog.front() {
            Some(job) => (job.release, own.remaining_worst()),
            None => (own.next_release.max(now), own.worst),
        };
        let due = due.saturating_add(own.relative_deadline_ns);
        let before = jobs.hard[..task].iter();
        let interference = before.map(|other| other.executes_until(due, now));
        let work = interference.fold(work, u64::saturating_add);
        Self {
            slack: signed(due) - signed(now) - signed(work),
            due,
        }
    }
}

impl Hard {
    /// The most that its jobs can execute until `due`.
    fn executes_until(&self, due: u64, now: u64) -> u64 {
        let window = due.saturating_sub(self.next_release.max(now));
        let whole = window / self.period_ns;
        let last = self.worst.min(window % self.period_ns);
        let future = whole.saturating_mul(self.worst).saturating_add(last);
        self.remaining_worst().saturating_add(future)
    }
}

/// Instants of a simulation lie far below the end of the range.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX / 4)
}

impl SoftJobPolicy for SlackStealing {
    fn hard_done(&mut self, jobs: &Jobs, done: &Done, now: u64) -> u64 {
        self.levels[done.task] = SlackLevel::of(jobs, done.task, now);
        let mut cost = self.slack_cost.saturating_mul(self.levels.len() as u64);
        if matches!(self.gain, Gain::Propagated | Gain::Both) {
            let worst = jobs.hard[done.task].worst;
            for level in &mut self.levels[done.task + 1..] {
                // What was counted of this job until that deadline, and did not come.
                let counted = worst.min(level.due.saturating_sub(done.release));
                level.slack += signed(counted.saturating_sub(done.executed));
            }
            cost = cost.saturating_add(self.gain_cost);
        }
        cost
    }

    fn choose(&mut self, jobs: &Jobs, _now: u64) -> PolicyChoice {
        if let (true, Some(task)) = (jobs.soft_waits(), jobs.first_hard()) {
            let stealable = self.stealable(task);
            if stealable > 0 {
                return PolicyChoice::up_to(On::Soft, stealable);
            }
        }
        PolicyChoice::background(jobs)
    }

    fn passed(&mut self, on: On, length: u64) {
        let idle_levels = match on {
            On::Hard(task) => &mut self.levels[..task],
            On::Soft | On::Idle | On::Overhead => &mut self.levels[..],
        };
        for level in idle_levels {
            level.slack = level.slack.saturating_sub(signed(length));
        }
    }
}
