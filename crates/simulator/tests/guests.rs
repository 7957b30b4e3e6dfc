//! Guests with one queue for several virtual CPUs, members pinned to CPUs, and boosts: by hand, and against
//! a simulation from tick to tick.

use proptest::prelude::*;
use tailbound_simulator::HostOverheads;
use tailbound_simulator::hierarchy::{
    Completion, Guest, HierarchyError, HierarchyPlan, LevelMember, LockProtocol, LockSection,
    Piece, PlannedTask, Rank, Rule, ServerKind, Sink, VirtualCpu, simulate_plan,
};
use tailbound_simulator::traces::{Setting, Tee};
use tailbound_time::Duration;

use crate::plans::{jobs, level, ns, ranked_reservation, reservation, task};
use crate::traces::audit::Audit;

/// The end of each job, and what ran.
#[derive(Default)]
struct Story {
    ends: Vec<u64>,
    pieces: Vec<Piece>,
    overheads: Vec<(usize, u64, u64)>,
}

impl Sink for Story {
    fn completed(&mut self, completion: &Completion) {
        self.ends[completion.number as usize] = completion.end;
    }

    fn ran(&mut self, piece: &Piece) {
        self.pieces.push(*piece);
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.overheads.push((cpu, from, until));
    }
}

fn story(plan: &HierarchyPlan, list: &[(usize, u64, u64)], horizon: Option<u64>) -> Story {
    let mut story = Story {
        ends: vec![0; list.len()],
        ..Story::default()
    };
    let mut audit = Audit::new(Setting::of(plan));
    let jobs = jobs(list);
    let mut sinks = Tee(&mut story, &mut audit);
    simulate_plan(plan, &mut jobs.as_slice(), &mut sinks, horizon.map(ns)).unwrap();
    assert_eq!(audit.verdict(), Ok(()));
    story
}

fn ends(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Vec<u64> {
    story(plan, list, None).ends
}

fn vcpu(rank: u64, rule: Rule, budget_ns: u64, period_ns: u64) -> VirtualCpu {
    VirtualCpu {
        rank: Rank::Fixed(rank),
        rule,
        budget: ns(budget_ns),
        period: ns(period_ns),
        phase: Duration::ZERO,
    }
}

fn guest(vcpus: Vec<VirtualCpu>, ranks: &[u64]) -> LevelMember {
    let tasks = ranks
        .iter()
        .map(|rank| PlannedTask::of_rank(Rank::Fixed(*rank)));
    LevelMember::Guest(Guest {
        shares_budget: false,
        vcpus,
        tasks: tasks.collect(),
    })
}

fn boosting(rank: u64, bound_ns: u64) -> LevelMember {
    LevelMember::Task(PlannedTask {
        boost: Some(ns(bound_ns)),
        ..PlannedTask::of_rank(Rank::Fixed(rank))
    })
}

#[test]
fn the_first_tasks_of_a_guest_run_wherever_a_virtual_cpu_is_free() {
    let whole = |rank| vcpu(rank, Rule::Unlimited, 0, 0);
    let plan = HierarchyPlan::global(2, level(vec![guest(vec![whole(0), whole(1)], &[0, 1, 2])]));
    // 2 waits for the end of 1, and goes on where that was when 0 comes... on the other one.
    let list = [(1, 0, 2), (2, 0, 6), (0, 1, 4)];
    let story = story(&plan, &list, None);
    // 0-1: 1 and 2. At 1: 0 in place of 2. At 2: 1 is done, 2 goes on in its place until 7.
    assert_eq!(story.ends, [2, 7, 5]);
    let on: Vec<usize> = story
        .pieces
        .iter()
        .filter(|piece| piece.task == 2)
        .map(|piece| piece.reservation)
        .collect();
    assert_eq!((on[0], on[on.len() - 1]), (2, 1));
}

#[test]
fn a_task_waits_for_the_budget_of_its_virtual_cpu_beside_one_that_is_idle() {
    // The guest does not know that its first virtual CPU has no budget left.
    let vcpus = vec![
        vcpu(0, Rule::Server(ServerKind::Deferrable), 2, 10),
        vcpu(1, Rule::Server(ServerKind::Deferrable), 9, 10),
    ];
    let plan = HierarchyPlan::on_one_cpu(level(vec![guest(vcpus, &[0, 1])]));
    assert_eq!(ends(&plan, &[(0, 0, 5)]), [21]);
    // A second task gets the second one: on one CPU, 2-9 when the first has none, then 12-14.
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 9)]), [12, 13]);
}

#[test]
fn a_guest_of_one_virtual_cpu_is_a_reservation() {
    let vcpus = vec![vcpu(0, Rule::Server(ServerKind::Deferrable), 3, 10)];
    let one = HierarchyPlan::on_one_cpu(level(vec![guest(vcpus, &[0, 1]), task(5)]));
    let inside = vec![task(0), task(1)];
    let other = HierarchyPlan::on_one_cpu(level(vec![
        reservation(0, Rule::Server(ServerKind::Deferrable), 3, 10, inside),
        task(5),
    ]));
    let list = [(1, 0, 4), (2, 0, 6), (0, 1, 1), (0, 12, 2)];
    assert_eq!(ends(&one, &list), ends(&other, &list));
}

#[test]
fn pinned_members_stay_on_their_cpus() {
    let members = vec![task(0), task(1), task(2)];
    let plan = HierarchyPlan {
        pinned: vec![0, 0, 1],
        ..HierarchyPlan::global(2, level(members))
    };
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 3), (2, 0, 5)]), [4, 7, 5]);
    // What happens to a member costs its own CPU.
    let overheads = HostOverheads {
        interrupt: ns(1),
        ..HostOverheads::default()
    };
    let story = story(
        &HierarchyPlan { overheads, ..plan },
        &[(2, 3, 5)],
        Some(100),
    );
    assert_eq!(story.overheads, [(1, 3, 4)]);
}

#[test]
fn pins_that_do_not_fit_are_refused() {
    let pinned = |pinned| {
        let members = vec![task(0), guest(vec![vcpu(1, Rule::Unlimited, 0, 0)], &[0])];
        let plan = HierarchyPlan {
            pinned,
            ..HierarchyPlan::global(2, level(members))
        };
        simulate_plan(&plan, &mut [].as_slice(), &mut Vec::new(), None).err()
    };
    assert_eq!(pinned(vec![1, 0]), None);
    assert_eq!(
        pinned(vec![1]),
        Some(HierarchyError::PinnedCount {
            pinned: 1,
            members: 2
        })
    );
    assert_eq!(
        pinned(vec![0, 2]),
        Some(HierarchyError::PinnedCpu {
            member: 1,
            cpu: 2,
            cpus: 2
        })
    );
}

#[test]
fn guests_that_make_no_sense_are_refused() {
    let refused = |guest: Guest, locks: &[LockProtocol]| {
        let plan = HierarchyPlan {
            locks: locks.to_vec(),
            ..HierarchyPlan::on_one_cpu(level(vec![LevelMember::Guest(guest)]))
        };
        simulate_plan(&plan, &mut [].as_slice(), &mut Vec::new(), None).err()
    };
    let task = PlannedTask::of_rank(Rank::Fixed(0));
    let none = Guest {
        shares_budget: false,
        vcpus: Vec::new(),
        tasks: vec![task.clone()],
    };
    assert_eq!(refused(none, &[]), Some(HierarchyError::NoVirtualCpu));
    let two = vec![
        vcpu(0, Rule::Unlimited, 0, 0),
        vcpu(1, Rule::Unlimited, 0, 0),
    ];
    let boost = Guest {
        shares_budget: false,
        vcpus: two.clone(),
        tasks: vec![PlannedTask {
            boost: Some(ns(1)),
            ..task.clone()
        }],
    };
    assert_eq!(
        refused(boost, &[]),
        Some(HierarchyError::BoostInGuest { task: 0 })
    );
    let section = LockSection {
        lock: 0,
        after: ns(0),
        length: ns(1),
    };
    let ceiling = Guest {
        shares_budget: false,
        vcpus: two,
        tasks: vec![PlannedTask {
            sections: vec![section],
            ..task
        }],
    };
    assert_eq!(
        refused(ceiling.clone(), &[LockProtocol::Ceiling]),
        Some(HierarchyError::CeilingOnSeveralCpus { cpus: 2 })
    );
    assert_eq!(refused(ceiling, &[LockProtocol::Inheritance]), None);
}

#[test]
fn a_lock_of_another_level_is_no_obstacle() {
    // Both levels use rank 0; the holder in the first runs out of budget with its lock held.
    let with = |lock| {
        let section = LockSection {
            lock,
            after: ns(0),
            length: ns(4),
        };
        LevelMember::Task(PlannedTask {
            sections: vec![section],
            ..PlannedTask::of_rank(Rank::Fixed(0))
        })
    };
    let plan = HierarchyPlan {
        locks: vec![LockProtocol::Ceiling, LockProtocol::Ceiling],
        ..HierarchyPlan::on_one_cpu(level(vec![
            reservation(
                0,
                Rule::Server(ServerKind::Deferrable),
                2,
                10,
                vec![with(0)],
            ),
            reservation(
                1,
                Rule::Server(ServerKind::Deferrable),
                5,
                10,
                vec![with(1)],
            ),
        ]))
    };
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 4)]), [12, 6]);
}

#[test]
fn a_boost_comes_first_without_budget_and_spends_none() {
    let inside = vec![boosting(0, 50), task(1)];
    let plan = HierarchyPlan::on_one_cpu(level(vec![
        task(0),
        reservation(5, Rule::Server(ServerKind::Deferrable), 3, 10, inside),
    ]));
    // 0-3: the domain's own job of 5 uses the budget up. At 4 the message comes: 2 at once, although
    // the host has the CPU from 3 on, and there is no budget. At 10 the budget is there.
    let list = [(2, 0, 5), (0, 3, 8), (1, 4, 2)];
    assert_eq!(ends(&plan, &list), [15, 13, 6]);
    // With budget left, the boost leaves it alone: 3 after 2.
    assert_eq!(ends(&plan, &[(1, 0, 2), (2, 0, 3)]), [2, 5]);
}

#[test]
fn a_boost_is_withdrawn_in_time() {
    let plan = HierarchyPlan::on_one_cpu(level(vec![
        task(0),
        reservation(
            5,
            Rule::Server(ServerKind::Deferrable),
            3,
            20,
            vec![boosting(0, 4)],
        ),
    ]));
    // Boosted 0-4, 6 left; the other task has 4-14, then the budget of 3, and 3 more from 20 on.
    assert_eq!(ends(&plan, &[(1, 0, 10), (0, 0, 10)]), [23, 14]);
}

#[test]
fn a_boost_reaches_through_all_reservations() {
    let inner = reservation(
        1,
        Rule::Server(ServerKind::Deferrable),
        1,
        10,
        vec![boosting(0, 9)],
    );
    let plan = HierarchyPlan::on_one_cpu(level(vec![
        task(0),
        reservation(
            5,
            Rule::Server(ServerKind::Deferrable),
            1,
            10,
            vec![task(0), inner],
        ),
    ]));
    assert_eq!(ends(&plan, &[(0, 0, 5), (2, 1, 3), (1, 0, 1)]), [8, 4, 9]);
}

#[test]
fn boosts_are_served_in_the_order_in_which_they_came() {
    let domain = |rank| {
        reservation(
            rank,
            Rule::Server(ServerKind::Deferrable),
            1,
            10,
            vec![boosting(0, 50)],
        )
    };
    let plan = HierarchyPlan::on_one_cpu(level(vec![domain(1), domain(0)]));
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 1, 4)]), [4, 8]);
}

// The oracle: three plain reservations and a guest, distinct fixed ranks, deferrable budgets.

#[derive(Clone, Debug)]
struct Host {
    cpus: usize,
    pinned: bool,
    vcpus: usize,
    /// Budget and period of the guest's virtual CPUs, then of the reservations.
    budgets: Vec<(u64, u64)>,
    /// The order of all of them in the host.
    ranks: Vec<u64>,
    /// How long each reservation's task boosts.
    boosts: Vec<Option<u64>>,
    jobs: Vec<(usize, u64, u64)>,
}

const GUEST_TASKS: usize = 4;
const RESERVATIONS: usize = 3;

fn hosts() -> impl Strategy<Value = Host> {
    let budget = (1_u64..5, 0_u64..6).prop_map(|(budget, more)| (budget, budget + more));
    let count = 3 + RESERVATIONS;
    (
        (1_usize..4, any::<bool>(), 1_usize..4),
        prop::collection::vec(budget, count),
        Just((0..count as u64).collect::<Vec<u64>>()).prop_shuffle(),
        prop::collection::vec(prop::option::of(1_u64..12), RESERVATIONS),
        prop::collection::vec((0..GUEST_TASKS + RESERVATIONS, 0_u64..40, 1_u64..9), 1..25),
    )
        .prop_map(
            |((cpus, pinned, vcpus), budgets, ranks, boosts, jobs)| Host {
                cpus,
                pinned,
                vcpus,
                budgets,
                ranks,
                boosts,
                jobs,
            },
        )
}

/// What the oracle knows of a job.
#[derive(Clone, Copy)]
struct Open {
    number: usize,
    task: usize,
    left: u64,
    boosts_until: u64,
}

/// The oracle's state; supplies are the virtual CPUs, then the reservations.
struct Ticks<'a> {
    host: &'a Host,
    now: u64,
    left: Vec<u64>,
    open: Vec<Open>,
    /// The task that each virtual CPU has.
    assigned: Vec<Option<usize>>,
    /// When each reservation was boosted, as a count, if it is.
    boosted: Vec<Option<u64>>,
    boosts: u64,
    /// The supply that each CPU has.
    on: Vec<Option<usize>>,
}

impl Host {
    fn supplies(&self) -> usize {
        self.vcpus + RESERVATIONS
    }

    /// A supply's budget, period and rank; with fewer virtual CPUs than three some are left out.
    fn supply_of(&self, supply: usize) -> ((u64, u64), u64) {
        let at = match supply.checked_sub(self.vcpus) {
            Some(reservation) => 3 + reservation,
            None => supply,
        };
        (self.budgets[at], self.ranks[at])
    }

    fn plan(&self) -> HierarchyPlan {
        let supply = |supply: usize| {
            let ((budget, period), rank) = self.supply_of(supply);
            vcpu(rank, Rule::Server(ServerKind::Deferrable), budget, period)
        };
        let ranks: Vec<u64> = (0..GUEST_TASKS as u64).collect();
        let mut members = vec![guest((0..self.vcpus).map(supply).collect(), &ranks)];
        for reservation in 0..RESERVATIONS {
            let ((budget, period), rank) = self.supply_of(self.vcpus + reservation);
            let inside = match self.boosts[reservation] {
                Some(bound) => boosting(0, bound),
                None => task(0),
            };
            members.push(ranked_reservation(
                Rank::Fixed(rank),
                Rule::Server(ServerKind::Deferrable),
                budget,
                period,
                vec![inside],
            ));
        }
        let pinned = (0..self.supplies()).map(|supply| supply % self.cpus);
        HierarchyPlan {
            pinned: if self.pinned {
                pinned.collect()
            } else {
                Vec::new()
            },
            ..HierarchyPlan::global(self.cpus, level(members))
        }
    }

    fn by_ticks(&self) -> Vec<u64> {
        let mut coming = jobs(&self.jobs);
        coming.reverse();
        let mut ends = vec![0; self.jobs.len()];
        let mut ticks = Ticks {
            host: self,
            now: 0,
            left: vec![0; self.supplies()],
            open: Vec::new(),
            assigned: vec![None; self.vcpus],
            boosted: vec![None; RESERVATIONS],
            boosts: 0,
            on: vec![None; self.cpus],
        };
        while !coming.is_empty() || !ticks.open.is_empty() {
            ticks.replenish();
            for cpu in 0..self.cpus {
                ticks.complete(cpu, &mut ends);
            }
            while coming.last().is_some_and(|job| job.release <= ticks.now) {
                let job = coming.pop().unwrap();
                ticks.release(job.number as usize, job.task, job.work);
            }
            ticks.run();
            ticks.now += 1;
        }
        ends
    }
}

impl Ticks<'_> {
    fn first(&self, task: usize) -> Option<usize> {
        self.open.iter().position(|job| job.task == task)
    }

    /// The task that a supply would run.
    fn task_of(&self, supply: usize) -> Option<usize> {
        match supply.checked_sub(self.host.vcpus) {
            Some(reservation) => Some(GUEST_TASKS + reservation),
            None => self.assigned[supply],
        }
        .filter(|task| self.first(*task).is_some())
    }

    fn boost_of(&self, supply: usize) -> Option<u64> {
        self.boosted[supply.checked_sub(self.host.vcpus)?]
    }

    fn replenish(&mut self) {
        for supply in 0..self.host.supplies() {
            let ((budget, period), _) = self.host.supply_of(supply);
            if self.now.is_multiple_of(period) {
                self.left[supply] = budget;
            }
        }
        self.withdraw();
    }

    /// Boosts end with their jobs, and in time.
    fn withdraw(&mut self) {
        for reservation in 0..RESERVATIONS {
            let mut jobs = self.open.iter();
            if !jobs.any(|job| job.task == GUEST_TASKS + reservation && job.boosts_until > self.now)
            {
                self.boosted[reservation] = None;
            }
        }
    }

    fn complete(&mut self, cpu: usize, ends: &mut [u64]) {
        let Some(task) = self.on[cpu].and_then(|supply| self.task_of(supply)) else {
            return;
        };
        let first = self.first(task).unwrap();
        if self.open[first].left == 0 {
            ends[self.open[first].number] = self.now;
            self.open.remove(first);
            self.distribute();
            self.withdraw();
        }
    }

    fn release(&mut self, number: usize, task: usize, work: u64) {
        let boost = task
            .checked_sub(GUEST_TASKS)
            .and_then(|at| Some((at, self.host.boosts[at]?)));
        let boosts_until = boost.map_or(0, |(_, bound)| self.now + bound);
        self.open.push(Open {
            number,
            task,
            left: work,
            boosts_until,
        });
        self.distribute();
        if let Some((reservation, _)) = boost
            && self.boosted[reservation].is_none()
        {
            self.boosted[reservation] = Some(self.boosts);
            self.boosts += 1;
        }
    }

    fn distribute(&mut self) {
        let ready = (0..GUEST_TASKS).filter(|task| self.first(*task).is_some());
        let first: Vec<usize> = ready.take(self.host.vcpus).collect();
        for assigned in &mut self.assigned {
            *assigned = assigned.filter(|task| first.contains(task));
        }
        for task in first {
            if !self.assigned.contains(&Some(task)) {
                let free = self.assigned.iter().position(Option::is_none).unwrap();
                self.assigned[free] = Some(task);
            }
        }
    }

    fn run(&mut self) {
        let mut able: Vec<usize> = (0..self.host.supplies())
            .filter(|supply| self.task_of(*supply).is_some())
            .filter(|supply| self.left[*supply] > 0 || self.boost_of(*supply).is_some())
            .collect();
        able.sort_by_key(|supply| match self.boost_of(*supply) {
            Some(since) => (0, since),
            None => (1, self.host.supply_of(*supply).1),
        });
        if self.host.pinned {
            for cpu in 0..self.host.cpus {
                let mut here = able
                    .iter()
                    .filter(|supply| **supply % self.host.cpus == cpu);
                self.on[cpu] = here.next().copied();
            }
        } else {
            able.truncate(self.host.cpus);
            for on in &mut self.on {
                *on = on.filter(|supply| able.contains(supply));
            }
            for supply in able {
                if !self.on.contains(&Some(supply)) {
                    let free = self.on.iter().position(Option::is_none).unwrap();
                    self.on[free] = Some(supply);
                }
            }
        }
        for supply in self.on.clone().into_iter().flatten() {
            let first = self.first(self.task_of(supply).unwrap()).unwrap();
            self.open[first].left -= 1;
            if self.boost_of(supply).is_none() {
                self.left[supply] -= 1;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn guests_and_boosts_are_as_from_tick_to_tick(host in hosts()) {
        prop_assert_eq!(ends(&host.plan(), &host.jobs), host.by_ticks());
    }
}
