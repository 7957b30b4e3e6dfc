//! A table of jobs as CSV.

use std::io;

use super::open_jobs::{OpenJob, OpenJobs};
use super::setting::Setting;
use crate::hierarchy::{Completion, Job, Piece, Sink};

/// The columns of a [`JobTable`], in order.
pub const COLUMNS: [&str; 10] = [
    "task",
    "number",
    "release_ns",
    "start_ns",
    "completion_ns",
    "response_ns",
    "deadline_ns",
    "missed",
    "preemptions",
    "cpu",
];

/// Writes a row of CSV (RFC 4180, UTF-8) for each job, in the order of completion, behind a row of
/// [`COLUMNS`].
///
/// | Column | Meaning |
/// | --- | --- |
/// | `task` | the name of its task |
/// | `number` | the number that its source gave it |
/// | `release_ns` | when it was released |
/// | `start_ns` | when it first ran; empty if it never did |
/// | `completion_ns` | when it was done; empty if it was not |
/// | `response_ns` | from release to completion; empty if it was not done |
/// | `deadline_ns` | by when it had to be done; empty if its task has no deadline |
/// | `missed` | `true` if it was not done at its deadline, `false` if it was, or the deadline lies beyond the end of the simulation; empty without a deadline |
/// | `preemptions` | how often it stopped running before it was done, and went on: for a job in front of it, a used-up budget or another CPU. Time that the operating system takes in between is none |
/// | `cpu` | the CPU on which it ran last, from 0; empty if it never ran |
///
/// All times are counted from the start of the simulation. Jobs that were not done at the end come last,
/// by task and release. Only jobs under way are kept in memory.
#[derive(Debug)]
pub struct JobTable<W: io::Write> {
    out: csv::Writer<W>,
    setting: Setting,
    jobs: OpenJobs,
    problem: Option<csv::Error>,
}

impl<W: io::Write> JobTable<W> {
    /// A table that is written to `out`.
    pub fn new(setting: Setting, out: W) -> Self {
        let mut out = csv::Writer::from_writer(out);
        let problem = out.write_record(COLUMNS).err();
        Self {
            out,
            setting,
            jobs: OpenJobs::default(),
            problem,
        }
    }

    /// Writes what was not done when the simulation ended, `end` in nanoseconds, and hands back what was
    /// written to.
    ///
    /// # Errors
    /// The first error of writing, after which nothing more was written.
    pub fn finish(mut self, end: u64) -> io::Result<W> {
        let jobs = std::mem::take(&mut self.jobs);
        for (task, job) in jobs.iter() {
            self.write(task, job, None, end);
        }
        match self.problem {
            Some(problem) => Err(problem.into()),
            None => self.out.into_inner().map_err(|error| error.into_error()),
        }
    }

    fn write(&mut self, task: usize, job: &OpenJob, completion: Option<u64>, now: u64) {
        if self.problem.is_some() {
            return;
        }
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let deadline = self.setting.deadline_of(task, job.release);
        // What is done at its deadline has kept it; what is still open then has not.
        let missed = deadline.map(|deadline| match completion {
            Some(end) => end > deadline,
            None => now >= deadline,
        });
        let record = [
            self.setting.task_name(task),
            job.number.to_string(),
            job.release.to_string(),
            number(job.start),
            number(completion),
            number(completion.map(|end| end.saturating_sub(job.release))),
            number(deadline),
            missed.map_or_else(String::new, |missed| missed.to_string()),
            job.preemptions.to_string(),
            job.cpu.map_or_else(String::new, |cpu| cpu.to_string()),
        ];
        self.problem = self.out.write_record(record).err();
    }
}

impl<W: io::Write> Sink for JobTable<W> {
    fn completed(&mut self, completion: &Completion) {
        let job = self.jobs.completed(completion).unwrap_or(OpenJob {
            number: completion.number,
            release: completion.release,
            ..OpenJob::default()
        });
        self.write(completion.task, &job, Some(completion.end), completion.end);
    }

    fn released(&mut self, job: &Job) {
        self.jobs.released(job);
    }

    fn ran(&mut self, piece: &Piece) {
        self.jobs.ran(piece);
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.jobs.overhead(cpu, from, until);
    }
}
