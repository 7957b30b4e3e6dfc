//! The course of a simulation, from event to event.

use tailbound_time::Duration;

use super::SimulationEnd;
use super::backlog::{Backlog, Waiting};
use super::guest::GuestState;
use super::level::{Child, LevelState, MemberPlace};
use super::locks::LockStates;
use super::members::MemberSet;
use super::plan::{self, HierarchyPlan, LevelMember, Rank, Speed};
use super::problem::HierarchyError;
use super::processor::Processor;
use super::sink::{Completion, Piece, Sink};
use super::source::{Job, JobSource};
use crate::timers::{NEVER, Timers};
use tailbound_reservation::Account;

/// The last instant of a simulation.
pub(super) const END_OF_TIME_NS: u64 = 1 << 63;

/// Where the sequence of what gets ready begins. What is boosted stands as far in front of it.
const FIRST_IN_SEQUENCE: u64 = 1 << 63;

/// The CPUs with all that runs on them.
///
/// What happens at one instant happens in this order: replenishments, then completions and what
/// becomes of locks (in the order of the CPUs), then used-up budgets and turns, then releases (in the
/// order of the source), then the choice of what runs next.
pub(super) struct Engine {
    pub(super) levels: Vec<LevelState>,
    pub(super) tasks: Vec<TaskState>,
    pub(super) locks: LockStates,
    pub(super) guests: Vec<GuestState>,
    pub(super) cpus: Vec<Processor>,
    /// The CPUs, fastest first.
    pub(super) by_speed: Vec<usize>,
    /// The members of the outermost level that are pinned to each CPU; empty, if none are.
    pub(super) pinned: Vec<MemberSet>,
    /// Room for the choice of members for several CPUs.
    pub(super) chosen: Vec<usize>,
    /// Whether an event costs no more than what it touches: the members of the host have one queue for
    /// CPUs that are equally fast, and the operating system takes nothing of them.
    pub(super) by_event: bool,
    /// The CPUs that have to be looked at, where an event costs no more than what it touches.
    pub(super) touched: Vec<usize>,
    /// The levels of the host whose budgets pass, in their order, where they are chosen by event.
    pub(super) host_passing: Vec<usize>,
    /// The CPUs at which something may come to its end now.
    due: Vec<usize>,
    /// What was booked between two looks at the sink.
    pieces: Vec<Piece>,
    pub(super) costs: Costs,
    pub(super) has_overheads: bool,
    /// Units of work in a nanosecond at full speed.
    scale: u64,
    /// One for each level, and the tick.
    timers: Timers,
    pub(super) now: u64,
    /// Until when each CPU can go on as it does without a look at it.
    pub(super) limits: Timers,
    /// Whether the choice may have changed.
    pub(super) stale: bool,
    /// Whether a turn or a budget has come to its end.
    pub(super) ended: bool,
    /// Whether virtual CPUs of a guest share a budget.
    shares_budgets: bool,
    /// Whether the limits have to be found anew although the choice has not changed.
    pub(super) new_limit: bool,
    /// Counts what gets ready, for the order among equals.
    sequence: u64,
    /// Jobs that are not done.
    unfinished: u64,
    /// Levels whose work has begun to wait for budget.
    shortages: Vec<usize>,
    /// Levels that have got budget back.
    refills: Vec<usize>,
}

/// HostOverheads in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) context_switch: u64,
    pub(super) scheduler_invocation: u64,
    pub(super) migration: u64,
    interrupt: u64,
    tick: u64,
    tick_period_ns: u64,
}

pub(super) struct TaskState {
    pub(super) level: usize,
    pub(super) member: usize,
    /// The CPU that takes the interrupts of its releases.
    home: usize,
    rank: Rank,
    /// How long a job boosts its reservations at most.
    boost_ns: Option<u64>,
    /// Its unfinished jobs; the first is the one that runs.
    pub(super) backlog: Backlog,
}

impl Engine {
    /// The CPUs of a plan; `interferes`: whether something takes them from all jobs, as overheads do.
    pub(super) fn new(plan: &HierarchyPlan, interferes: bool) -> Result<Self, HierarchyError> {
        if plan.cpus.is_empty() {
            return Err(HierarchyError::NoCpu);
        }
        let (cpus, scale) = processors(plan);
        let mut by_speed: Vec<usize> = (0..cpus.len()).collect();
        by_speed.sort_by_key(|cpu| u64::MAX - cpus[*cpu].speed);
        let by_event = is_chosen_by_event(plan) && !interferes;
        let mut engine = Self {
            levels: Vec::new(),
            tasks: Vec::new(),
            locks: LockStates::new(plan, scale)?,
            guests: Vec::new(),
            limits: Timers::new(cpus.len()),
            cpus,
            by_speed,
            pinned: Vec::new(),
            chosen: Vec::new(),
            by_event,
            touched: Vec::new(),
            host_passing: Vec::new(),
            due: Vec::new(),
            pieces: Vec::new(),
            costs: Costs::new(plan)?,
            has_overheads: interferes || !plan.overheads.is_free(),
            scale,
            timers: Timers::new(0),
            now: 0,
            stale: true,
            ended: false,
            shares_budgets: shares_budgets(plan),
            new_limit: true,
            sequence: FIRST_IN_SEQUENCE,
            unfinished: 0,
            shortages: Vec::new(),
            refills: Vec::new(),
        };
        let mut guests = Vec::new();
        engine.add_level(
            &plan.root,
            None,
            Rank::Fixed(0),
            Account::unlimited(),
            &mut guests,
        )?;
        if by_event {
            engine.levels[0].run_on_cpus(engine.cpus.len());
        } else if engine.cpus.len() > 1 {
            engine.levels[0].run_several();
        }
        engine.add_queues(&guests);
        engine.pin(&plan.pinned);
        let levels = engine.levels.len();
        engine.timers = Timers::new(levels + 1);
        if engine.costs.tick > 0 {
            engine.timers.set(levels, engine.costs.tick_period_ns);
        }
        for level in 0..levels {
            engine.settle(level);
        }
        Ok(engine)
    }

    /// Notes which members of the host are pinned to which CPU, and with them what they hold.
    fn pin(&mut self, pinned: &[usize]) {
        if pinned.is_empty() {
            return;
        }
        self.pinned = vec![MemberSet::default(); self.cpus.len()];
        for (member, cpu) in pinned.iter().enumerate() {
            self.pinned[*cpu].insert(member);
        }
        for level in 0..self.levels.len() {
            self.levels[level].home = match (self.levels[level].parent, self.levels[level].guest) {
                (Some((0, member)), _) => pinned[member],
                (Some((outer, _)), _) => self.levels[outer].home,
                (None, Some(guest)) => self.levels[self.guests[guest].first_vcpu()].home,
                (None, None) => 0,
            };
        }
        for task in &mut self.tasks {
            task.home = match task.level {
                0 => pinned[task.member],
                level => self.levels[level].home,
            };
        }
    }

    fn add_level<'a>(
        &mut self,
        plan: &'a plan::Level,
        parent: Option<(usize, usize)>,
        rank: Rank,
        account: Account,
        guests: &mut Vec<&'a plan::Guest>,
    ) -> Result<(), HierarchyError> {
        let index = self.levels.len();
        // A member that is alone has nobody to give its turn to.
        let quantum = plan.quantum.filter(|_| plan.positions() > 1);
        let quantum = quantum.map(|quantum| quantum.as_nanos().max(1));
        self.levels.push(LevelState::new(
            parent,
            rank,
            account,
            plan.preemptive,
            quantum,
        ));
        for member in &plan.members {
            match member {
                LevelMember::Task(task) => {
                    let child = Child::Task(self.tasks.len());
                    let position = self.levels[index].add(child);
                    self.add_task(task, index, position);
                }
                LevelMember::Guest(guest) => {
                    self.add_guest(guest, index)?;
                    guests.push(guest);
                }
                LevelMember::Reservation(inner) => {
                    let number = self.levels.len();
                    let account = inner.supply().account(number)?;
                    let position = self.levels[index].add(Child::Level(number));
                    let parent = Some((index, position));
                    self.add_level(&inner.inside, parent, inner.rank, account, guests)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn add_task(&mut self, task: &plan::PlannedTask, level: usize, member: usize) {
        self.tasks.push(TaskState {
            level,
            member,
            home: 0,
            rank: task.rank,
            boost_ns: task.boost.map(Duration::as_nanos),
            backlog: Backlog::default(),
        });
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
        self.book_all(sink);
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
        // Budgets may pass before anything is released.
        self.choose();
        loop {
            let release = source.next_release();
            if release.is_none() && self.unfinished == 0 {
                return Ok(());
            }
            let timers = self.timers.earliest().min(release.unwrap_or(NEVER));
            let interference = source.next_interference().unwrap_or(NEVER);
            let next = timers.min(self.limits.earliest());
            let next = next.min(interference).min(horizon);
            if next >= END_OF_TIME_NS {
                return Err(HierarchyError::Overflow);
            }
            self.now = next.max(self.now);
            // The operating system may take a CPU at any event, whatever happens there.
            if !S::WHOLE_PIECES || !self.by_event {
                self.book_all(sink);
            }
            self.find_due(sink);
            self.replenish();
            for index in 0..self.due.len() {
                self.progress(self.due[index], sink)?;
            }
            if self.ended {
                self.end_turns_and_budgets();
            }
            if self.shares_budgets {
                self.end_shared_budgets();
            }
            self.interfere(source);
            while source.next_release().is_some_and(|at| at <= self.now) {
                if let Some(job) = source.take() {
                    self.release(job, sink)?;
                }
            }
            self.tell_of_budgets(sink);
            if self.now >= horizon {
                return Ok(());
            }
            self.choose();
            self.tell_pieces(sink);
        }
    }

    /// Interference that comes now takes its CPU.
    #[inline]
    fn interfere(&mut self, source: &mut impl JobSource) {
        while source.next_interference().is_some_and(|at| at <= self.now) {
            let Some(taken) = source.take_interference() else {
                return;
            };
            if let Some(processor) = self.cpus.get_mut(taken.cpu) {
                processor.take(taken.length, self.now);
                self.new_limit = true;
            }
        }
    }

    /// Before its limit no work, no turn and no budget of a CPU can come to its end.
    #[inline]
    fn find_due(&mut self, sink: &mut impl Sink) {
        self.due.clear();
        if self.now < self.limits.earliest() {
            return;
        }
        if !self.by_event {
            self.due.extend(0..self.cpus.len());
            return;
        }
        while let Some(cpu) = self.limits.due(self.now) {
            self.limits.set(cpu, NEVER);
            self.due.push(cpu);
            self.touch(cpu);
            self.book(cpu, |piece| sink.ran(piece));
        }
    }

    #[inline]
    fn tell_of_budgets(&mut self, sink: &mut impl Sink) {
        if !self.refills.is_empty() {
            for level in self.refills.drain(..) {
                sink.replenished(level, self.now);
            }
        }
        if !self.shortages.is_empty() {
            for level in self.shortages.drain(..) {
                sink.ran_out(level, self.now);
            }
        }
    }

    #[inline]
    fn tell_pieces(&mut self, sink: &mut impl Sink) {
        if !self.pieces.is_empty() {
            for piece in self.pieces.drain(..) {
                sink.ran(&piece);
            }
        }
    }

    fn book_all(&mut self, sink: &mut impl Sink) {
        for cpu in 0..self.cpus.len() {
            let processor = &mut self.cpus[cpu];
            let from = processor.booked;
            if processor.kernel_until > from && from < self.now {
                sink.overhead(cpu, from, self.now);
            }
            self.book(cpu, |piece| sink.ran(piece));
        }
    }

    /// Charges what a CPU has done to its job, to budgets and turns; tells what ran.
    #[inline]
    fn book(&mut self, cpu: usize, tell: impl FnOnce(&Piece)) {
        let processor = &mut self.cpus[cpu];
        let (from, until) = (processor.booked, self.now);
        let length = until.saturating_sub(from);
        if length == 0 {
            return;
        }
        processor.booked = until;
        for level in &processor.passing {
            self.ended |= self.levels[*level].account.spend(length);
        }
        if processor.kernel_until > from {
            self.new_limit |= processor.kernel_until <= until;
            return;
        }
        let Some(task) = processor.running else {
            return;
        };
        let innermost = processor.path.last().map_or(0, |(level, _)| *level);
        if let Some(first) = self.tasks[task].backlog.first_mut() {
            let work = length.saturating_mul(processor.speed);
            first.left = first.left.saturating_sub(work);
            tell(&Piece {
                task,
                number: first.job.number,
                cpu,
                from,
                until,
                reservation: innermost,
                boosted: self.levels[innermost].account.is_boosted(),
            });
        }
        for (level, member) in &processor.path {
            self.ended |= self.levels[*level].spend(*member, length);
        }
        if self.shares_budgets
            && let Some(&(level, _)) = self.cpus[cpu].path.get(1)
        {
            self.spend_of_others(level, length);
        }
    }

    /// Books what the CPU of a level has done, before anything about the level changes.
    #[inline]
    fn book_level(&mut self, level: usize) {
        if let Some(cpu) = self.levels[level].cpu {
            self.touch(cpu);
            self.book_for_later(cpu);
        }
    }

    /// Books what a CPU has done; what ran is told when there is a sink.
    #[inline]
    pub(super) fn book_for_later(&mut self, cpu: usize) {
        let mut ran = None;
        self.book(cpu, |piece| ran = Some(*piece));
        self.pieces.extend(ran);
    }

    /// The next choice looks at a CPU.
    #[inline]
    pub(super) fn touch(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].touched, true) {
            self.touched.push(cpu);
        }
    }

    fn replenish(&mut self) {
        while let Some(due) = self.timers.due(self.now) {
            if due == self.levels.len() {
                let next = self.now.saturating_add(self.costs.tick_period_ns);
                self.timers.set(due, next);
                for processor in &mut self.cpus {
                    processor.take(self.costs.tick, self.now);
                }
                self.new_limit = true;
            } else {
                self.book_level(due);
                self.levels[due].account.update(self.now);
                self.settle(due);
                let home = self.levels[due].home;
                self.cpus[home].looks = true;
            }
        }
    }

    /// What the work of a CPU has come to: the boundary of a section, or the end of a job.
    fn progress(&mut self, cpu: usize, sink: &mut impl Sink) -> Result<(), HierarchyError> {
        let Some(task) = self.cpus[cpu].running else {
            return Ok(());
        };
        let first = self.tasks[task].backlog.first();
        let worked = first.is_some_and(|first| first.left == 0 && first.done() > 0);
        // What a job has done by now is done, even if a tick takes the CPU at this instant.
        if self.cpus[cpu].kernel_until > self.now && !worked {
            return Ok(());
        }
        if self.locks.has_sections(task) {
            self.pass_boundaries(task)?;
            self.cpus[cpu].looks |= self.locks.is_blocked(task);
            self.new_limit = true;
        }
        let TaskState { level, member, .. } = self.tasks[task];
        let backlog = &mut self.tasks[task].backlog;
        if backlog.first().is_none_or(|first| first.left > 0) {
            return Ok(());
        }
        let Some(job) = backlog.remove_first() else {
            return Ok(());
        };
        self.unfinished -= 1;
        self.levels[level].end(member);
        self.cpus[cpu].looks = true;
        sink.completed(&Completion {
            task,
            number: job.number,
            release: job.release,
            end: self.now,
        });
        if self.locks.has_sections(task) {
            self.give_back_all(task);
        }
        match self.place_of(task) {
            Some(place) => self.member_ready(level, member, place),
            None => self.member_unready(level, member),
        }
        if self.tasks[task].boost_ns.is_some() {
            self.end_boost(task);
        }
        Ok(())
    }

    fn end_turns_and_budgets(&mut self) {
        self.ended = false;
        for index in 0..self.due.len() {
            let cpu = self.due[index];
            for step in 0..self.cpus[cpu].path.len() {
                let (level, member) = self.cpus[cpu].path[step];
                let scheduler = &mut self.levels[level];
                if scheduler.turn(member) == 0 {
                    scheduler.end_turn(member, self.sequence);
                    self.sequence += 1;
                    self.stale = true;
                    self.cpus[cpu].looks = true;
                }
                self.use_up(level, cpu);
            }
            for index in 0..self.cpus[cpu].passing.len() {
                self.use_up(self.cpus[cpu].passing[index], cpu);
            }
        }
    }

    fn use_up(&mut self, level: usize, cpu: usize) {
        let account = &mut self.levels[level].account;
        if account.left() == 0 {
            account.update(self.now);
            self.settle(level);
            self.cpus[cpu].looks = true;
        }
    }

    fn release(&mut self, job: Job, sink: &mut impl Sink) -> Result<(), HierarchyError> {
        job.check(self.tasks.len(), self.now)?;
        sink.released(&job);
        if self.has_overheads {
            let home = &mut self.cpus[self.tasks[job.task].home];
            home.take(self.costs.interrupt, self.now);
            home.looks = true;
            self.new_limit = true;
        }
        let sequence = self.next_in_sequence();
        self.unfinished += 1;
        let total = job.work.saturating_mul(self.scale);
        let task = &mut self.tasks[job.task];
        let is_first = task.backlog.add(Waiting {
            job,
            sequence,
            left: total,
            total,
            cpu: None,
            boundary: 0,
        });
        if is_first {
            let (level, member) = (task.level, task.member);
            if let Some(place) = self.place_of(job.task) {
                self.member_ready(level, member, place);
            }
        }
        if let Some(bound) = self.tasks[job.task].boost_ns {
            self.boost(job.task, self.now.saturating_add(bound));
        }
        Ok(())
    }

    /// A job boosts its reservations, from the inside out, until an instant at most.
    fn boost(&mut self, task: usize, until: u64) {
        let mut level = self.tasks[task].level;
        while let Some((outer, _)) = self.levels[level].parent {
            self.book_level(level);
            self.levels[level].boost(task, until);
            self.settle(level);
            level = outer;
        }
    }

    /// A job that boosted its reservations is done.
    fn end_boost(&mut self, task: usize) {
        let mut level = self.tasks[task].level;
        while let Some((outer, _)) = self.levels[level].parent {
            self.book_level(level);
            self.levels[level].end_boost(task);
            self.settle(level);
            level = outer;
        }
    }

    fn next_in_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    pub(super) fn member_ready(&mut self, level: usize, member: usize, place: MemberPlace) {
        self.book_level(level);
        let scheduler = &mut self.levels[level];
        let had_work = scheduler.has_work();
        scheduler.set_ready(member, place);
        if let Some(guest) = scheduler.guest {
            self.distribute(guest);
        } else if !had_work {
            scheduler.account.wake(self.now);
            self.settle(level);
        }
        self.stale = true;
    }

    pub(super) fn member_unready(&mut self, level: usize, member: usize) {
        self.book_level(level);
        let scheduler = &mut self.levels[level];
        scheduler.set_unready(member);
        if let Some(guest) = scheduler.guest {
            self.distribute(guest);
        } else if !scheduler.has_work() {
            scheduler.account.sleep(self.now);
            self.settle(level);
        }
        self.stale = true;
    }

    /// Takes note of what a level's work and budget mean for its place in its parent. What its CPU has
    /// done is booked.
    pub(super) fn settle(&mut self, level: usize) {
        let scheduler = &mut self.levels[level];
        let Some((parent, member)) = scheduler.parent else {
            // The host has no budget.
            return;
        };
        let boosted_until = scheduler.boosted_until(self.now);
        let boosted = boosted_until > 0;
        let account = &mut scheduler.account;
        let mut change = account.next_change();
        if boosted {
            change = change.min(boosted_until);
        }
        self.timers.set(level, change);
        if account.begins_shortage() {
            self.shortages.push(level);
        }
        if account.was_refilled() {
            self.refills.push(level);
        }
        let may_run = account.left() > 0;
        let passes = may_run && account.passes_unused();
        let rank = match scheduler.rank {
            _ if boosted => 0,
            Rank::Fixed(rank) => rank,
            Rank::Deadline(_) => account.deadline(),
        };
        let runs = may_run && scheduler.has_work();
        let outer = &mut self.levels[parent];
        let is_ready = outer.is_ready(member);
        // The operating system looks what to run, even if that has not changed.
        self.stale |= self.has_overheads;
        self.new_limit = true;
        if !is_ready && !runs && !passes && !outer.passes(member) {
            return;
        }
        // It stands anew among others when a boost begins, and when it ends.
        let since = outer.since(member);
        let since = match since.filter(|since| (*since < FIRST_IN_SEQUENCE) == boosted) {
            Some(since) => since,
            None => {
                self.sequence += 1;
                let front = if boosted { FIRST_IN_SEQUENCE } else { 0 };
                self.sequence - 1 - front
            }
        };
        let place = MemberPlace { rank, since };
        let passes = passes && !runs;
        if outer.set_passing(member, passes.then_some(place)) {
            self.book_level(parent);
            self.stale = true;
        }
        if runs {
            if !is_ready || self.levels[parent].place(member) != place {
                self.member_ready(parent, member, place);
            }
        } else if is_ready {
            self.member_unready(parent, member);
        }
    }

    /// The rank of a task's first job, or what it inherits.
    pub(super) fn effective_rank(&self, task: usize) -> u64 {
        let first = self.tasks[task].backlog.first();
        let own = match self.tasks[task].rank {
            Rank::Fixed(rank) => rank,
            Rank::Deadline(relative) => first.map_or(NEVER, |first| {
                first.job.release.saturating_add(relative.as_nanos())
            }),
        };
        own.min(self.locks.inherited(task))
    }

    /// The place of a task in its level; none if it has no job, or waits for a lock.
    pub(super) fn place_of(&self, task: usize) -> Option<MemberPlace> {
        if self.locks.is_blocked(task) {
            return None;
        }
        let first = self.tasks[task].backlog.first()?;
        Some(MemberPlace {
            rank: self.effective_rank(task),
            since: first.sequence,
        })
    }
}

/// The CPUs of a plan, and how many units of work there are in a nanosecond at full speed.
fn processors(plan: &HierarchyPlan) -> (Vec<Processor>, u64) {
    let all_full = plan.cpus.iter().all(|speed| *speed == Speed::FULL);
    let unit = |speed: &Speed| {
        if all_full {
            1
        } else {
            u64::from(speed.as_permille())
        }
    };
    let cpus = plan.cpus.iter().map(|it| Processor::new(unit(it)));
    (cpus.collect(), unit(&Speed::FULL))
}

/// Whether an event can cost no more than what it touches: nobody moves to a faster CPU, stays where it
/// began, or loses time to the operating system.
fn is_chosen_by_event(plan: &HierarchyPlan) -> bool {
    plan.cpus.len() > 1
        && plan.cpus.iter().all(|speed| *speed == plan.cpus[0])
        && plan.root.preemptive
        && plan.pinned.is_empty()
        && plan.overheads.is_free()
        && !shares_budgets(plan)
}

fn shares_budgets(plan: &HierarchyPlan) -> bool {
    let mut members = plan.root.members.iter();
    members.any(|member| matches!(member, LevelMember::Guest(guest) if guest.shares_budget))
}

impl Costs {
    fn new(plan: &HierarchyPlan) -> Result<Self, HierarchyError> {
        let overheads = plan.overheads;
        let tick = overheads.tick.filter(|tick| !tick.period.is_zero());
        if let Some(tick) = tick.filter(|tick| tick.cost >= tick.period) {
            return Err(HierarchyError::Tick {
                cost: tick.cost,
                period: tick.period,
            });
        }
        Ok(Self {
            context_switch: overheads.context_switch.as_nanos(),
            scheduler_invocation: overheads.scheduler_invocation.as_nanos(),
            migration: overheads.migration.as_nanos(),
            interrupt: overheads.interrupt.as_nanos(),
            tick: tick.map_or(0, |tick| tick.cost.as_nanos()),
            tick_period_ns: tick.map_or(NEVER, |tick| tick.period.as_nanos()),
        })
    }
}
