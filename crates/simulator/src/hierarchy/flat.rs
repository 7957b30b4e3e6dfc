//! The course of a simulation of tasks that have a CPU for themselves, in one preemptive level without
//! reservations, or with such as do not limit them: a dedicated CPU, a domain alone in the background.
//!
//! The schedule is the general engine's, call by call; but where nothing except releases and
//! completions can happen, one comparison of the next release with the end of the running job
//! decides about each event, which is several times as fast.

use std::hint::select_unpredictable;

use tailbound_reservation::Rule;
use tailbound_time::Duration;

use super::SimulationEnd;
use super::backlog::Lone;
use super::engine::END_OF_TIME_NS;
use super::plan::{HierarchyPlan, Level, LevelMember, Rank, Speed};
use super::problem::HierarchyError;
use super::sink::{Completion, Piece, Sink};
use super::source::{Job, JobSource};
use crate::timers::NEVER;

/// A bit for each task.
const MOST_TASKS: usize = u64::BITS as usize;

/// Tasks alone on one CPU.
pub(super) struct Flat {
    /// Where each task of the plan stands among `tasks`.
    places: Vec<usize>,
    /// By rank where ranks decide, otherwise in the order of the plan.
    tasks: Vec<Lone>,
    /// Whether all ranks are fixed and differ, so that the first of the ready tasks runs.
    by_rank: bool,
    /// The tasks that have a job.
    ready: u64,
    /// The task that runs, while any is ready.
    running: usize,
    /// Counts releases, for the order among equals.
    sequence: u64,
    /// Since when the running task runs, where pieces are told as a whole.
    since: u64,
    /// The reservation that the tasks are inside of; 0 is the host.
    reservation: usize,
}

impl Flat {
    /// `None` where only the general engine can do it.
    pub(super) fn of(plan: &HierarchyPlan) -> Option<Self> {
        let (level, reservation) = innermost(&plan.root);
        let plain = plan.cpus == [Speed::FULL]
            && plan.overheads.is_free()
            && plan.locks.is_empty()
            && (level.preemptive || level.members.len() <= 1)
            && (level.quantum.is_none() || level.members.len() <= 1)
            && level.members.len() <= MOST_TASKS;
        if !plain {
            return None;
        }
        let members = level.members.iter().enumerate();
        let mut tasks = members
            .map(|(position, member)| match member {
                // On the host itself there is nothing that a boost could lift.
                LevelMember::Task(task)
                    if task.sections.is_empty() && (reservation == 0 || task.boost.is_none()) =>
                {
                    Some(Lone::new(position, task.rank))
                }
                _ => None,
            })
            .collect::<Option<Vec<Lone>>>()?;
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
            since: 0,
            reservation,
        })
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run<S: Sink>(
        &mut self,
        source: &mut impl JobSource,
        sink: &mut S,
        horizon: u64,
    ) -> Result<SimulationEnd, HierarchyError> {
        if self.by_rank {
            self.run_in_order::<true, S>(source, sink, horizon)
        } else {
            self.run_in_order::<false, S>(source, sink, horizon)
        }
    }

    fn run_in_order<const BY_RANK: bool, S: Sink>(
        &mut self,
        source: &mut impl JobSource,
        sink: &mut S,
        horizon: u64,
    ) -> Result<SimulationEnd, HierarchyError> {
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
                return Err(HierarchyError::Overflow);
            }
            if let Some(running) = running {
                self.go_on::<BY_RANK, S>(running, now, until, sink);
            }
            now = until;
            while source.next_release().is_some_and(|at| at <= now) {
                if let Some(job) = source.take() {
                    job.check(self.places.len(), now)?;
                    sink.released(&job);
                    self.release::<BY_RANK, S>(job, now, sink);
                }
            }
            if now >= horizon {
                break;
            }
        }
        if S::WHOLE_PIECES
            && let Some(running) = self.running::<BY_RANK>()
        {
            self.tell_piece(running, self.since, now, sink);
        }
        Ok(SimulationEnd {
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
    fn go_on<const BY_RANK: bool, S: Sink>(
        &mut self,
        running: usize,
        now: u64,
        until: u64,
        sink: &mut S,
    ) {
        if !S::WHOLE_PIECES {
            self.tell_piece(running, now, until, sink);
        }
        let task = &mut self.tasks[running];
        task.first.work -= until - now;
        if task.first.work > 0 {
            return;
        }
        if S::WHOLE_PIECES {
            self.tell_piece(running, self.since, until, sink);
            self.since = until;
        }
        let task = &mut self.tasks[running];
        sink.completed(&Completion {
            task: task.position,
            number: task.first.number,
            release: task.first.release,
            end: until,
        });
        if !task.begin_next() {
            self.ready &= !(1 << running);
        }
        if !BY_RANK {
            self.choose();
        }
    }

    #[inline(always)]
    fn tell_piece(&self, running: usize, from: u64, until: u64, sink: &mut impl Sink) {
        let task = &self.tasks[running];
        if until > from {
            sink.ran(&Piece {
                task: task.position,
                number: task.first.number,
                cpu: 0,
                from,
                until,
                reservation: self.reservation,
                boosted: false,
            });
        }
    }

    #[inline(always)]
    fn release<const BY_RANK: bool, S: Sink>(&mut self, job: Job, now: u64, sink: &mut S) {
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
        let place_in_order = task.place;
        let before = self.running::<BY_RANK>();
        let comes_first = before.is_none_or(|running| {
            if BY_RANK {
                place < running
            } else {
                place_in_order < self.tasks[running].place
            }
        });
        if comes_first {
            if S::WHOLE_PIECES {
                if let Some(running) = before {
                    self.tell_piece(running, self.since, now, sink);
                }
                self.since = now;
            }
            self.running = place;
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

/// The level whose members alone share the CPU, and how many reservations without a limit it lies in.
fn innermost(root: &Level) -> (&Level, usize) {
    let (mut level, mut depth) = (root, 0);
    while let [LevelMember::Reservation(only)] = level.members.as_slice()
        && only.rule == Rule::Unlimited
    {
        level = &only.inside;
        depth += 1;
    }
    (level, depth)
}

/// Puts the tasks in the order of their ranks if these are fixed and differ.
fn sorted_by_rank(tasks: &mut [Lone]) -> bool {
    let rank_of = |task: &Lone| match task.rank {
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
