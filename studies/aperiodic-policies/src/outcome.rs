//! What came of an application, simulated or executed.

use tailbound_simulator::hierarchy::{Completion, Sink};

use crate::application::Application;

/// What the study keeps of the completions that it is told.
#[derive(Clone, Debug)]
pub struct Outcome {
    deadlines_ns: Vec<u64>,
    length_ns: u64,
    /// Hard jobs that were due by the end.
    pub hard_jobs: u64,
    /// Those of them that are not known to have met their deadline.
    pub missed: u64,
    /// Soft jobs released.
    pub soft_jobs: u64,
    /// Soft jobs done by the end.
    pub soft_done: u64,
    /// The time from every soft release to its completion, or to the end.
    waited_ns: u64,
}

impl Outcome {
    /// Nothing is done yet.
    pub fn of(application: &Application) -> Self {
        let tasks = application.tasks.iter();
        let length_ns = application.length.as_nanos();
        let mut outcome = Self {
            deadlines_ns: tasks.map(|task| task.deadline().as_nanos()).collect(),
            length_ns,
            hard_jobs: 0,
            missed: 0,
            soft_jobs: 0,
            soft_done: 0,
            waited_ns: 0,
        };
        for job in &application.jobs {
            match outcome.deadlines_ns.get(job.task) {
                Some(deadline) => {
                    outcome.hard_jobs += u64::from(job.release + deadline <= length_ns);
                }
                None => {
                    outcome.soft_jobs += 1;
                    outcome.waited_ns += length_ns - job.release;
                }
            }
        }
        outcome.missed = outcome.hard_jobs;
        outcome
    }

    /// The mean response time of soft jobs; those that are not done count with the time that they have
    /// waited.
    pub fn mean_response_time_ns(&self) -> f64 {
        self.waited_ns as f64 / self.soft_jobs.max(1) as f64
    }
}

impl Sink for Outcome {
    fn completed(&mut self, done: &Completion) {
        match self.deadlines_ns.get(done.task) {
            Some(deadline) => {
                let due = done.release + deadline;
                let counts = due <= self.length_ns;
                self.missed -= u64::from(counts && done.end <= due);
            }
            // What is done after the end, as real jobs may be, counts as not done.
            None if done.end <= self.length_ns => {
                self.soft_done += 1;
                self.waited_ns -= self.length_ns - done.end;
            }
            None => {}
        }
    }
}
