//! Where jobs come from.

use tailbound_time::Duration;

use super::problem::HierarchyError;
use crate::timers::{NEVER, Queue};

/// A job that is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its task: the position among the tasks of the plan, in order of the tree.
    pub task: usize,
    /// A number to know it by.
    pub number: u64,
    /// When it is released, in nanoseconds: deadlines and response times count from then on.
    pub release: u64,
    /// How long after its release it becomes ready, in nanoseconds.
    pub delay_ns: u64,
    /// How long it runs, in nanoseconds.
    pub work: u64,
}

impl Job {
    /// When it becomes ready, in nanoseconds.
    #[inline(always)]
    pub fn ready(&self) -> u64 {
        self.release.saturating_add(self.delay_ns)
    }

    /// Refuses a job of none of so many tasks, and one that comes too late.
    #[inline(always)]
    pub(super) fn check(&self, tasks: usize, now: u64) -> Result<(), HierarchyError> {
        let Self { task, number, .. } = *self;
        if task >= tasks {
            return Err(HierarchyError::UnknownTask {
                number,
                task,
                tasks,
            });
        }
        if self.ready() < now {
            let release = Duration::from_nanos(self.release);
            return Err(HierarchyError::OutOfOrder {
                number,
                task,
                release,
            });
        }
        Ok(())
    }
}

/// A time for which a CPU is taken from everything that is scheduled there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenTime {
    /// The CPU, by its position in the plan.
    pub cpu: usize,
    /// How long it is taken, in nanoseconds.
    pub length: u64,
}

/// Jobs in the order in which they become ready, and interference on the CPUs that they run on.
///
/// Interference takes a CPU as the operating system does for its own work: at the instant at which it comes, before any
/// job goes on, behind what has the CPU already; it is charged to no job's execution and to no budget.
pub trait JobSource {
    /// When the next job becomes ready; `None` if there is none.
    fn next_release(&self) -> Option<u64>;

    /// The next job.
    fn take(&mut self) -> Option<Job>;

    /// Whether anything interferes at all.
    fn interferes(&self) -> bool {
        false
    }

    /// When a CPU is taken next, in nanoseconds; `None` if none is.
    fn next_interference(&self) -> Option<u64> {
        None
    }

    /// The next interference.
    fn take_interference(&mut self) -> Option<TakenTime> {
        None
    }
}

/// Jobs that are all known, in the order in which they become ready.
impl JobSource for &[Job] {
    fn next_release(&self) -> Option<u64> {
        self.first().map(Job::ready)
    }

    fn take(&mut self) -> Option<Job> {
        let (first, rest) = self.split_first()?;
        *self = rest;
        Some(*first)
    }
}

/// Periodic tasks whose jobs all run equally long, up to a number of jobs.
#[derive(Clone, Debug)]
pub struct PeriodicJobs {
    tasks: Vec<PeriodicSource>,
    releases: Queue,
    number: u64,
    most: u64,
}

/// A task that releases a job at its offset and every period from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicSource {
    /// The first release, in nanoseconds.
    pub offset: u64,
    /// The distance between releases, in nanoseconds.
    pub period_ns: u64,
    /// How long each job runs, in nanoseconds.
    pub work: u64,
}

impl PeriodicJobs {
    /// The first `most` jobs of these tasks; of jobs released at once, that of the task in front comes
    /// first.
    pub fn new(tasks: Vec<PeriodicSource>, most: u64) -> Self {
        Self {
            releases: Queue::new(tasks.iter().map(|task| task.offset)),
            tasks,
            number: 0,
            most,
        }
    }
}

impl JobSource for PeriodicJobs {
    #[inline(always)]
    fn next_release(&self) -> Option<u64> {
        let at = self.releases.earliest();
        (self.number < self.most && at != NEVER).then_some(at)
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Job> {
        let release = self.next_release()?;
        let task = self.releases.first();
        let PeriodicSource {
            period_ns, work, ..
        } = self.tasks[task];
        self.releases
            .change_first(release.saturating_add(period_ns));
        self.number += 1;
        Some(Job {
            delay_ns: 0,
            task,
            number: self.number - 1,
            release,
            work,
        })
    }
}
