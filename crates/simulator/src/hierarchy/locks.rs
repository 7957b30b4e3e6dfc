//! Locks: who holds them, who waits, and what rank that gives.

use tailbound_model::LockProtocol;
use tailbound_time::Duration;

use super::engine::Engine;
use super::plan::{HierarchyPlan, Level, LevelMember, PlannedTask, Rank};
use super::problem::HierarchyError;
use crate::timers::NEVER;

/// The locks of a plan in the course of a simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct LockStates {
    locks: Vec<Lock>,
    /// Where the sections of each task begin and end.
    boundaries: Vec<Vec<Boundary>>,
    /// The locks that each task holds, in the order in which it got them.
    held: Vec<Vec<usize>>,
    /// What each task waits for.
    blocked: Vec<Option<usize>>,
    /// The rank that each task has by the locks that it holds; never, if none.
    inherited: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Lock {
    protocol: LockProtocol,
    /// The level whose tasks use it.
    level: Option<usize>,
    /// The least rank of those who use it.
    ceiling: u64,
    holder: Option<usize>,
    /// The tasks that wait; by the ceiling protocol also those that asked for another lock.
    waiting: Vec<usize>,
}

/// A begin or an end of a section.
#[derive(Clone, Copy, Debug)]
struct Boundary {
    /// It is reached when so much work has been done.
    done: u64,
    lock: usize,
    begins: bool,
}

impl LockStates {
    /// The locks of a plan, with so many units of work in a nanosecond.
    pub(super) fn new(plan: &HierarchyPlan, scale: u64) -> Result<Self, HierarchyError> {
        let lock = |protocol: &LockProtocol| Lock {
            protocol: *protocol,
            level: None,
            ceiling: NEVER,
            holder: None,
            waiting: Vec::new(),
        };
        let mut locks = Self {
            locks: plan.locks.iter().map(lock).collect(),
            ..Self::default()
        };
        locks.add_level(&plan.root, plan.cpus.len(), scale, &mut 0)?;
        Ok(locks)
    }

    /// `number` is that of the level, whose tasks run on so many CPUs.
    fn add_level(
        &mut self,
        level: &Level,
        cpus: usize,
        scale: u64,
        number: &mut usize,
    ) -> Result<(), HierarchyError> {
        let own = *number;
        for member in &level.members {
            match member {
                LevelMember::Task(task) => {
                    self.add_task(task, scale, own)?;
                    self.refuse_ceiling(task, cpus)?;
                }
                LevelMember::Guest(guest) => {
                    // A level of its own, which is called by its first virtual CPU.
                    let level = *number + 1;
                    *number += guest.vcpus.len();
                    for task in &guest.tasks {
                        self.add_task(task, scale, level)?;
                        self.refuse_ceiling(task, guest.vcpus.len())?;
                    }
                }
                LevelMember::Reservation(inner) => {
                    *number += 1;
                    self.add_level(&inner.inside, 1, scale, number)?;
                }
            }
        }
        Ok(())
    }

    /// The priority ceiling protocol is for one CPU, virtual ones too.
    fn refuse_ceiling(&self, task: &PlannedTask, cpus: usize) -> Result<(), HierarchyError> {
        let locks = task.sections.iter();
        let mut protocols = locks.filter_map(|section| self.locks.get(section.lock));
        if cpus > 1 && protocols.any(|lock| lock.protocol == LockProtocol::Ceiling) {
            return Err(HierarchyError::CeilingOnSeveralCpus { cpus });
        }
        Ok(())
    }

    fn add_task(
        &mut self,
        task: &PlannedTask,
        scale: u64,
        level: usize,
    ) -> Result<(), HierarchyError> {
        let number = self.boundaries.len();
        self.boundaries.push(boundaries(task, number, scale)?);
        self.held.push(Vec::new());
        self.blocked.push(None);
        self.inherited.push(NEVER);
        let locks = self.locks.len();
        for section in &task.sections {
            let Some(lock) = self.locks.get_mut(section.lock) else {
                return Err(HierarchyError::UnknownLock {
                    task: number,
                    lock: section.lock,
                    locks,
                });
            };
            if lock.level.replace(level).is_some_and(|it| it != level) {
                return Err(HierarchyError::LockAcrossLevels {
                    lock: section.lock,
                    task: number,
                });
            }
            match (task.rank, lock.protocol) {
                (Rank::Fixed(rank), _) => lock.ceiling = lock.ceiling.min(rank),
                (Rank::Deadline(_), LockProtocol::None | LockProtocol::Inheritance) => {}
                (Rank::Deadline(_), LockProtocol::Ceiling | LockProtocol::ImmediateCeiling) => {
                    return Err(HierarchyError::CeilingOfDeadlines { task: number });
                }
            }
        }
        Ok(())
    }

    /// How much more work a job of the task may do, of which it has done `done`, before it comes to
    /// the boundary of a section.
    pub(super) fn until_boundary(&self, task: usize, index: usize, done: u64) -> u64 {
        let next = self.boundaries[task].get(index);
        next.map_or(NEVER, |boundary| boundary.done.saturating_sub(done))
    }

    pub(super) fn has_sections(&self, task: usize) -> bool {
        !self.boundaries[task].is_empty()
    }

    pub(super) fn is_blocked(&self, task: usize) -> bool {
        self.blocked[task].is_some()
    }

    pub(super) fn inherited(&self, task: usize) -> u64 {
        self.inherited[task]
    }

    /// The lock that keeps a task of this rank from getting the one that it asks for.
    fn obstacle(&self, task: usize, rank: u64, lock: usize) -> Option<usize> {
        if self.locks[lock].holder.is_some() {
            return Some(lock);
        }
        if self.locks[lock].protocol != LockProtocol::Ceiling {
            return None;
        }
        // Ranks of other levels are another order.
        let level = self.locks[lock].level;
        let of_others = self.locks.iter().enumerate().filter(|(_, lock)| {
            lock.protocol == LockProtocol::Ceiling
                && lock.level == level
                && lock.holder.is_some_and(|holder| holder != task)
                && lock.ceiling <= rank
        });
        of_others
            .min_by_key(|(_, lock)| lock.ceiling)
            .map(|(index, _)| index)
    }

    /// Whether one who waits for this lock waits for itself in the end.
    fn waits_for_itself(&self, task: usize, lock: usize) -> bool {
        let mut next = self.locks[lock].holder;
        while let Some(holder) = next.filter(|holder| *holder != task) {
            next = self.blocked[holder].and_then(|lock| self.locks[lock].holder);
        }
        next.is_some()
    }
}

/// The boundaries of a task's sections, in the order in which a job comes to them.
fn boundaries(
    task: &PlannedTask,
    number: usize,
    scale: u64,
) -> Result<Vec<Boundary>, HierarchyError> {
    let mut sections: Vec<(u64, u64, usize, usize)> = task
        .sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            let begin = section.after.as_nanos();
            let end = begin.saturating_add(section.length.as_nanos());
            (begin, end, index, section.lock)
        })
        .collect();
    // Of those that begin together the longer one comes first: it holds the other.
    sections.sort_by_key(|(begin, end, index, _)| (*begin, u64::MAX - *end, *index));
    let mut all = Vec::with_capacity(2 * sections.len());
    let mut open: Vec<(u64, usize)> = Vec::new();
    let close = |all: &mut Vec<Boundary>, (end, lock): (u64, usize)| {
        all.push(Boundary {
            done: end.saturating_mul(scale),
            lock,
            begins: false,
        });
    };
    for (begin, end, section, lock) in sections {
        while let Some(inner) = open.pop_if(|(until, _)| *until <= begin) {
            close(&mut all, inner);
        }
        let crosses = open.last().is_some_and(|(until, _)| *until < end);
        if crosses || begin == end || open.iter().any(|(_, held)| *held == lock) {
            return Err(HierarchyError::Sections {
                task: number,
                section,
            });
        }
        all.push(Boundary {
            done: begin.saturating_mul(scale),
            lock,
            begins: true,
        });
        open.push((end, lock));
    }
    while let Some(inner) = open.pop() {
        close(&mut all, inner);
    }
    Ok(all)
}

impl Engine {
    /// Takes and gives back what the running job's sections say that it has come to.
    pub(super) fn pass_boundaries(&mut self, task: usize) -> Result<(), HierarchyError> {
        while let Some(first) = self.tasks[task].backlog.first() {
            let next = self.locks.boundaries[task].get(first.boundary).copied();
            let Some(boundary) = next.filter(|next| next.done <= first.done()) else {
                break;
            };
            // Who has no more work needs no more locks.
            if boundary.begins && first.left > 0 {
                if !self.acquire(task, boundary.lock)? {
                    break;
                }
            } else if !boundary.begins {
                self.give_back(task, boundary.lock);
            }
            if let Some(first) = self.tasks[task].backlog.first_mut() {
                first.boundary += 1;
            }
        }
        Ok(())
    }

    /// The task holds the lock, or waits for it: then this is false.
    fn acquire(&mut self, task: usize, lock: usize) -> Result<bool, HierarchyError> {
        let rank = self.effective_rank(task);
        let Some(obstacle) = self.locks.obstacle(task, rank, lock) else {
            self.hold(task, lock);
            return Ok(true);
        };
        if self.locks.waits_for_itself(task, obstacle) {
            return Err(HierarchyError::Deadlock {
                task,
                lock,
                at: Duration::from_nanos(self.now),
            });
        }
        self.locks.blocked[task] = Some(obstacle);
        self.locks.locks[obstacle].waiting.push(task);
        let (level, member) = (self.tasks[task].level, self.tasks[task].member);
        self.levels[level].end(member);
        self.member_unready(level, member);
        if self.locks.locks[obstacle].protocol != LockProtocol::None {
            self.bequeath(obstacle, rank);
        }
        Ok(false)
    }

    fn hold(&mut self, task: usize, lock: usize) {
        self.locks.locks[lock].holder = Some(task);
        self.locks.held[task].push(lock);
        self.inherit_anew(task);
    }

    /// Who holds the lock, and whom that one waits for, come as early as a rank says.
    fn bequeath(&mut self, lock: usize, rank: u64) {
        let mut next = self.locks.locks[lock].holder;
        while let Some(holder) = next.filter(|holder| rank < self.locks.inherited[*holder]) {
            self.locks.inherited[holder] = rank;
            self.place_anew(holder);
            next = self.locks.blocked[holder].and_then(|lock| self.locks.locks[lock].holder);
        }
    }

    /// All that a job still holds is given back.
    pub(super) fn give_back_all(&mut self, task: usize) {
        while let Some(lock) = self.locks.held[task].last().copied() {
            self.give_back(task, lock);
        }
    }

    fn give_back(&mut self, task: usize, lock: usize) {
        if self.locks.locks[lock].holder != Some(task) {
            return;
        }
        self.locks.locks[lock].holder = None;
        self.locks.held[task].retain(|held| *held != lock);
        self.inherit_anew(task);
        if self.locks.locks[lock].protocol == LockProtocol::Ceiling {
            // Who waited asks again when its turn comes, since the ceilings may still be too high.
            for waiter in std::mem::take(&mut self.locks.locks[lock].waiting) {
                self.unblock(waiter);
            }
            return;
        }
        let waiting = &self.locks.locks[lock].waiting;
        let best = (0..waiting.len()).min_by_key(|at| self.effective_rank(waiting[*at]));
        if let Some(at) = best {
            let heir = self.locks.locks[lock].waiting.remove(at);
            if let Some(first) = self.tasks[heir].backlog.first_mut() {
                first.boundary += 1;
            }
            self.hold(heir, lock);
            self.unblock(heir);
        }
    }

    fn unblock(&mut self, task: usize) {
        self.locks.blocked[task] = None;
        let (level, member) = (self.tasks[task].level, self.tasks[task].member);
        if let Some(place) = self.place_of(task) {
            self.member_ready(level, member, place);
        }
    }

    /// The rank that a task has by what it holds now.
    fn inherit_anew(&mut self, task: usize) {
        let of_lock = |index: &usize| {
            let lock = &self.locks.locks[*index];
            let waiting = lock.waiting.iter();
            let first = waiting.map(|waiter| self.effective_rank(*waiter)).min();
            match lock.protocol {
                LockProtocol::None => NEVER,
                LockProtocol::ImmediateCeiling => lock.ceiling.min(first.unwrap_or(NEVER)),
                LockProtocol::Inheritance | LockProtocol::Ceiling => first.unwrap_or(NEVER),
            }
        };
        let inherited = self.locks.held[task].iter().map(of_lock).min();
        self.locks.inherited[task] = inherited.unwrap_or(NEVER);
        self.place_anew(task);
    }

    fn place_anew(&mut self, task: usize) {
        let (level, member) = (self.tasks[task].level, self.tasks[task].member);
        let rank = self.effective_rank(task);
        if let Some(since) = self.levels[level].since(member) {
            self.member_ready(level, member, super::level::MemberPlace { rank, since });
        }
    }
}
