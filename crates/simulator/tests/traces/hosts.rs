//! Random hosts and jobs: trees of reservations of all rules on CPUs of several speeds, with overheads.

use crate::plans::ns;
use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    HierarchyPlan, Job, Level, LevelMember, PlannedReservation, PlannedTask, Rank, Rule,
    ServerKind, Speed, Window,
};
use tailbound_simulator::{HostOverheads, HostTick};

fn rank() -> impl Strategy<Value = Rank> {
    prop_oneof![
        (0_u64..4).prop_map(Rank::Fixed),
        (1_u64..40).prop_map(|relative| Rank::Deadline(ns(relative))),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop::sample::select(vec![
        Rule::Unlimited,
        Rule::Server(ServerKind::Deferrable),
        Rule::Server(ServerKind::Periodic),
        Rule::Server(ServerKind::Polling),
        Rule::Server(ServerKind::Sporadic),
        Rule::Server(ServerKind::PosixSporadic),
        Rule::Server(ServerKind::ConstantBandwidth),
        Rule::Server(ServerKind::SoftConstantBandwidth),
        Rule::Server(ServerKind::Burstable),
        Rule::Windows(Vec::new()),
    ])
}

fn scheduler(members: Vec<LevelMember>) -> impl Strategy<Value = Level> {
    (any::<bool>(), prop::option::of(1_u64..5)).prop_map(move |(preemptive, quantum)| Level {
        preemptive,
        quantum: quantum.map(ns),
        members: members.clone(),
    })
}

fn member() -> impl Strategy<Value = LevelMember> {
    let leaf = rank().prop_map(|rank| LevelMember::Task(PlannedTask::of_rank(rank)));
    leaf.prop_recursive(2, 8, 3, |inner| {
        let inside = prop::collection::vec(inner, 1..3).prop_flat_map(scheduler);
        let times = (1_u64..8, 0_u64..12, 0_u64..30);
        (rank(), rule(), times, inside).prop_map(|(rank, rule, (budget, more, phase), inside)| {
            let rule = match rule {
                Rule::Windows(_) => Rule::Windows(vec![Window {
                    offset: ns(more / 2),
                    length: ns(budget),
                }]),
                other => other,
            };
            LevelMember::Reservation(PlannedReservation {
                rank,
                rule,
                budget: ns(budget),
                period: ns(budget + more),
                phase: ns(phase),
                inside,
            })
        })
    })
}

fn overheads() -> impl Strategy<Value = HostOverheads> {
    let some = (0_u64..3, 0_u64..3, 0_u64..3, 0_u64..2, 5_u64..20).prop_map(
        |(context_switch, scheduler_invocation, migration, interrupt, period)| HostOverheads {
            context_switch: ns(context_switch),
            scheduler_invocation: ns(scheduler_invocation),
            migration: ns(migration),
            interrupt: ns(interrupt),
            tick: Some(HostTick {
                period: ns(period),
                cost: ns(1),
            }),
            ..HostOverheads::default()
        },
    );
    prop_oneof![Just(HostOverheads::default()), some]
}

pub fn plans() -> impl Strategy<Value = HierarchyPlan> {
    let speeds = prop_oneof![Just(1_000), prop::sample::select(vec![333, 500, 1_500])];
    let cpus = prop::collection::vec(speeds, 1..4);
    let root = prop::collection::vec(member(), 1..4).prop_flat_map(scheduler);
    (cpus, overheads(), root).prop_map(|(cpus, overheads, root)| HierarchyPlan {
        cpus: cpus.into_iter().filter_map(Speed::from_permille).collect(),
        overheads,
        ..HierarchyPlan::on_one_cpu(root)
    })
}

/// Jobs of tasks that are drawn as shares, so that they fit any plan.
pub fn jobs() -> impl Strategy<Value = Vec<(prop::sample::Index, u64, u64)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0_u64..12, 0_u64..9), 1..40)
}

/// The jobs for a plan with so many tasks.
pub fn released(drawn: &[(prop::sample::Index, u64, u64)], tasks: usize) -> Vec<Job> {
    let mut now = 0;
    let numbered = drawn.iter().zip(0..);
    numbered
        .map(|((task, gap, work), number)| {
            now += gap;
            Job {
                delay_ns: 0,
                task: task.index(tasks),
                number,
                release: now,
                work: *work,
            }
        })
        .collect()
}
