//! The course of a simulation of tasks that share one queue for several CPUs, without reservations or
//! with virtual CPUs that have a CPU each: global scheduling.
//!
//! The schedule is the general engine's, and so is the queue; the rest is shorter, since a job that
//! runs can only end or be interrupted. Pieces are told when their jobs leave their CPUs, or at each
//! event to a sink that wants them in order of time.

use tailbound_reservation::Rule;
use tailbound_time::Duration;

use super::SimulationEnd;
use super::backlog::Lone;
use super::cpu_queue::CpuQueue;
use super::engine::END_OF_TIME_NS;
use super::members::MemberSet;
use super::plan::{self, Guest, HierarchyPlan, Level, LevelMember, Speed};
use super::problem::HierarchyError;
use super::sink::{Completion, Piece, Sink};
use super::source::{Job, JobSource};
use crate::timers::{NEVER, Timers};

/// Tasks that share one queue.
pub(super) struct OneQueue {
    tasks: Vec<Lone>,
    cpus: Vec<QueueCpu>,
    /// When the jobs on the CPUs end.
    ends: Timers,
    /// Which task has which CPU.
    queue: CpuQueue,
    /// Whether a CPU that becomes free is given away at once, as guests do, and not when all that
    /// happens at the same instant has happened, as hosts do.
    at_once: bool,
    /// The tasks that have a job.
    ready: MemberSet,
    /// The CPUs whose jobs have changed at this instant.
    changed: Vec<usize>,
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
    pub(super) fn of(plan: &HierarchyPlan) -> Option<Self> {
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
            [LevelMember::Guest(guest)] => Self::of_guest(guest, &plan.pinned),
            _ => Self::of_host(&plan.root, plan),
        }
    }

    fn of_host(root: &Level, plan: &HierarchyPlan) -> Option<Self> {
        let tasks = root.members.iter().map(|member| match member {
            // On the host itself there is nothing that a boost could lift.
            LevelMember::Task(task) if task.sections.is_empty() => Some(task),
            _ => None,
        });
        let tasks: Vec<&plan::PlannedTask> = tasks.collect::<Option<_>>()?;
        let cpus = (0..plan.cpus.len()).map(|number| (number, 0));
        let pinned = !plan.pinned.is_empty();
        (!pinned).then(|| Self::new(&tasks, cpus, false))
    }

    /// Of a guest whose virtual CPUs have a CPU each, in order.
    fn of_guest(guest: &Guest, pinned: &[usize]) -> Option<Self> {
        let unlimited = |vcpu: &plan::VirtualCpu| vcpu.rule == Rule::Unlimited;
        let plain = |task: &plan::PlannedTask| task.sections.is_empty() && task.boost.is_none();
        let fits = !pinned.is_empty()
            && pinned.is_sorted_by(|one, other| one < other)
            && guest.vcpus.iter().all(unlimited)
            && guest.tasks.iter().all(plain);
        let tasks: Vec<&plan::PlannedTask> = guest.tasks.iter().collect();
        let cpus = pinned.iter().copied().zip(1..);
        fits.then(|| Self::new(&tasks, cpus, true))
    }

    fn new(
        tasks: &[&plan::PlannedTask],
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
        Self {
            queue: CpuQueue::new(tasks.len(), cpus.len()),
            tasks,
            ends: Timers::new(cpus.len()),
            cpus,
            at_once,
            ready: MemberSet::default(),
            changed: Vec::new(),
            now: 0,
            unfinished: 0,
            sequence: 0,
        }
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run<S: Sink>(
        &mut self,
        source: &mut impl JobSource,
        sink: &mut S,
        horizon: u64,
    ) -> Result<SimulationEnd, HierarchyError> {
        let ended = self.go_on(source, sink, horizon);
        self.tell_pieces(sink);
        ended.map(|()| SimulationEnd {
            unfinished: self.unfinished,
            end: Duration::from_nanos(self.now),
        })
    }

    fn go_on<S: Sink>(
        &mut self,
        source: &mut impl JobSource,
        sink: &mut S,
        horizon: u64,
    ) -> Result<(), HierarchyError> {
        loop {
            let release = source.next_release();
            if release.is_none() && self.unfinished == 0 {
                return Ok(());
            }
            let next = self.ends.earliest().min(release.unwrap_or(NEVER));
            let next = next.min(horizon);
            if next >= END_OF_TIME_NS {
                return Err(HierarchyError::Overflow);
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

    #[inline]
    fn tell_piece(&mut self, cpu: usize, sink: &mut impl Sink) {
        self.cpus[cpu].tell_piece(&mut self.tasks, self.now, sink);
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
            self.queue.enter(task, self.tasks[task].place.as_one());
            self.changed.push(cpu);
        } else {
            self.ready.remove(task);
            self.queue.leave(task);
        }
        if self.at_once {
            self.give_cpus(sink);
        }
    }

    fn release(&mut self, job: Job, sink: &mut impl Sink) -> Result<(), HierarchyError> {
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
        self.queue.enter(job.task, task.place.as_one());
        // If it has a CPU, its last job was done there at this instant.
        self.changed.extend(self.queue.cpu_of(job.task));
        if self.at_once {
            self.give_cpus(sink);
        }
        Ok(())
    }

    /// Chooses what runs after all that has happened at this instant.
    fn choose(&mut self, sink: &mut impl Sink) {
        if !self.at_once {
            self.give_cpus(sink);
        }
        while let Some(cpu) = self.changed.pop() {
            if let Some(task) = self.cpus[cpu].task {
                let end = self.now.saturating_add(self.tasks[task].first.work);
                self.ends.set(cpu, end);
            }
        }
    }

    /// Gives the CPUs to the first tasks.
    fn give_cpus(&mut self, sink: &mut impl Sink) {
        let Self {
            queue, cpus, tasks, ..
        } = self;
        queue.choose(&self.ready, |cpu, task| {
            let processor = &mut cpus[cpu];
            processor.tell_piece(tasks, self.now, sink);
            processor.task = task;
            processor.since = self.now;
            self.changed.push(cpu);
        });
    }
}

impl QueueCpu {
    /// What its task has done since that was told.
    #[inline]
    fn tell_piece(&mut self, tasks: &mut [Lone], now: u64, sink: &mut impl Sink) {
        let Some(task) = self.task.filter(|_| self.since < now) else {
            return;
        };
        let job = &mut tasks[task].first;
        job.work -= now - self.since;
        sink.ran(&Piece {
            task,
            number: job.number,
            cpu: self.number,
            from: self.since,
            until: now,
            reservation: self.reservation,
            boosted: false,
        });
        self.since = now;
    }
}
