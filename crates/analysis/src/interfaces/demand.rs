//! What tasks ask for: demand bound and request bound functions.
//!
//! Baruah, Mok and Rosier (1990) for the demand bound function, Lehoczky, Sha and Ding (1989) for
//! the request bound function; with release jitter as by Tindell, Burns and Wellings (1994) and
//! Spuri (1996).

use std::cmp::Ordering;

use serde::Serialize;
use tailbound_time::Duration;

use crate::rational::compare_sum;
use crate::{AnalysisError, PeriodicLoad, SporadicTask};

/// The longest time that a task or a resource of this module may have, a little over a year: all
/// sums and products then fit.
pub const LONGEST: Duration = Duration::from_nanos(1 << 55);

/// The tasks of a component: under fixed priorities, those with the highest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    tasks: Vec<SporadicTask>,
}

impl Workload {
    /// Takes tasks, the highest priority first where priorities matter.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] without a task, and for times beyond [`LONGEST`].
    pub fn new(tasks: Vec<SporadicTask>) -> Result<Self, AnalysisError> {
        let invalid = |what: String| Err(AnalysisError::Invalid { what });
        if tasks.is_empty() {
            return invalid("a component without tasks needs no interface; give a task".into());
        }
        for (index, task) in tasks.iter().enumerate() {
            let times = [
                task.execution(),
                task.period(),
                task.deadline(),
                task.jitter(),
            ];
            if times.iter().any(|time| *time > LONGEST) {
                return invalid(format!(
                    "task {index} has a time beyond {LONGEST}; shorten it"
                ));
            }
        }
        Ok(Self { tasks })
    }

    /// The tasks of a periodic or sporadic load, with their periods as deadlines, in its order.
    ///
    /// # Errors
    /// As of [`new`](Self::new), and for tasks that are none, as of [`SporadicTask::new`].
    pub fn of(load: &PeriodicLoad) -> Result<Self, AnalysisError> {
        let task = |task: &crate::PeriodicTask| SporadicTask::implicit(task.execution, task.period);
        Self::new(load.tasks.iter().map(task).collect::<Result<_, _>>()?)
    }

    /// The tasks.
    pub fn tasks(&self) -> &[SporadicTask] {
        &self.tasks
    }

    /// The same tasks by deadline less jitter, the shortest first: deadline-monotonic priorities.
    #[must_use]
    pub fn by_deadline(&self) -> Self {
        let mut tasks = self.tasks.clone();
        // D - J in order, without negative numbers.
        tasks.sort_by(|a, b| (a.deadline() + b.jitter()).cmp(&(b.deadline() + a.jitter())));
        Self { tasks }
    }

    /// The sum of C / T, in CPUs, for printing; verdicts compare exactly.
    pub fn utilisation(&self) -> f64 {
        let share =
            |task: &SporadicTask| task.execution().as_secs_f64() / task.period().as_secs_f64();
        self.tasks.iter().map(share).sum()
    }

    /// How the utilisation of the first `count` tasks compares with a rate, exactly.
    pub(super) fn compare_utilisation(&self, count: usize, rate: (u64, u64)) -> Ordering {
        let shares = self
            .tasks
            .iter()
            .take(count)
            .map(|task| (task.execution().as_nanos(), task.period().as_nanos()));
        compare_sum(shares, rate)
    }

    /// The demand bound function of EDF: the most execution time of jobs that become ready and are
    /// due within any window of this length. Saturates; windows beyond 64 times [`LONGEST`] count
    /// as that long.
    pub fn demand_bound(&self, window: Duration) -> Duration {
        let window = window.min(LONGEST * 64);
        self.sum(self.tasks.len(), |task| task.jobs_due(window))
    }

    /// The request bound function: the most execution time of jobs of the first `count` tasks that
    /// become ready within any window of this length. Saturates; windows beyond 64 times
    /// [`LONGEST`] count as that long.
    pub fn request_bound(&self, count: usize, window: Duration) -> Duration {
        let window = window.min(LONGEST * 64);
        self.sum(count, |task| task.jobs_ready(window))
    }

    fn sum(&self, count: usize, jobs: impl Fn(&SporadicTask) -> u64) -> Duration {
        let work =
            |task: &SporadicTask| u128::from(jobs(task)) * u128::from(task.execution().as_nanos());
        let sum: u128 = self.tasks.iter().take(count).map(work).sum();
        Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// The last point below `before` at which the demand bound function rises, and its task.
    pub fn latest_deadline(&self, before: Duration) -> Option<(usize, Duration)> {
        let last = before.min(LONGEST * 64).as_nanos().checked_sub(1)?;
        let latest = |task: &SporadicTask| {
            let beyond =
                (last + task.jitter().as_nanos()).checked_sub(task.deadline().as_nanos())?;
            // Jobs due before they are ready count from the start of the window.
            let due = (beyond - beyond % task.period().as_nanos() + task.deadline().as_nanos())
                .saturating_sub(task.jitter().as_nanos());
            Some(Duration::from_nanos(due))
        };
        let tasks = self.tasks.iter().enumerate();
        tasks
            .filter_map(|(index, task)| Some((index, latest(task)?)))
            .max_by_key(|(_, due)| *due)
    }

    /// The first point at or after `from` at which the demand bound function rises, and its task; of
    /// several the last.
    pub fn earliest_deadline(&self, from: Duration) -> Option<(usize, Duration)> {
        let from = from.min(LONGEST * 64);
        let earliest = |task: &SporadicTask| {
            let first = task.deadline().saturating_sub(task.jitter());
            // Jobs due before they are ready count from the start of the window.
            if from <= first {
                return first;
            }
            let beyond = (from + task.jitter()).saturating_sub(task.deadline());
            let periods = beyond.as_nanos().div_ceil(task.period().as_nanos());
            (task.period() * periods + task.deadline()).saturating_sub(task.jitter())
        };
        let tasks = self.tasks.iter().enumerate();
        tasks
            .map(|(index, task)| (index, earliest(task)))
            .min_by_key(|(index, due)| (*due, std::cmp::Reverse(*index)))
    }
}
