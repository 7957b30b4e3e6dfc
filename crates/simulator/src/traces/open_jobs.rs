//! The jobs that are under way, as several sinks follow them.

use std::collections::{BTreeMap, VecDeque};

use crate::hierarchy::{Completion, Job, Piece};

/// A job that is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenJob {
    /// Counts releases, over all tasks, from 1.
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) release: u64,
    /// When it first ran.
    pub(super) start: Option<u64>,
    /// Where it ran last.
    pub(super) cpu: Option<usize>,
    /// How often it stopped running before it was done, and went on.
    pub(super) preemptions: u64,
}

/// All of them. The count is that of the engine's backlog, so it is bounded as that is.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenJobs {
    /// By task, in order of release.
    tasks: BTreeMap<usize, VecDeque<OpenJob>>,
    /// The job that each CPU ran last, and until when it ran without another job in between.
    last: BTreeMap<usize, Last>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    task: usize,
    number: u64,
    until: u64,
}

impl OpenJobs {
    pub(super) fn released(&mut self, job: &Job) -> OpenJob {
        self.count += 1;
        let open = OpenJob {
            id: self.count,
            number: job.number,
            release: job.release,
            ..OpenJob::default()
        };
        self.tasks.entry(job.task).or_default().push_back(open);
        open
    }

    /// Takes note of a piece, and returns its job as it is then, if it was released.
    pub(super) fn ran(&mut self, piece: &Piece) -> Option<OpenJob> {
        let before = self.last.insert(
            piece.cpu,
            Last {
                task: piece.task,
                number: piece.number,
                until: piece.until,
            },
        );
        let goes_on = before.is_some_and(|last| {
            (last.task, last.number, last.until) == (piece.task, piece.number, piece.from)
        });
        let jobs = self.tasks.get_mut(&piece.task)?;
        let job = jobs.iter_mut().find(|job| job.number == piece.number)?;
        if job.start.is_none() {
            job.start = Some(piece.from);
        } else if !goes_on {
            job.preemptions += 1;
        }
        job.cpu = Some(piece.cpu);
        Some(*job)
    }

    /// The operating system takes the CPU; the job that goes on behind it was not preempted.
    pub(super) fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        if let Some(last) = self.last.get_mut(&cpu).filter(|last| last.until == from) {
            last.until = until;
        }
    }

    /// Takes a job out that is done.
    pub(super) fn completed(&mut self, completion: &Completion) -> Option<OpenJob> {
        let jobs = self.tasks.get_mut(&completion.task)?;
        let place = jobs
            .iter()
            .position(|job| job.number == completion.number)?;
        jobs.remove(place)
    }

    /// The jobs that are left, with their tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &OpenJob)> {
        self.tasks
            .iter()
            .flat_map(|(task, jobs)| jobs.iter().map(|job| (*task, job)))
    }
}
