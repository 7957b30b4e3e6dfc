//! Any plan and any jobs, sensible or not: a result or an error that says why, and no more time than
//! there is.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, Guest, HierarchyError, HierarchyPlan, Job, Level, LevelMember, LockProtocol,
    LockSection, Piece, PlannedReservation, PlannedTask, Rank, Rule, ServerKind, Sink, Speed,
    VirtualCpu, Window, simulate_plan,
};
use tailbound_simulator::{HostOverheads, HostTick};
use tailbound_time::Duration;

/// The longest simulated time; periods may be as short as a nanosecond.
const HORIZON: u64 = 5_000;

/// Mostly small numbers, some at the ends of what there is.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        12 => 0_u64..20,
        4 => 0_u64..2_000,
        1 => prop::sample::select(vec![u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62]),
    ]
    .boxed()
}

fn time() -> BoxedStrategy<Duration> {
    number().prop_map(Duration::from_nanos).boxed()
}

fn rank() -> BoxedStrategy<Rank> {
    prop_oneof![
        number().prop_map(Rank::Fixed),
        time().prop_map(Rank::Deadline)
    ]
    .boxed()
}

fn rule() -> BoxedStrategy<Rule> {
    let window = (time(), time()).prop_map(|(offset, length)| Window { offset, length });
    prop_oneof![
        Just(Rule::Unlimited),
        Just(Rule::Server(ServerKind::Deferrable)),
        Just(Rule::Server(ServerKind::Periodic)),
        Just(Rule::Server(ServerKind::Polling)),
        Just(Rule::Server(ServerKind::Sporadic)),
        Just(Rule::Server(ServerKind::PosixSporadic)),
        Just(Rule::Server(ServerKind::ConstantBandwidth)),
        Just(Rule::Server(ServerKind::SoftConstantBandwidth)),
        Just(Rule::Server(ServerKind::Burstable)),
        prop::collection::vec(window, 0..3).prop_map(Rule::Windows),
    ]
    .boxed()
}

fn task() -> BoxedStrategy<PlannedTask> {
    let section = (0_usize..3, time(), time()).prop_map(|(lock, after, length)| LockSection {
        lock,
        after,
        length,
    });
    let sections = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(section, 0..3),
    ];
    (rank(), sections, prop::option::weighted(0.2, time()))
        .prop_map(|(rank, sections, boost)| PlannedTask {
            rank,
            sections,
            boost,
        })
        .boxed()
}

fn vcpu() -> BoxedStrategy<VirtualCpu> {
    (rank(), rule(), time(), time(), time())
        .prop_map(|(rank, rule, budget, period, phase)| VirtualCpu {
            rank,
            rule,
            budget,
            period,
            phase,
        })
        .boxed()
}

fn guest() -> BoxedStrategy<LevelMember> {
    let vcpus = prop::collection::vec(vcpu(), 0..3);
    (vcpus, prop::collection::vec(task(), 0..4))
        .prop_map(|(vcpus, tasks)| {
            LevelMember::Guest(Guest {
                vcpus,
                shares_budget: false,
                tasks,
            })
        })
        .boxed()
}

fn level(member: impl Strategy<Value = LevelMember>) -> impl Strategy<Value = Level> {
    let quantum = prop::option::of(time());
    (any::<bool>(), quantum, prop::collection::vec(member, 0..4)).prop_map(
        |(preemptive, quantum, members)| Level {
            preemptive,
            quantum,
            members,
        },
    )
}

fn member() -> BoxedStrategy<LevelMember> {
    task()
        .prop_map(LevelMember::Task)
        .prop_recursive(3, 12, 3, |inner| {
            let reservation = (rank(), rule(), time(), time(), time(), level(inner)).prop_map(
                |(rank, rule, budget, period, phase, inside)| {
                    // Half of the budgets are sensible.
                    let budget = if phase.as_nanos() % 2 == 0 {
                        budget.min(period)
                    } else {
                        budget
                    };
                    LevelMember::Reservation(PlannedReservation {
                        rank,
                        rule,
                        budget,
                        period,
                        phase,
                        inside,
                    })
                },
            );
            prop_oneof![3 => task().prop_map(LevelMember::Task), 3 => reservation, 1 => guest()]
        })
        .boxed()
}

fn overheads() -> BoxedStrategy<HostOverheads> {
    let tick = (time(), time()).prop_map(|(period, cost)| HostTick { period, cost });
    prop_oneof![
        2 => Just(HostOverheads::default()),
        1 => (time(), time(), time(), time(), prop::option::of(tick)).prop_map(
            |(context_switch, scheduler_invocation, migration, interrupt, tick)| HostOverheads {
                context_switch, scheduler_invocation, migration, interrupt, tick,
                ..HostOverheads::default()
            },
        ),
    ]
    .boxed()
}

fn plans() -> impl Strategy<Value = HierarchyPlan> {
    let speed = prop::sample::select(vec![1_u32, 500, 1_000, 1_000_000]);
    let cpus = prop::collection::vec(speed, 0..4);
    let protocol = prop::sample::select(vec![
        LockProtocol::None,
        LockProtocol::Inheritance,
        LockProtocol::Ceiling,
        LockProtocol::ImmediateCeiling,
    ]);
    let locks = prop::collection::vec(protocol, 2..4);
    let pinned = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(0_usize..4, 0..5),
    ];
    let all = (cpus, overheads(), locks, pinned, level(member()));
    all.prop_map(|(cpus, overheads, locks, mut pinned, root)| {
        let speeds = cpus.into_iter().map(|it| Speed::from_permille(it).unwrap());
        let cpus: Vec<Speed> = speeds.collect();
        // Mostly they are as many as they should be, and there are these CPUs.
        if !pinned.is_empty() && pinned[0] != 3 && !cpus.is_empty() {
            let count = root.members.iter().map(|member| match member {
                LevelMember::Guest(guest) => guest.vcpus.len(),
                _ => 1,
            });
            pinned.resize(count.sum(), 0);
            pinned.iter_mut().for_each(|cpu| *cpu %= cpus.len());
        }
        HierarchyPlan {
            cpus,
            overheads,
            locks,
            pinned,
            root,
        }
    })
}

/// Watches the clock.
#[derive(Default)]
struct Clock(u64);

impl Sink for Clock {
    fn completed(&mut self, completion: &Completion) {
        assert!(completion.release <= completion.end && completion.end >= self.0);
        self.0 = completion.end;
    }

    fn ran(&mut self, piece: &Piece) {
        assert!(piece.from < piece.until && piece.until <= HORIZON);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_plan_ends_with_a_result_or_a_reason(
        plan in plans(),
        list in prop::collection::vec((0_usize..6, number(), number()), 0..20),
        sorted in prop::bool::weighted(0.9),
    ) {
        let mut jobs: Vec<Job> = list
            .iter()
            .enumerate()
            .map(|(number, (task, release, work))| Job {
                delay_ns: 0,
                task: *task,
                number: number as u64,
                release: *release,
                work: *work,
            })
            .collect();
        if sorted {
            jobs.sort_by_key(|job| job.release);
        }
        let horizon = Some(Duration::from_nanos(HORIZON));
        match simulate_plan(&plan, &mut jobs.as_slice(), &mut Clock::default(), horizon) {
            Ok(outcome) => {
                prop_assert!(outcome.end.as_nanos() <= HORIZON);
                prop_assert!(outcome.unfinished <= jobs.len() as u64);
            }
            Err(problem) => {
                prop_assert!(problem != HierarchyError::Overflow, "within the horizon");
                prop_assert!(!problem.to_string().is_empty());
            }
        }
    }
}
