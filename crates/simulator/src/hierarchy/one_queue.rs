//! The course of a simulation of tasks that share one queue for several CPUs, without reservations or
//! with virtual CPUs that have a CPU each: global scheduling.
//!
//! The schedule is the general engine's. Only what an event touches is chosen anew: the queue is a
//! heap, and the jobs that run stand in two tournaments, one by their ends, one by their places, so
//! that an event costs the logarithm of the number of CPUs and of waiting jobs. Pieces are told when
//! their jobs leave their CPUs, or at each event to a sink that wants them in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_reservation::Rule;
use tailbound_time::Duration;

use super::Outcome;
use super::backlog::Lone;
use super::engine::END_OF_TIME_NS;
use super::members::Members;
use super::plan::{self, Guest, Level, Member, Plan, Speed};
use super::problem::PlanError;
use super::sink::{Completion, Piece, Sink};
use super::source::{Job, Source};
use crate::timers::{NEVER, Timers, Tournament};

/// The key of a CPU that has no job, in the order of those to be interrupted.
const NO_PLACE: u128 = u128::MAX;

/// Tasks that share one queue.
pub(super) struct OneQueue {
    tasks: Vec<Lone>,
    /// The position among `cpus` at which each task runs.
    positions: Vec<Option<usize>>,
    cpus: Vec<QueueCpu>,
    /// When the jobs on the CPUs end.
    ends: Timers,
    /// The places of the jobs on the CPUs, the last one first.
    running: Tournament<u128>,
    /// The CPUs without a job.
    free: Members,
    /// The tasks with a job and no CPU, by their places.
    waiting: BinaryHeap<Reverse<(u128, usize)>>,
    /// Whether a CPU that becomes free is given away at once, as guests do, and not when all that
    /// happens at the same instant has happened, as hosts do.
    at_once: bool,
    /// The tasks that have a job.
    ready: Members,
    /// The CPUs whose jobs have changed at this instant.
    changed: Vec<usize>,
    /// The CPUs whose tasks have no job since this instant.
    vacated: Vec<usize>,
    /// Room for the tasks that get a CPU at one instant.
    coming: Vec<usize>,
    now: u64,
    unfinished: u64,
    /// Counts releases, for the order among equals.
    sequence: u64,
}

/// A CPU, or a virtual CPU on a CPU of its own.
struct QueueCpu {
    /// Its position in the plan.
    number: usize,
    /// The reservation that its tasks run in; 0 is the host.
    reservation: usize,
    task: Option<usize>,
    /// Since when the task runs, as far as it was told.
    since: u64,
}

impl OneQueue {
    /// `None` where only the general engine can do it.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let plain = plan.cpus.iter().all(|speed| *speed == Speed::FULL)
            && plan.cpus.len() > 1
            && plan.overheads.is_free()
            && plan.locks.is_empty()
            && plan.root.preemptive
            && plan.root.quantum.is_none();
        if !plain {
            return None;
        }
        match plan.root.members.as_slice() {
            [Member::Guest(guest)] => Self::of_guest(guest, &plan.pinned),
            _ => Self::of_host(&plan.root, plan),
        }
    }

    fn of_host(root: &Level, plan: &Plan) -> Option<Self> {
        let tasks = root.members.iter().map(|member| match member {
            // On the host itself there is nothing that a boost could lift.
            Member::Task(task) if task.sections.is_empty() => Some(task),
            _ => None,
        });
        let tasks: Vec<&plan::Task> = tasks.collect::<Option<_>>()?;
        let cpus = (0..plan.cpus.len()).map(|number| (number, 0));
        let pinned = !plan.pinned.is_empty();
        (!pinned).then(|| Self::new(&tasks, cpus, false))
    }

    /// Of a guest whose virtual CPUs have a CPU each, in order.
    fn of_guest(guest: &Guest, pinned: &[usize]) -> Option<Self> {
        let unlimited = |vcpu: &plan::VirtualCpu| vcpu.rule == Rule::Unlimited;
        let plain = |task: &plan::Task| task.sections.is_empty() && task.boost.is_none();
        let fits = !pinned.is_empty()
            && pinned.is_sorted_by(|one, other| one < other)
            && guest.vcpus.iter().all(unlimited)
            && guest.tasks.iter().all(plain);
        let tasks: Vec<&plan::Task> = guest.tasks.iter().collect();
        let cpus = pinned.iter().copied().zip(1..);
        fits.then(|| Self::new(&tasks, cpus, true))
    }

    fn new(
        tasks: &[&plan::Task],
        cpus: impl Iterator<Item = (usize, usize)>,
        at_once: bool,
    ) -> Self {
        let tasks = tasks.iter().enumerate();
        let tasks: Vec<Lone> = tasks
            .map(|(position, task)| Lone::new(position, task.rank))
            .collect();
        let cpus: Vec<QueueCpu> = cpus
            .map(|(number, reservation)| QueueCpu {
                number,
                reservation,
                task: None,
                since: 0,
            })
            .collect();
        let mut free = Members::default();
        (0..cpus.len()).for_each(|cpu| free.insert(cpu));
        Self {
            positions: vec![None; tasks.len()],
            tasks,
            ends: Timers::new(cpus.len()),
            running: Tournament::with(cpus.len(), NO_PLACE),
            cpus,
            free,
            waiting: BinaryHeap::new(),
            at_once,
            ready: Members::default(),
            changed: Vec::new(),
            vacated: Vec::new(),
            coming: Vec::new(),
            now: 0,
            unfinished: 0,
            sequence: 0,
        }
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run<S: Sink>(
        &mut self,
        source: &mut impl Source,
        sink: &mut S,
        horizon: u64,
    ) -> Result<Outcome, PlanError> {
        let ended = self.go_on(source, sink, horizon);
        self.tell_pieces(sink);
        ended.map(|()| Outcome {
            unfinished: self.unfinished,
            end: Duration::from_nanos(self.now),
        })
    }

    fn go_on<S: Sink>(
        &mut self,
        source: &mut impl Source,
        sink: &mut S,
        horizon: u64,
    ) -> Result<(), PlanError> {
        loop {
            let release = source.next_release();
            if release.is_none() && self.unfinished == 0 {
                return Ok(());
            }
            let next = self.ends.earliest().min(release.unwrap_or(NEVER));
            let next = next.min(horizon);
            if next >= END_OF_TIME_NS {
                return Err(PlanError::Overflow);
            }
            // Not before now, where the source is out of order.
            self.now = next.max(self.now);
            if !S::WHOLE_PIECES {
                self.tell_pieces(sink);
            }
            while let Some(cpu) = self.ends.due(self.now) {
                self.complete(cpu, sink);
            }
            while source.next_release().is_some_and(|at| at <= self.now) {
                if let Some(job) = source.take() {
                    self.release(job, sink)?;
                }
            }
            if self.now >= horizon {
                return Ok(());
            }
            self.choose(sink);
        }
    }

    fn tell_pieces(&mut self, sink: &mut impl Sink) {
        for cpu in 0..self.cpus.len() {
            self.tell_piece(cpu, sink);
        }
    }

    fn tell_piece(&mut self, cpu: usize, sink: &mut impl Sink) {
        let QueueCpu {
            number,
            reservation,
            task: Some(task),
            since,
        } = self.cpus[cpu]
        else {
            return;
        };
        if since < self.now {
            self.cpus[cpu].since = self.now;
            self.tasks[task].first.work -= self.now - since;
            sink.ran(&Piece {
                task,
                number: self.tasks[task].first.number,
                cpu: number,
                from: since,
                until: self.now,
                reservation,
                boosted: false,
            });
        }
    }

    /// The job on a CPU is done.
    fn complete(&mut self, cpu: usize, sink: &mut impl Sink) {
        self.tell_piece(cpu, sink);
        // What comes onto the CPU now ends at a later look, even if it has no work.
        self.ends.set(cpu, NEVER);
        let Some(task) = self.cpus[cpu].task else {
            return;
        };
        self.unfinished -= 1;
        let done = self.tasks[task].first;
        sink.completed(&Completion {
            task,
            number: done.number,
            release: done.release,
            end: self.now,
        });
        if self.tasks[task].begin_next() {
            self.running.set(cpu, !self.tasks[task].place.as_one());
            self.changed.push(cpu);
            if self.at_once {
                self.give_way(cpu, sink);
            }
            return;
        }
        self.ready.remove(task);
        if self.at_once {
            self.vacate(cpu);
            self.occupy_next(cpu);
        } else {
            self.running.set(cpu, NO_PLACE);
            self.vacated.push(cpu);
        }
    }

    fn release(&mut self, job: Job, sink: &mut impl Sink) -> Result<(), PlanError> {
        job.check(self.tasks.len(), self.now)?;
        sink.released(&job);
        self.unfinished += 1;
        let sequence = self.sequence;
        self.sequence += 1;
        let task = &mut self.tasks[job.task];
        if self.ready.contains(job.task) {
            task.later.push_back((job, sequence));
            return Ok(());
        }
        task.begin(job, sequence);
        self.ready.insert(job.task);
        let place = task.place.as_one();
        if let Some(cpu) = self.positions[job.task] {
            // Its last job was done there at this instant.
            self.running.set(cpu, !place);
            self.changed.push(cpu);
            return Ok(());
        }
        self.waiting.push(Reverse((place, job.task)));
        if self.at_once {
            match self.free.first() {
                Some(cpu) => self.occupy_next(cpu),
                None => {
                    let last = self.running.due(self.running.earliest());
                    self.give_way(last.unwrap_or(0), sink);
                }
            }
        }
        Ok(())
    }

    /// Chooses what runs after all that has happened at this instant.
    fn choose(&mut self, sink: &mut impl Sink) {
        if !self.at_once {
            self.choose_together(sink);
        }
        while let Some(cpu) = self.changed.pop() {
            if let Some(task) = self.cpus[cpu].task {
                let end = self.now.saturating_add(self.tasks[task].first.work);
                self.ends.set(cpu, end);
            }
        }
    }

    /// The first of the waiting tasks come onto the free CPUs, in order; tasks that they come before
    /// leave theirs.
    fn choose_together(&mut self, sink: &mut impl Sink) {
        while let Some(cpu) = self.vacated.pop() {
            let task = self.cpus[cpu].task;
            if task.is_some_and(|task| !self.ready.contains(task)) {
                self.vacate(cpu);
            }
        }
        let mut coming = std::mem::take(&mut self.coming);
        let mut free = self.free.len();
        while let Some(Reverse((place, task))) = self.waiting.peek().copied() {
            if free > 0 {
                free -= 1;
                self.waiting.pop();
            } else {
                let last = self.running.earliest();
                let Some(cpu) = self.running.due(last).filter(|_| place < !last) else {
                    break;
                };
                self.waiting.pop();
                self.interrupt(cpu, sink);
            }
            coming.push(task);
        }
        for task in coming.drain(..) {
            if let Some(cpu) = self.free.first() {
                self.occupy(cpu, task);
            }
        }
        self.coming = coming;
    }

    /// The first of the waiting tasks takes a CPU if it comes before the one that is there.
    fn give_way(&mut self, cpu: usize, sink: &mut impl Sink) {
        let next = self.waiting.peek().copied();
        let next = next.filter(|Reverse((place, _))| {
            self.cpus[cpu]
                .task
                .is_some_and(|task| *place < self.tasks[task].place.as_one())
        });
        if let Some(Reverse((_, task))) = next {
            self.waiting.pop();
            self.interrupt(cpu, sink);
            self.occupy(cpu, task);
        }
    }

    fn occupy_next(&mut self, cpu: usize) {
        if let Some(Reverse((_, task))) = self.waiting.pop() {
            self.occupy(cpu, task);
        }
    }

    fn occupy(&mut self, cpu: usize, task: usize) {
        self.cpus[cpu].task = Some(task);
        self.cpus[cpu].since = self.now;
        self.positions[task] = Some(cpu);
        self.free.remove(cpu);
        self.running.set(cpu, !self.tasks[task].place.as_one());
        self.changed.push(cpu);
    }

    /// The task on a CPU goes back to the queue.
    fn interrupt(&mut self, cpu: usize, sink: &mut impl Sink) {
        self.tell_piece(cpu, sink);
        if let Some(task) = self.cpus[cpu].task {
            self.vacate(cpu);
            self.waiting
                .push(Reverse((self.tasks[task].place.as_one(), task)));
        }
    }

    fn vacate(&mut self, cpu: usize) {
        if let Some(task) = self.cpus[cpu].task.take() {
            self.positions[task] = None;
        }
        self.free.insert(cpu);
        self.running.set(cpu, NO_PLACE);
    }
}
