//! The unfinished jobs of a task.

use std::collections::VecDeque;

use super::level::MemberPlace;
use super::plan::Rank;
use super::source::Job;

/// The unfinished jobs of a task, in order. There is mostly one, or none: the first has a place of its
/// own.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    first: Option<Waiting>,
    later: VecDeque<Waiting>,
}

/// A job that is not done.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) job: Job,
    /// Counts what gets ready, for the order among equals.
    pub(super) sequence: u64,
    /// Work that is left, and all of it, in units of work.
    pub(super) left: u64,
    pub(super) total: u64,
    /// The CPU that it ran on last.
    pub(super) cpu: Option<usize>,
    /// The next boundary of its sections.
    pub(super) boundary: usize,
}

impl Waiting {
    /// Work that has been done.
    pub(super) fn done(&self) -> u64 {
        self.total - self.left
    }
}

impl Backlog {
    /// The job that runs.
    #[inline]
    pub(super) fn first(&self) -> Option<&Waiting> {
        self.first.as_ref()
    }

    #[inline]
    pub(super) fn first_mut(&mut self) -> Option<&mut Waiting> {
        self.first.as_mut()
    }

    /// Adds a job behind the others; returns whether there is no other.
    #[inline]
    pub(super) fn add(&mut self, waiting: Waiting) -> bool {
        if self.first.is_some() {
            self.later.push_back(waiting);
            return false;
        }
        self.first = Some(waiting);
        true
    }

    /// The first job is done.
    #[inline]
    pub(super) fn remove_first(&mut self) -> Option<Job> {
        let job = self.first.as_ref()?.job;
        self.first = if self.later.is_empty() {
            None
        } else {
            self.later.pop_front()
        };
        Some(job)
    }
}

/// A task that nothing holds up except other tasks.
pub(super) struct Lone {
    /// Its position in the plan.
    pub(super) position: usize,
    pub(super) rank: Rank,
    /// The job that runs next, valid while the task has one; its work is what is left of it.
    pub(super) first: Job,
    pub(super) place: MemberPlace,
    /// The jobs behind the first, and how many releases were before theirs.
    pub(super) later: VecDeque<(Job, u64)>,
}

impl Lone {
    pub(super) fn new(position: usize, rank: Rank) -> Self {
        Self {
            position,
            rank,
            first: Job {
                delay_ns: 0,
                task: position,
                number: 0,
                release: 0,
                work: 0,
            },
            place: MemberPlace::default(),
            later: VecDeque::new(),
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, job: Job, since: u64) {
        self.first = job;
        let rank = match self.rank {
            Rank::Fixed(rank) => rank,
            Rank::Deadline(relative) => job.release.saturating_add(relative.as_nanos()),
        };
        self.place = MemberPlace { rank, since };
    }

    /// The first job is done; returns whether another one waits.
    #[inline]
    pub(super) fn begin_next(&mut self) -> bool {
        let next = self.later.pop_front();
        if let Some((job, since)) = next {
            self.begin(job, since);
        }
        next.is_some()
    }
}
