//! Locks: the schedules of the protocols by hand, against a simulation from tick to tick, and mutual
//! exclusion on several CPUs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyError, HierarchyPlan, Level, LevelMember, LockProtocol, LockSection,
    Piece, PlannedReservation, PlannedTask, Rank, Rule, ServerKind, Sink, simulate_plan,
};
use tailbound_time::Duration;

use crate::plans::{jobs, ns};

const LOCKS: usize = 3;

/// Lock, begin and length of each section.
type Sections = Vec<(usize, u64, u64)>;

fn task(rank: Rank, sections: &[(usize, u64, u64)]) -> LevelMember {
    let sections = sections.iter().map(|(lock, after, length)| LockSection {
        lock: *lock,
        after: ns(*after),
        length: ns(*length),
    });
    LevelMember::Task(PlannedTask {
        rank,
        sections: sections.collect(),
        boost: None,
    })
}

/// Tasks in the order of their ranks.
fn plan(cpus: usize, locking: LockProtocol, tasks: &[Sections]) -> HierarchyPlan {
    let member = |(rank, sections): (usize, &Sections)| task(Rank::Fixed(rank as u64), sections);
    HierarchyPlan {
        locks: vec![locking; LOCKS],
        ..HierarchyPlan::global(
            cpus,
            Level::of(tasks.iter().enumerate().map(member).collect()),
        )
    }
}

fn ends(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Result<Vec<u64>, HierarchyError> {
    let mut completions: Vec<Completion> = Vec::new();
    simulate_plan(plan, &mut jobs(list).as_slice(), &mut completions, None)?;
    completions.sort_by_key(|completion| completion.number);
    Ok(completions
        .iter()
        .map(|completion| completion.end)
        .collect())
}

/// The lowest task holds what the highest needs; the middle one needs nothing.
const INVERSION: &[(usize, u64, u64)] = &[(2, 0, 5), (0, 2, 3), (1, 3, 10)];

fn inversion(locking: LockProtocol) -> Vec<u64> {
    let tasks = [vec![(0, 1, 1)], vec![], vec![(0, 1, 3)]];
    ends(&plan(1, locking, &tasks), INVERSION).unwrap()
}

#[test]
fn without_a_protocol_the_middle_task_delays_the_highest() {
    // 2: 0-2 (locked from 1), 0: 2-3, waits; 1: 3-13; 2: 13-15 gives back; 0: 15-17; 2: 17-18.
    assert_eq!(inversion(LockProtocol::None), [18, 17, 13]);
}

#[test]
fn by_inheritance_the_highest_waits_for_the_section_only() {
    // 0 waits from 3 on, 2 has its rank: 3-5; 0: 5-7; 1: 7-17; 2: 17-18.
    assert_eq!(inversion(LockProtocol::Inheritance), [18, 7, 17]);
    assert_eq!(inversion(LockProtocol::Ceiling), [18, 7, 17]);
}

#[test]
fn with_an_immediate_ceiling_the_highest_does_not_even_begin() {
    // 2 goes on to 4, the end of its section; 0: 4-7; 1: 7-17; 2: 17-18.
    assert_eq!(inversion(LockProtocol::ImmediateCeiling), [18, 7, 17]);
    let tasks = [vec![(0, 2, 1)], vec![], vec![(0, 1, 3)]];
    let with = |locking| ends(&plan(1, locking, &tasks), INVERSION).unwrap();
    // The highest begins at once by inheritance and needs the lock at 4 only; with the immediate
    // ceiling it begins at 4. It ends at the same time.
    assert_eq!(with(LockProtocol::Inheritance), [18, 7, 17]);
    assert_eq!(with(LockProtocol::ImmediateCeiling), [18, 7, 17]);
}

/// Two tasks that ask for two locks in opposite orders.
fn crossed() -> [Sections; 2] {
    [vec![(0, 1, 4), (1, 2, 2)], vec![(1, 1, 4), (0, 3, 1)]]
}

#[test]
fn a_deadlock_is_an_error() {
    let list = [(1, 0, 6), (0, 2, 6)];
    for locking in [LockProtocol::None, LockProtocol::Inheritance] {
        let outcome = ends(&plan(1, locking, &crossed()), &list);
        // 1 has lock 1 from 1 on; 0 runs from 2, has lock 0 from 3, waits for 1 at 4; 1 goes on, 4-5,
        // and asks for 0.
        assert_eq!(
            outcome,
            Err(HierarchyError::Deadlock {
                task: 1,
                lock: 0,
                at: ns(5)
            })
        );
    }
}

#[test]
fn ceilings_rule_deadlocks_out() {
    let list = [(1, 0, 6), (0, 2, 6)];
    let with = |locking| ends(&plan(1, locking, &crossed()), &list).unwrap();
    // 0 asks for lock 0 at 3, whose ceiling is its rank, but so is that of lock 1, which 1 holds; 1
    // has its sections to 7; 0: 7-12; 1: 12-13... with 2 units done before 3: it has 1 done.
    assert_eq!(with(LockProtocol::Ceiling), [12, 11]);
    assert_eq!(with(LockProtocol::ImmediateCeiling), [12, 11]);
}

#[test]
fn inheritance_goes_along_the_chain() {
    // 3 holds lock 1, 2 holds 0 and waits for 1, 0 waits for 0: 3 has the rank of 0, and 1 waits.
    let tasks = [
        vec![(0, 1, 1)],
        vec![],
        vec![(0, 1, 4), (1, 2, 1)],
        vec![(1, 1, 3)],
    ];
    let list = [(3, 0, 5), (2, 2, 6), (1, 5, 9), (0, 5, 3)];
    let ends_at = ends(&plan(1, LockProtocol::Inheritance, &tasks), &list).unwrap();
    // 3: 0-2, 2: 2-4 waits for 1; 3: 4-5; 0: 5-6 waits for 0; 3: 6-7 gives back 1; 2: 7-10 gives back
    // 0; 0: 10-12; 1: 12-21; 2: 21-22; 3: 22-23.
    assert_eq!(ends_at, [23, 22, 21, 12]);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let with = |locking, sections: Sections| ends(&plan(1, locking, &[sections]), &[]);
    let crossing = vec![(0, 0, 3), (1, 2, 3)];
    assert_eq!(
        with(LockProtocol::None, crossing),
        Err(HierarchyError::Sections {
            task: 0,
            section: 1
        })
    );
    let twice = vec![(0, 0, 3), (0, 1, 1)];
    assert_eq!(
        with(LockProtocol::None, twice),
        Err(HierarchyError::Sections {
            task: 0,
            section: 1
        })
    );
    let several = plan(2, LockProtocol::Ceiling, &[vec![(0, 0, 1)]]);
    assert_eq!(
        ends(&several, &[]),
        Err(HierarchyError::CeilingOnSeveralCpus { cpus: 2 })
    );
    let root = |members| Level::of(members);
    let unknown = with(LockProtocol::None, vec![(LOCKS, 0, 1)]);
    assert_eq!(
        unknown,
        Err(HierarchyError::UnknownLock {
            task: 0,
            lock: LOCKS,
            locks: LOCKS
        })
    );
    let by_deadline = HierarchyPlan {
        locks: vec![LockProtocol::ImmediateCeiling],
        ..HierarchyPlan::on_one_cpu(root(vec![task(Rank::Deadline(ns(5)), &[(0, 0, 1)])]))
    };
    assert_eq!(
        ends(&by_deadline, &[]),
        Err(HierarchyError::CeilingOfDeadlines { task: 0 })
    );
    let inside = LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(0),
        rule: Rule::Server(ServerKind::Deferrable),
        budget: ns(1),
        period: ns(2),
        phase: Duration::ZERO,
        inside: root(vec![task(Rank::Fixed(0), &[(0, 0, 1)])]),
    });
    let across = HierarchyPlan {
        locks: vec![LockProtocol::None],
        ..HierarchyPlan::on_one_cpu(root(vec![inside, task(Rank::Fixed(1), &[(0, 0, 1)])]))
    };
    assert_eq!(
        ends(&across, &[]),
        Err(HierarchyError::LockAcrossLevels { lock: 0, task: 1 })
    );
}

// The oracle.

/// A job of the oracle.
#[derive(Clone, Debug)]
struct Active {
    number: usize,
    task: usize,
    work: u64,
    done: u64,
    held: Vec<usize>,
    waits: Option<usize>,
}

struct Ticks<'a> {
    protocol: LockProtocol,
    tasks: &'a [Sections],
    active: Vec<Active>,
}

impl Ticks<'_> {
    fn holder(&self, lock: usize) -> Option<usize> {
        self.active.iter().position(|job| job.held.contains(&lock))
    }

    fn ceiling(&self, lock: usize) -> usize {
        (0..self.tasks.len())
            .find(|task| self.tasks[*task].iter().any(|it| it.0 == lock))
            .unwrap()
    }

    /// The rank of a job with what it inherits from those who wait for it, and they from others.
    fn rank(&self, index: usize) -> usize {
        let job = &self.active[index];
        let mut rank = job.task;
        for lock in &job.held {
            if self.protocol == LockProtocol::ImmediateCeiling {
                rank = rank.min(self.ceiling(*lock));
            }
            if self.protocol != LockProtocol::None {
                let waiting =
                    (0..self.active.len()).filter(|at| self.active[*at].waits == Some(*lock));
                rank = waiting.map(|at| self.rank(at)).fold(rank, usize::min);
            }
        }
        rank
    }

    fn obstacle(&self, index: usize, lock: usize) -> Option<usize> {
        if self.holder(lock).is_some() {
            return Some(lock);
        }
        if self.protocol != LockProtocol::Ceiling {
            return None;
        }
        let rank = self.rank(index);
        let others = self
            .active
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != index);
        let held = others.flat_map(|(_, job)| job.held.iter().copied());
        held.min_by_key(|lock| (self.ceiling(*lock), *lock))
            .filter(|lock| self.ceiling(*lock) <= rank)
    }

    /// The job that runs, after it has got the locks that it needs first.
    fn chosen(&mut self) -> Option<usize> {
        loop {
            let heads = (0..self.active.len()).filter(|at| {
                let before = &self.active[..*at];
                self.active[*at].waits.is_none()
                    && !before.iter().any(|job| job.task == self.active[*at].task)
            });
            let index = heads.min_by_key(|at| (self.rank(*at), *at))?;
            if self.asks(index) {
                return Some(index);
            }
        }
    }

    /// Whether a job has all the locks that it needs for what it does next.
    fn asks(&mut self, index: usize) -> bool {
        loop {
            let job = &self.active[index];
            let mut due: Vec<&(usize, u64, u64)> = self.tasks[job.task]
                .iter()
                .filter(|(lock, after, _)| *after == job.done && !job.held.contains(lock))
                .collect();
            due.sort_by_key(|section| u64::MAX - section.2);
            let Some((lock, ..)) = due.first() else {
                return true;
            };
            let lock = *lock;
            match self.obstacle(index, lock) {
                Some(obstacle) => {
                    self.active[index].waits = Some(obstacle);
                    return false;
                }
                None => self.active[index].held.push(lock),
            }
        }
    }

    fn give_back(&mut self, index: usize, lock: usize) {
        self.active[index].held.retain(|held| *held != lock);
        let waiting: Vec<usize> = (0..self.active.len())
            .filter(|at| self.active[*at].waits == Some(lock))
            .collect();
        if self.protocol == LockProtocol::Ceiling {
            for at in waiting {
                self.active[at].waits = None;
            }
        } else if let Some(heir) = waiting.into_iter().min_by_key(|at| self.rank(*at)) {
            self.active[heir].waits = None;
            self.active[heir].held.push(lock);
        }
    }

    fn run(&mut self, list: &[(usize, u64, u64)]) -> Vec<u64> {
        let mut coming = jobs(list);
        coming.reverse();
        let mut ends = vec![0; list.len()];
        let mut now = 0;
        while !coming.is_empty() || !self.active.is_empty() {
            while coming.last().is_some_and(|job| job.release <= now) {
                let job = coming.pop().unwrap();
                self.active.push(Active {
                    number: job.number as usize,
                    task: job.task,
                    work: job.work,
                    done: 0,
                    held: Vec::new(),
                    waits: None,
                });
            }
            let chosen = self.chosen();
            now += 1;
            let Some(index) = chosen else { continue };
            self.active[index].done += 1;
            let Active {
                task,
                done,
                work,
                held,
                number,
                ..
            } = self.active[index].clone();
            let over = |lock: usize| {
                let section = self.tasks[task].iter().find(|it| it.0 == lock).unwrap();
                done == work || section.1 + section.2 == done
            };
            let over: Vec<usize> = held.iter().rev().copied().filter(|it| over(*it)).collect();
            for lock in over {
                self.give_back(index, lock);
            }
            if done == work {
                ends[number] = now;
                self.active.remove(index);
            } else {
                // Locks come before releases, so before the next choice.
                self.asks(index);
            }
        }
        ends
    }
}

/// Sections that lie in one another, of locks in one order, so that there is no deadlock.
fn sections() -> impl Strategy<Value = Sections> {
    let one = (0_u64..4, 1_u64..6);
    let subset = prop::collection::vec(any::<bool>(), LOCKS);
    (one, subset).prop_map(|((after, length), subset)| {
        let mut sections = Vec::new();
        let (mut begin, mut left) = (after, length);
        for lock in (0..LOCKS).filter(|lock| subset[*lock]) {
            if left == 0 {
                break;
            }
            sections.push((lock, begin, left));
            begin += 1;
            left = left.saturating_sub(2);
        }
        sections
    })
}

fn systems() -> impl Strategy<Value = (Vec<Sections>, Vec<(usize, u64, u64)>)> {
    prop::collection::vec(sections(), 4).prop_flat_map(|tasks| {
        let jobs = prop::collection::vec((0..tasks.len(), 0_u64..60, 1_u64..10), 1..20);
        (Just(tasks), jobs)
    })
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Sink for Pieces {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        self.0.push(*piece);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn protocols_are_as_from_tick_to_tick(
        (tasks, list) in systems(),
        protocol in prop::sample::select(vec![
            LockProtocol::None, LockProtocol::Inheritance, LockProtocol::Ceiling, LockProtocol::ImmediateCeiling,
        ]),
    ) {
        let mut ticks = Ticks { protocol, tasks: &tasks, active: Vec::new() };
        let completions = ends(&plan(1, protocol, &tasks), &list).unwrap();
        prop_assert_eq!(completions, ticks.run(&list));
    }

    #[test]
    fn a_lock_has_one_holder_on_several_cpus(
        (tasks, list) in systems(),
        protocol in prop::sample::select(vec![
            LockProtocol::None, LockProtocol::Inheritance, LockProtocol::ImmediateCeiling,
        ]),
        cpus in 2_usize..4,
    ) {
        let mut pieces = Pieces::default();
        let plan = plan(cpus, protocol, &tasks);
        let outcome = simulate_plan(&plan, &mut jobs(&list).as_slice(), &mut pieces, None).unwrap();
        prop_assert_eq!(outcome.unfinished, 0);
        // From the work that each job has done follows which locks it holds when.
        let mut done: BTreeMap<u64, u64> = BTreeMap::new();
        let mut holds: Vec<(usize, u64, u64, u64)> = Vec::new();
        for piece in &pieces.0 {
            let before = *done.get(&piece.number).unwrap_or(&0);
            let after = before + piece.until - piece.from;
            done.insert(piece.number, after);
            for (lock, begin, length) in &tasks[piece.task] {
                let from = before.max(*begin);
                let until = after.min(begin + length);
                if from < until {
                    let at = |work: u64| piece.from + work - before;
                    holds.push((*lock, piece.number, at(from), at(until)));
                }
            }
        }
        // A job holds its lock from its first stretch to its last.
        let mut spans: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
        for (lock, number, from, until) in holds {
            let span = spans.entry((lock, number)).or_insert((from, until));
            *span = (span.0.min(from), span.1.max(until));
        }
        for ((lock, number), (from, until)) in &spans {
            for ((other_lock, other), (other_from, other_until)) in &spans {
                if lock == other_lock && number != other {
                    prop_assert!(until <= other_from || other_until <= from);
                }
            }
        }
    }
}
