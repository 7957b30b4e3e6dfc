//! The course of a simulation, from event to event.

use tailbound_model::HostOverheads;
use tailbound_time::Duration;

use super::Usage;
use super::jobs::{Done, Jobs};
use super::policy::{On, SoftJobPolicy};
use crate::hierarchy::{Completion, Job, JobSource, Piece, Sink};
use crate::timers::NEVER;

/// One CPU.
///
/// What happens at one instant happens in this order: replenishments and what else comes by itself, then
/// completions, then releases (in the order of the source), then the choice of what runs next.
pub(super) struct AperiodicEngine<P> {
    policy: P,
    jobs: Jobs,
    costs: SchedulerCosts,
    now: u64,
    on: On,
    /// Until when the present choice holds.
    limit: u64,
    /// Whether somebody is interrupted then.
    interrupts: bool,
    /// HostOverheads that are still to be taken.
    due: u64,
    next_tick: u64,
    /// The task that was on the CPU last; soft ones come after all hard ones.
    last: Option<usize>,
    totals: Totals,
}

/// The overheads in nanoseconds.
struct SchedulerCosts {
    switch: u64,
    look: u64,
    release: u64,
    tick: u64,
    tick_period_ns: u64,
}

/// What is counted, in nanoseconds where it is a time.
#[derive(Default)]
struct Totals {
    hard: u64,
    soft: u64,
    idle: u64,
    overhead: u64,
    switches: u64,
    looks: u64,
    ticks: u64,
    releases: u64,
    policy: u64,
}

impl<P: SoftJobPolicy> AperiodicEngine<P> {
    pub(super) fn new(policy: P, jobs: Jobs, overheads: &HostOverheads) -> Self {
        let tick = overheads.tick.filter(|tick| !tick.period.is_zero());
        let tick_period_ns = tick.map_or(NEVER, |tick| tick.period.as_nanos());
        Self {
            policy,
            jobs,
            costs: SchedulerCosts {
                switch: overheads.context_switch.as_nanos(),
                look: overheads.scheduler_invocation.as_nanos(),
                release: overheads.interrupt.as_nanos(),
                tick: tick.map_or(0, |tick| tick.cost.as_nanos()),
                tick_period_ns,
            },
            now: 0,
            on: On::Idle,
            limit: NEVER,
            interrupts: false,
            due: 0,
            next_tick: tick_period_ns,
            last: None,
            totals: Totals::default(),
        }
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run(
        mut self,
        source: &mut impl JobSource,
        sink: &mut impl Sink,
        horizon: u64,
    ) -> Usage {
        self.choose();
        loop {
            let release = source.next_release();
            if release.is_none() && self.all_done() {
                break;
            }
            let by_itself = self.policy.next_change(&self.jobs, self.on);
            let next = by_itself.min(release.unwrap_or(NEVER)).min(self.next_tick);
            let next = next.min(self.limit).min(horizon).max(self.now);
            self.elapse(next, sink);
            let mut look = self.interrupts && self.now == self.limit;
            if by_itself <= self.now {
                let cost = self.policy.change(&self.jobs, self.now);
                self.charge_policy(cost);
                look = true;
            }
            look |= self.complete(sink);
            self.policy.settle(self.now);
            while source.next_release().is_some_and(|at| at <= self.now) {
                if let Some(job) = source.take() {
                    sink.released(&job);
                    self.release(job);
                    look = true;
                }
            }
            if self.policy.begins_shortage() {
                sink.ran_out(1, self.now);
            }
            self.tick();
            if look {
                self.totals.looks += 1;
                self.due += self.costs.look;
            }
            if self.now >= horizon {
                break;
            }
            self.choose();
        }
        self.usage()
    }

    fn all_done(&self) -> bool {
        let none_left = self.jobs.first_hard().is_none() && !self.jobs.soft_waits();
        none_left && self.due == 0
    }

    fn elapse(&mut self, until: u64, sink: &mut impl Sink) {
        let (from, length) = (self.now, until - self.now);
        let ran = |task, job: &Job| Piece {
            task,
            number: job.number,
            cpu: 0,
            from,
            until,
            reservation: 0,
            boosted: false,
        };
        if length > 0 {
            match self.on {
                On::Hard(task) => {
                    let hard = &mut self.jobs.hard[task];
                    hard.executed += length;
                    if let Some(first) = hard.backlog.front_mut() {
                        first.work -= length;
                        sink.ran(&ran(task, first));
                    }
                    self.totals.hard += length;
                }
                On::Soft => {
                    if let Some(first) = self.jobs.soft.front_mut() {
                        first.work -= length;
                        sink.ran(&ran(first.task, first));
                    }
                    self.totals.soft += length;
                }
                On::Idle => self.totals.idle += length,
                On::Overhead => {
                    self.due -= length;
                    self.totals.overhead += length;
                    sink.overhead(0, from, until);
                }
            }
            self.policy.passed(self.on, length);
        }
        self.now = until;
    }

    /// Takes the job that runs off if it is done; whether it is.
    fn complete(&mut self, sink: &mut impl Sink) -> bool {
        let backlog = match self.on {
            On::Hard(task) => &mut self.jobs.hard[task].backlog,
            On::Soft => &mut self.jobs.soft,
            On::Idle | On::Overhead => return false,
        };
        if backlog.front().is_none_or(|first| first.work > 0) {
            return false;
        }
        let Some(job) = backlog.pop_front() else {
            return false;
        };
        sink.completed(&Completion {
            task: job.task,
            number: job.number,
            release: job.release,
            end: self.now,
        });
        if let On::Hard(task) = self.on {
            let executed = std::mem::take(&mut self.jobs.hard[task].executed);
            let done = Done {
                task,
                release: job.release,
                executed,
            };
            let cost = self.policy.hard_done(&self.jobs, &done, self.now);
            self.charge_policy(cost);
        } else if !self.jobs.soft_waits() {
            self.policy.soft_sleeps(self.now);
        }
        // Nobody is on the CPU until the next choice.
        self.on = On::Idle;
        true
    }

    fn release(&mut self, job: Job) {
        self.totals.releases += 1;
        self.due += self.costs.release;
        match self.jobs.hard.get_mut(job.task) {
            Some(hard) => {
                hard.next_release = job.release.saturating_add(hard.period_ns);
                hard.backlog.push_back(job);
                self.policy.hard_released(&self.jobs, job.task, self.now);
            }
            None => {
                self.jobs.soft.push_back(job);
                if self.jobs.soft.len() == 1 {
                    self.policy.soft_wakes(self.now);
                }
            }
        }
    }

    fn tick(&mut self) {
        if self.now >= self.next_tick {
            self.next_tick = self.next_tick.saturating_add(self.costs.tick_period_ns);
            self.totals.ticks += 1;
            self.due += self.costs.tick;
        }
    }

    fn charge_policy(&mut self, cost: u64) {
        self.totals.policy += cost;
        self.due += cost;
    }

    /// Chooses who has the CPU from now on, and for how long. HostOverheads come first; whom to run is
    /// looked at when they are over.
    fn choose(&mut self) {
        if self.due == 0 {
            let choice = self.policy.choose(&self.jobs, self.now);
            let (task, work) = match choice.on {
                On::Hard(task) => (Some(task), self.jobs.hard[task].backlog.front()),
                On::Soft => {
                    let first = self.jobs.soft.front();
                    (first.map(|job| job.task), first)
                }
                On::Idle | On::Overhead => (None, None),
            };
            if task.is_some() && self.last != task {
                self.last = task;
                self.totals.switches += 1;
                self.due += self.costs.switch;
            }
            if self.due == 0 {
                let work = work.map_or(NEVER, |job| job.work);
                self.on = choice.on;
                self.interrupts = choice.interrupts && choice.length <= work;
                self.limit = self.now.saturating_add(choice.length.min(work));
                return;
            }
        }
        self.on = On::Overhead;
        self.interrupts = false;
        self.limit = self.now.saturating_add(self.due);
    }

    fn usage(&self) -> Usage {
        let totals = &self.totals;
        let times = |count: u64, cost: u64| Duration::from_nanos(count.saturating_mul(cost));
        Usage {
            elapsed: Duration::from_nanos(self.now),
            hard: Duration::from_nanos(totals.hard),
            soft: Duration::from_nanos(totals.soft),
            idle: Duration::from_nanos(totals.idle),
            overhead: Duration::from_nanos(totals.overhead),
            context_switches: totals.switches,
            switching: times(totals.switches, self.costs.switch),
            scheduler_invocations: totals.looks,
            scheduling: times(totals.looks, self.costs.look),
            policy: Duration::from_nanos(totals.policy),
            interrupts: times(totals.releases, self.costs.release),
            ticks: times(totals.ticks, self.costs.tick),
        }
    }
}
