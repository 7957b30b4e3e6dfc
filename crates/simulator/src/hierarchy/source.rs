//! Where jobs come from.

use crate::timers::{NEVER, Timers};

/// A job that is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its task: the position among the tasks of the plan, in order of the tree.
    pub task: usize,
    /// A number to know it by.
    pub number: u64,
    /// When it is released, in nanoseconds.
    pub release: u64,
    /// How long it runs, in nanoseconds.
    pub work: u64,
}

/// Jobs in order of release.
pub trait Source {
    /// When the next job is released; `None` if there is none.
    fn next_release(&self) -> Option<u64>;

    /// The next job.
    fn take(&mut self) -> Option<Job>;
}

/// Jobs that are all known, in order of release.
impl Source for &[Job] {
    fn next_release(&self) -> Option<u64> {
        self.first().map(|job| job.release)
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
    tasks: Vec<PeriodicTask>,
    timers: Timers,
    number: u64,
    most: u64,
}

/// A task that releases a job at its offset and every period from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicTask {
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
    pub fn new(tasks: Vec<PeriodicTask>, most: u64) -> Self {
        let mut timers = Timers::new(tasks.len());
        for (index, task) in tasks.iter().enumerate() {
            timers.set(index, task.offset);
        }
        Self {
            tasks,
            timers,
            number: 0,
            most,
        }
    }
}

impl Source for PeriodicJobs {
    fn next_release(&self) -> Option<u64> {
        (self.number < self.most)
            .then(|| self.timers.earliest())
            .filter(|at| *at != NEVER)
    }

    fn take(&mut self) -> Option<Job> {
        let release = self.next_release()?;
        let task = self.timers.due(release)?;
        let PeriodicTask {
            period_ns, work, ..
        } = self.tasks[task];
        self.timers.set(task, release.saturating_add(period_ns));
        self.number += 1;
        Some(Job {
            task,
            number: self.number - 1,
            release,
            work,
        })
    }
}
