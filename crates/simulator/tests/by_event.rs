//! On CPUs of equal speed an event costs no more than what it touches: the engine chooses anew on the CPUs
//! to which something has happened, and books what the others do later. The schedule is that of the
//! engine that chooses all anew at each event, call by call; a tick that never comes makes that one do
//! the work.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Guest, HierarchyPlan, Job, Level, LevelMember, LockProtocol, LockSection, PlannedReservation,
    PlannedTask, Rank, Rule, ServerKind, VirtualCpu, Window,
};
use tailbound_simulator::{HostOverheads, HostTick};

use crate::one_queue::Story;
use crate::plans::ns;

/// The longest simulated time, before any tick.
const HORIZON: u64 = 300;

fn with_overheads(plan: &HierarchyPlan) -> HierarchyPlan {
    let tick = HostTick {
        period: ns(1 << 40),
        cost: ns(1),
    };
    HierarchyPlan {
        overheads: HostOverheads {
            tick: Some(tick),
            ..HostOverheads::default()
        },
        ..plan.clone()
    }
}

fn rank() -> impl Strategy<Value = Rank> {
    prop_oneof![
        (0_u64..6).prop_map(Rank::Fixed),
        (0_u64..20).prop_map(|it| Rank::Deadline(ns(it))),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let window = |offset, length| Window {
        offset: ns(offset),
        length: ns(length),
    };
    let servers = [
        ServerKind::Deferrable,
        ServerKind::Periodic,
        ServerKind::Polling,
        ServerKind::Sporadic,
        ServerKind::PosixSporadic,
        ServerKind::ConstantBandwidth,
        ServerKind::SoftConstantBandwidth,
        ServerKind::Burstable,
    ];
    prop_oneof![
        8 => prop::sample::select(servers.map(Rule::Server).to_vec()),
        4 => Just(Rule::Server(ServerKind::Periodic)),
        1 => Just(Rule::Unlimited),
        1 => Just(Rule::Windows(vec![window(0, 1)])),
    ]
}

fn supply() -> impl Strategy<Value = VirtualCpu> {
    (rank(), rule(), 1_u64..6, 0_u64..12, 0_u64..9).prop_map(|(rank, rule, budget, more, phase)| {
        VirtualCpu {
            rank,
            rule,
            budget: ns(budget),
            period: ns(budget + more),
            phase: ns(phase),
        }
    })
}

fn boosting_task() -> impl Strategy<Value = PlannedTask> {
    let boost = prop::option::weighted(0.2, 1_u64..12);
    (rank(), boost).prop_map(|(rank, boost)| PlannedTask {
        boost: boost.map(ns),
        ..PlannedTask::of_rank(rank)
    })
}

fn locking_task() -> impl Strategy<Value = PlannedTask> {
    let section = (0_usize..2, 0_u64..3, 1_u64..4).prop_map(|(lock, after, length)| LockSection {
        lock,
        after: ns(after),
        length: ns(length),
    });
    (rank(), prop::option::of(section)).prop_map(|(rank, section)| PlannedTask {
        sections: section.into_iter().collect(),
        ..PlannedTask::of_rank(rank)
    })
}

fn inside(member: impl Strategy<Value = LevelMember>) -> impl Strategy<Value = Level> {
    let quantum = prop::option::of(1_u64..4);
    (any::<bool>(), quantum, prop::collection::vec(member, 1..4)).prop_map(
        |(preemptive, quantum, members)| Level {
            preemptive,
            quantum: quantum.map(ns),
            members,
        },
    )
}

fn reservation(inside: impl Strategy<Value = Level>) -> impl Strategy<Value = LevelMember> {
    (supply(), inside).prop_map(|(supply, inside)| {
        let VirtualCpu {
            rank,
            rule,
            budget,
            period,
            phase,
        } = supply;
        LevelMember::Reservation(PlannedReservation {
            rank,
            rule,
            budget,
            period,
            phase,
            inside,
        })
    })
}

fn member() -> impl Strategy<Value = LevelMember> {
    let task = || boosting_task().prop_map(LevelMember::Task);
    let nested = prop_oneof![2 => task(), 1 => reservation(inside(task()))];
    let vcpus = prop::collection::vec(supply(), 1..4);
    let tasks = prop::collection::vec(rank().prop_map(PlannedTask::of_rank), 1..5);
    let guest = (vcpus, tasks).prop_map(|(vcpus, tasks)| {
        LevelMember::Guest(Guest {
            vcpus,
            shares_budget: false,
            tasks,
        })
    });
    prop_oneof![
        2 => locking_task().prop_map(LevelMember::Task),
        6 => reservation(inside(nested)),
        1 => guest,
    ]
}

fn plans() -> impl Strategy<Value = HierarchyPlan> {
    let protocol = prop::sample::select(vec![LockProtocol::None, LockProtocol::Inheritance]);
    let root = (
        prop::option::weighted(0.3, 1_u64..4),
        prop::collection::vec(member(), 1..8),
    );
    (2_usize..6, prop::collection::vec(protocol, 2), root).prop_map(
        |(cpus, locks, (quantum, members))| HierarchyPlan {
            locks,
            ..HierarchyPlan::global(
                cpus,
                Level {
                    preemptive: true,
                    quantum: quantum.map(ns),
                    members,
                },
            )
        },
    )
}

fn tasks_of(level: &Level) -> usize {
    let members = level.members.iter();
    members
        .map(|member| match member {
            LevelMember::Task(_) => 1,
            LevelMember::Guest(guest) => guest.tasks.len(),
            LevelMember::Reservation(inner) => tasks_of(&inner.inside),
        })
        .sum()
}

fn jobs() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((0_usize..100, 0_u64..80, 0_u64..12), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_chosen_by_event_is_what_is_chosen_anew(
        plan in plans(), mut list in jobs(), horizon in 0..HORIZON,
    ) {
        list.sort_by_key(|(_, release, _)| *release);
        let tasks = tasks_of(&plan.root);
        let jobs = list.into_iter().zip(0..);
        let jobs: Vec<Job> = jobs
            .map(|((task, release, work), number)| Job {
                delay_ns: 0,
                task: task % tasks,
                number,
                release,
                work,
            })
            .collect();
        let (expected, outcome) = Story::<false>::of(&with_overheads(&plan), &jobs, Some(horizon));
        let (in_order, again) = Story::<false>::of(&plan, &jobs, Some(horizon));
        prop_assert_eq!(&again, &outcome);
        prop_assert_eq!(&in_order, &expected);
        let (whole, again) = Story::<true>::of(&plan, &jobs, Some(horizon));
        prop_assert_eq!(&again, &outcome);
        prop_assert_eq!(&whole.released, &expected.released);
        prop_assert_eq!(&whole.completed, &expected.completed);
        prop_assert_eq!(&whole.budgets, &expected.budgets);
        prop_assert_eq!(&whole.pieces, &expected.pieces);
    }
}
