//! The course of a simulation, from event to event.

use std::collections::VecDeque;

use super::account::Account;
use super::level::{Child, Level, Place};
use super::plan::{self, AccountProblem, Member, Plan, Rank};
use super::sink::{Completion, Sink};
use super::source::{Job, Source};
use crate::timers::{NEVER, Timers};

/// One CPU with all that runs on it.
///
/// What happens at one instant happens in this order: replenishments, then completions, then releases
/// (in the order of the source), then the choice of what runs next.
pub(super) struct Engine {
    levels: Vec<Level>,
    /// The rank of each level as a member of its parent.
    ranks: Vec<Rank>,
    tasks: Vec<Task>,
    timers: Timers,
    /// The members that run, from the host down to the task.
    path: Vec<(usize, usize)>,
    /// The levels whose budget passes although they do nothing.
    passing: Vec<usize>,
    running: Option<usize>,
    now: u64,
    /// Until when the present choice can go on without a look at it.
    limit: u64,
    /// Whether the choice may have changed.
    stale: bool,
    /// Counts what gets ready, for the order among equals.
    sequence: u64,
    /// Jobs that are not done.
    unfinished: usize,
    /// Levels whose work has begun to wait for budget.
    shortages: Vec<usize>,
}

struct Task {
    level: usize,
    member: usize,
    rank: Rank,
    /// Its unfinished jobs; the first is the one that runs.
    backlog: VecDeque<Waiting>,
}

struct Waiting {
    job: Job,
    sequence: u64,
}

impl Engine {
    pub(super) fn new(plan: &Plan) -> Result<Self, AccountProblem> {
        let mut engine = Self {
            levels: Vec::new(),
            ranks: vec![Rank::Fixed(0)],
            tasks: Vec::new(),
            timers: Timers::new(0),
            path: Vec::new(),
            passing: Vec::new(),
            running: None,
            now: 0,
            limit: NEVER,
            stale: true,
            sequence: 0,
            unfinished: 0,
            shortages: Vec::new(),
        };
        let unlimited = Account::new(plan::Rule::Unlimited, 0, 0, 0)?;
        engine.add_level(&plan.root, None, unlimited)?;
        engine.timers = Timers::new(engine.levels.len());
        for level in 0..engine.levels.len() {
            engine.settle(level);
        }
        Ok(engine)
    }

    fn add_level(
        &mut self,
        plan: &plan::Level,
        parent: Option<(usize, usize)>,
        account: Account,
    ) -> Result<usize, AccountProblem> {
        let index = self.levels.len();
        let quantum = plan.quantum.map(|quantum| quantum.as_nanos().max(1));
        self.levels
            .push(Level::new(parent, account, plan.preemptive, quantum));
        for member in &plan.members {
            match member {
                Member::Task(task) => {
                    let child = Child::Task(self.tasks.len());
                    let position = self.levels[index].add(child);
                    self.tasks.push(Task {
                        level: index,
                        member: position,
                        rank: task.rank,
                        backlog: VecDeque::new(),
                    });
                }
                Member::Reservation(inner) => {
                    let account = Account::new(
                        inner.rule,
                        inner.budget.as_nanos(),
                        inner.period.as_nanos(),
                        inner.phase.as_nanos(),
                    )?;
                    let child = Child::Level(self.levels.len());
                    let position = self.levels[index].add(child);
                    self.ranks.push(inner.rank);
                    self.add_level(&inner.inside, Some((index, position)), account)?;
                }
            }
        }
        Ok(index)
    }

    /// Runs until all jobs are done, or up to the horizon.
    pub(super) fn run(&mut self, source: &mut impl Source, sink: &mut impl Sink, horizon: u64) {
        // Budgets may pass before anything is released.
        self.choose();
        loop {
            let release = source.next_release();
            if release.is_none() && self.unfinished == 0 {
                return;
            }
            let timers = self.timers.earliest().min(release.unwrap_or(NEVER));
            let next = timers.min(self.limit).min(horizon);
            self.elapse(next, sink);
            self.replenish();
            self.complete(sink);
            self.end_turns_and_budgets();
            while source.next_release().is_some_and(|at| at <= self.now) {
                if let Some(job) = source.take() {
                    self.release(job);
                }
            }
            for level in self.shortages.drain(..) {
                sink.ran_out(level, self.now);
            }
            if self.now >= horizon {
                return;
            }
            self.choose();
        }
    }

    fn elapse(&mut self, until: u64, sink: &mut impl Sink) {
        let length = until - self.now;
        if length > 0 {
            if let Some(task) = self.running {
                if let Some(first) = self.tasks[task].backlog.front_mut() {
                    first.job.work -= length;
                }
                sink.ran(task, self.now, until);
            }
            for (level, member) in &self.path {
                let level = &mut self.levels[*level];
                level.account.spend(length);
                level.spend_turn(*member, length);
            }
            for level in &self.passing {
                self.levels[*level].account.spend(length);
            }
        }
        self.now = until;
    }

    fn replenish(&mut self) {
        while let Some(level) = self.timers.due(self.now) {
            self.levels[level].account.update(self.now);
            self.settle(level);
        }
    }

    fn complete(&mut self, sink: &mut impl Sink) {
        let Some(task) = self.running else { return };
        let Task { level, member, .. } = self.tasks[task];
        let backlog = &mut self.tasks[task].backlog;
        if backlog.front().is_none_or(|first| first.job.work > 0) {
            return;
        }
        let Some(Waiting { job, .. }) = backlog.pop_front() else {
            return;
        };
        self.unfinished -= 1;
        self.levels[level].begun = None;
        sink.completed(&Completion {
            task,
            number: job.number,
            release: job.release,
            end: self.now,
        });
        match self.tasks[task].first_place() {
            Some(place) => self.member_ready(level, member, place),
            None => self.member_unready(level, member),
        }
    }

    fn end_turns_and_budgets(&mut self) {
        for step in 0..self.path.len() {
            let (level, member) = self.path[step];
            let scheduler = &mut self.levels[level];
            if scheduler.turn(member) == 0 {
                scheduler.end_turn(member, self.sequence);
                self.sequence += 1;
                self.stale = true;
            }
            self.use_up(level);
        }
        for index in 0..self.passing.len() {
            self.use_up(self.passing[index]);
        }
    }

    fn use_up(&mut self, level: usize) {
        let account = &mut self.levels[level].account;
        if account.left() == 0 {
            account.update(self.now);
            self.settle(level);
        }
    }

    fn release(&mut self, job: Job) {
        let sequence = self.next_in_sequence();
        self.unfinished += 1;
        let task = &mut self.tasks[job.task];
        task.backlog.push_back(Waiting { job, sequence });
        if task.backlog.len() == 1 {
            let (level, member) = (task.level, task.member);
            if let Some(place) = task.first_place() {
                self.member_ready(level, member, place);
            }
        }
    }

    fn next_in_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    fn member_ready(&mut self, level: usize, member: usize, place: Place) {
        let scheduler = &mut self.levels[level];
        let had_work = scheduler.has_work();
        scheduler.set_ready(member, place);
        if !had_work {
            scheduler.account.wake(self.now);
            self.settle(level);
        }
        self.stale = true;
    }

    fn member_unready(&mut self, level: usize, member: usize) {
        let scheduler = &mut self.levels[level];
        scheduler.set_unready(member);
        if !scheduler.has_work() {
            scheduler.account.sleep(self.now);
            self.settle(level);
        }
        self.stale = true;
    }

    /// Takes note of what a level's work and budget mean for its place in its parent.
    fn settle(&mut self, level: usize) {
        let scheduler = &mut self.levels[level];
        self.timers.set(level, scheduler.account.next_change());
        if scheduler.account.begins_shortage() {
            self.shortages.push(level);
        }
        let Some((parent, member)) = scheduler.parent else {
            return;
        };
        let has_work = scheduler.has_work();
        let may_run = scheduler.account.left() > 0;
        let passes = scheduler.account.passes_unused() && may_run && !has_work;
        let rank = match self.ranks[level] {
            Rank::Fixed(rank) => rank,
            Rank::Deadline(_) => scheduler.account.deadline(),
        };
        let since = match self.levels[parent].since(member) {
            Some(since) => since,
            None => self.next_in_sequence(),
        };
        let place = Place { rank, since };
        self.levels[parent].set_passing(member, passes.then_some(place));
        self.stale = true;
        if has_work && may_run {
            self.member_ready(parent, member, place);
        } else if self.levels[parent].is_ready(member) {
            self.member_unready(parent, member);
        }
    }

    /// Chooses what runs from now on, and until when that needs no look.
    fn choose(&mut self) {
        if !self.stale {
            return;
        }
        self.stale = false;
        self.path.clear();
        self.passing.clear();
        self.running = None;
        let mut length = NEVER;
        let mut level = 0;
        loop {
            let scheduler = &mut self.levels[level];
            let first = scheduler.first();
            if let Some(member) = scheduler.passing_before(first)
                && let Child::Level(passing) = scheduler.children[member]
            {
                self.passing.push(passing);
            }
            let Some(member) = first else { break };
            length = length
                .min(scheduler.turn(member))
                .min(scheduler.account.left());
            self.path.push((level, member));
            match scheduler.children[member] {
                Child::Level(inner) => level = inner,
                Child::Task(task) => {
                    if !scheduler.preemptive {
                        scheduler.begun = Some(member);
                    }
                    self.running = Some(task);
                    let first = self.tasks[task].backlog.front();
                    length = length.min(first.map_or(0, |first| first.job.work));
                    break;
                }
            }
        }
        for level in &self.passing {
            length = length.min(self.levels[*level].account.left());
        }
        self.limit = self.now.saturating_add(length);
    }
}

impl Task {
    fn first_place(&self) -> Option<Place> {
        let first = self.backlog.front()?;
        let rank = match self.rank {
            Rank::Fixed(rank) => rank,
            Rank::Deadline(relative) => first.job.release.saturating_add(relative.as_nanos()),
        };
        Some(Place {
            rank,
            since: first.sequence,
        })
    }
}
