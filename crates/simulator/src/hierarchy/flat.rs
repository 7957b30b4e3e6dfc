//! The course of a simulation of tasks that share one preemptive level, without reservations.
//!
//! The schedule is the general engine's, call by call; but where nothing except releases and
//! completions can happen, one comparison of the next release with the end of the running job
//! decides about each event, which is several times as fast.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

use tailbound_time::Duration;

use super::Outcome;
use super::engine::END_OF_TIME_NS;
use super::plan::{Member, Plan, Rank, Speed};
use super::problem::PlanError;
use super::sink::{Completion, Piece, Sink};
use super::source::{Job, Source};
use crate::timers::NEVER;

/// A bit for each task.
const MOST_TASKS: usize = u64::BITS as usize;

/// Tasks alone on one CPU.
pub(super) struct Flat {
    /// Where each task of the plan stands among `tasks`.
    places: Vec<usize>,
    /// By rank where ranks decide, otherwise in the order of the plan.
    tasks: Vec<Task>,
    /// Whether all ranks are fixed and differ, so that the first of the ready tasks runs.
    by_rank: bool,
    /// The tasks that have a job.
    ready: u64,
    /// The task that runs, while any is ready.
    running: usize,
    /// Counts releases, for the order among equals.
    sequence: u64,
}

struct Task {
    /// Its position in the plan.
    position: usize,
    rank: Rank,
    /// The job that runs next, valid while the task is ready; its work is what is left of it.
    first: Job,
    place: Place,
    /// The jobs behind the first, and how many releases were before theirs.
    later: VecDeque<(Job, u64)>,
}

/// The lower one runs first.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u64,
    sequence: u64,
}

impl Flat {
    /// `None` where only the general engine can do it.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let level = &plan.root;
        let plain = plan.cpus == [Speed::FULL]
            && plan.overheads.is_free()
            && plan.locks.is_empty()
            && level.preemptive
            && level.quantum.is_none()
            && level.members.len() <= MOST_TASKS;
        if !plain {
            return None;
        }
        let members = level.members.iter().enumerate();
        let mut tasks = members
            .map(|(position, member)| match member {
                Member::Task(task) if task.sections.is_empty() => {
                    Some(Task::new(position, task.rank))
                }
                _ => None,
            })
            .collect::<Option<Vec<Task>>>()?;
        let by_rank = sorted_by_rank(&mut tasks);
        let mut places = vec![0; tasks.len()];
        for (place, task) in tasks.iter().enumerate() {
            places[task.position] = place;
        }
        Some(Self {
            places,
            tasks,
            by_rank,
            ready: 0,
            running: 0,
            sequence: 0,
        })
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run(
        &mut self,
        source: &mut impl Source,
        sink: &mut impl Sink,
        horizon: u64,
    ) -> Result<Outcome, PlanError> {
        if self.by_rank {
            self.run_in_order::<true>(source, sink, horizon)
        } else {
            self.run_in_order::<false>(source, sink, horizon)
        }
    }

    fn run_in_order<const BY_RANK: bool>(
        &mut self,
        source: &mut impl Source,
        sink: &mut impl Sink,
        horizon: u64,
    ) -> Result<Outcome, PlanError> {
        let mut now = 0_u64;
        loop {
            let release = source.next_release();
            let next = release.unwrap_or(NEVER).min(horizon);
            if release.is_none() && self.ready == 0 {
                break;
            }
            let running = self.running::<BY_RANK>();
            let end = match running {
                Some(running) => now.saturating_add(self.tasks[running].first.work),
                None => NEVER,
            };
            // Not before now, where the source is out of order.
            let until = next.min(end).max(now);
            if until >= END_OF_TIME_NS {
                return Err(PlanError::Overflow);
            }
            if let Some(running) = running {
                self.go_on::<BY_RANK>(running, now, until, sink);
            }
            now = until;
            while source.next_release().is_some_and(|at| at <= now) {
                if let Some(job) = source.take() {
                    self.check(&job, now)?;
                    sink.released(&job);
                    self.release::<BY_RANK>(job);
                }
            }
            if now >= horizon {
                break;
            }
        }
        Ok(Outcome {
            unfinished: self.unfinished(),
            end: Duration::from_nanos(now),
        })
    }

    fn unfinished(&self) -> u64 {
        let later: usize = self.tasks.iter().map(|task| task.later.len()).sum();
        u64::from(self.ready.count_ones()) + later as u64
    }

    #[inline(always)]
    fn running<const BY_RANK: bool>(&self) -> Option<usize> {
        let running = if BY_RANK {
            self.ready.trailing_zeros() as usize
        } else {
            self.running
        };
        (self.ready != 0).then_some(running)
    }

    /// The running job goes on, at most until it is done.
    #[inline(always)]
    fn go_on<const BY_RANK: bool>(
        &mut self,
        running: usize,
        now: u64,
        until: u64,
        sink: &mut impl Sink,
    ) {
        let task = &mut self.tasks[running];
        if until > now {
            sink.ran(&Piece {
                task: task.position,
                number: task.first.number,
                cpu: 0,
                from: now,
                until,
                reservation: 0,
                boosted: false,
            });
        }
        task.first.work -= until - now;
        if task.first.work > 0 {
            return;
        }
        sink.completed(&Completion {
            task: task.position,
            number: task.first.number,
            release: task.first.release,
            end: until,
        });
        match task.later.pop_front() {
            Some((job, sequence)) => task.begin(job, sequence),
            None => self.ready &= !(1 << running),
        }
        if !BY_RANK {
            self.choose();
        }
    }

    #[inline(always)]
    fn check(&self, job: &Job, now: u64) -> Result<(), PlanError> {
        if job.task >= self.places.len() {
            return Err(PlanError::UnknownTask {
                number: job.number,
                task: job.task,
                tasks: self.tasks.len(),
            });
        }
        if job.release < now {
            return Err(PlanError::OutOfOrder {
                number: job.number,
                task: job.task,
                release: Duration::from_nanos(job.release),
            });
        }
        Ok(())
    }

    #[inline(always)]
    fn release<const BY_RANK: bool>(&mut self, job: Job) {
        let place = self.places[job.task];
        let sequence = self.sequence;
        self.sequence += 1;
        let task = &mut self.tasks[place];
        let bit = 1 << place;
        if self.ready & bit != 0 {
            task.later.push_back((job, sequence));
            return;
        }
        task.begin(job, sequence);
        if !BY_RANK {
            let place_in_order = task.place;
            if self.ready == 0 || place_in_order < self.tasks[self.running].place {
                self.running = place;
            }
        }
        self.ready |= bit;
    }

    /// The least place of the ready tasks runs.
    #[inline(always)]
    fn choose(&mut self) {
        let mut rest = self.ready;
        let mut least = u128::MAX;
        while rest != 0 {
            let task = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let place = self.tasks[task].place.as_one();
            self.running = select_unpredictable(place < least, task, self.running);
            least = least.min(place);
        }
    }
}

impl Place {
    /// A number that is in the order of the places.
    #[inline]
    fn as_one(self) -> u128 {
        (u128::from(self.rank) << 64) | u128::from(self.sequence)
    }
}

impl Task {
    fn new(position: usize, rank: Rank) -> Self {
        Self {
            position,
            rank,
            first: Job {
                task: position,
                number: 0,
                release: 0,
                work: 0,
            },
            place: Place::default(),
            later: VecDeque::new(),
        }
    }

    #[inline]
    fn begin(&mut self, job: Job, sequence: u64) {
        self.first = job;
        let rank = match self.rank {
            Rank::Fixed(rank) => rank,
            Rank::Deadline(relative) => job.release.saturating_add(relative.as_nanos()),
        };
        self.place = Place { rank, sequence };
    }
}

/// Puts the tasks in the order of their ranks if these are fixed and differ.
fn sorted_by_rank(tasks: &mut [Task]) -> bool {
    let rank_of = |task: &Task| match task.rank {
        Rank::Fixed(rank) => Some(rank),
        Rank::Deadline(_) => None,
    };
    if tasks.iter().any(|task| rank_of(task).is_none()) {
        return false;
    }
    tasks.sort_by_key(rank_of);
    if tasks
        .windows(2)
        .all(|pair| rank_of(&pair[0]) < rank_of(&pair[1]))
    {
        return true;
    }
    tasks.sort_by_key(|task| task.position);
    false
}
