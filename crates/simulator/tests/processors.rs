//! Several CPUs, their speeds, and what the operating system takes of them: by hand, and against a
//! simulation from tick to tick.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyError, HierarchyPlan, Job, Level, LevelMember, Piece, PlannedReservation,
    PlannedTask, Rank, ReservationError, Rule, ServerKind, SimulationEnd, Sink, Speed, Window,
    simulate_plan,
};
use tailbound_simulator::{HostOverheads, HostTick};
use tailbound_time::Duration;

use crate::plans::{jobs, level, ns, ranked_reservation, task};

/// All that a simulation tells.
#[derive(Default)]
struct Story {
    ends: Vec<(u64, u64)>,
    pieces: Vec<Piece>,
    overheads: Vec<(usize, u64, u64)>,
}

impl Sink for Story {
    fn completed(&mut self, completion: &Completion) {
        self.ends.push((completion.number, completion.end));
    }

    fn ran(&mut self, piece: &Piece) {
        self.pieces.push(*piece);
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.overheads.push((cpu, from, until));
    }
}

impl Story {
    fn of(
        plan: &HierarchyPlan,
        list: &[(usize, u64, u64)],
        horizon: Option<u64>,
    ) -> (Self, SimulationEnd) {
        let mut story = Self::default();
        let jobs = jobs(list);
        let outcome = simulate_plan(plan, &mut jobs.as_slice(), &mut story, horizon.map(ns));
        (story, outcome.unwrap())
    }

    /// The end of each job, by its number; of a job that is not done 0.
    fn ends(&self, count: usize) -> Vec<u64> {
        let mut ends = vec![0; count];
        for (number, end) in &self.ends {
            ends[*number as usize] = *end;
        }
        ends
    }
}

fn ends(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Vec<u64> {
    Story::of(plan, list, None).0.ends(list.len())
}

#[test]
fn two_cpus_run_the_two_first() {
    let plan = HierarchyPlan::global(2, level(vec![task(0), task(1), task(2)]));
    // 2 waits for the end of 1, and is interrupted by nobody.
    assert_eq!(ends(&plan, &[(0, 0, 6), (1, 0, 2), (2, 0, 3)]), [6, 2, 5]);
}

#[test]
fn the_job_of_least_rank_is_preempted_and_goes_on_elsewhere() {
    let plan = HierarchyPlan::global(2, level(vec![task(0), task(1), task(2)]));
    let (story, _) = Story::of(&plan, &[(2, 0, 6), (1, 1, 4), (0, 2, 8)], None);
    // 2 runs on CPU 0 until 0 comes at 2; CPU 1 is free at 5, where it goes on.
    assert_eq!(story.ends(3), [9, 5, 10]);
    let cpus: Vec<usize> = story
        .pieces
        .iter()
        .filter(|piece| piece.task == 2)
        .map(|piece| piece.cpu)
        .collect();
    assert_eq!(cpus, [0, 0, 1]);
}

#[test]
fn dhall_s_effect_under_global_deadlines() {
    // Two light tasks with deadline 10 keep both CPUs first; the heavy one misses its 11.
    let light = || LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(ns(10))));
    let heavy = LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(ns(11))));
    let plan = HierarchyPlan::global(2, level(vec![light(), light(), heavy]));
    assert_eq!(ends(&plan, &[(0, 0, 2), (1, 0, 2), (2, 0, 10)]), [2, 2, 12]);
}

#[test]
fn a_slow_cpu_takes_longer_and_the_first_get_the_fast_one() {
    let half = Speed::from_permille(500).unwrap();
    let plan = HierarchyPlan {
        cpus: vec![half, Speed::FULL],
        ..HierarchyPlan::global(0, level(vec![task(0), task(1)]))
    };
    // 0 on the fast one until 4; 1 has done 2 of 5 by then, and goes on there.
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 5)]), [4, 7]);
}

#[test]
fn work_that_does_not_divide_ends_at_the_next_nanosecond() {
    let third = Speed::from_permille(333).unwrap();
    let plan = HierarchyPlan {
        cpus: vec![third],
        ..HierarchyPlan::global(0, level(vec![task(0)]))
    };
    assert_eq!(ends(&plan, &[(0, 0, 1), (0, 10, 2)]), [4, 17]);
}

#[test]
fn a_partition_runs_in_its_windows_only() {
    let window = |offset, length| Window {
        offset: ns(offset),
        length: ns(length),
    };
    let first = Rule::Windows(vec![window(0, 3), window(6, 2)]);
    let second = Rule::Windows(vec![window(3, 3)]);
    let plan = HierarchyPlan::on_one_cpu(level(vec![
        ranked_reservation(Rank::Fixed(0), first, 0, 10, vec![task(0)]),
        ranked_reservation(Rank::Fixed(0), second, 0, 10, vec![task(0)]),
        task(9),
    ]));
    // 0: 0-3, 6-8, 10-12. 1: 3-6, 13-14. The background has 8-10 and 12-13.
    assert_eq!(
        ends(&plan, &[(0, 0, 7), (1, 0, 4), (2, 0, 3)]),
        [12, 14, 13]
    );
}

#[test]
fn windows_of_a_frame_that_begins_later_reach_back() {
    let window = Window {
        offset: ns(6),
        length: ns(4),
    };
    let plan =
        HierarchyPlan::on_one_cpu(level(vec![LevelMember::Reservation(PlannedReservation {
            rank: Rank::Fixed(0),
            rule: Rule::Windows(vec![window]),
            budget: Duration::ZERO,
            period: ns(10),
            phase: ns(2),
            inside: level(vec![task(0)]),
        })]));
    // Frames at -8, 2, 12: windows -2 to 2, 8 to 12.
    assert_eq!(ends(&plan, &[(0, 0, 5)]), [11]);
}

/// RTDS: vCPUs with deferrable budgets under global earliest deadline first, two CPUs, three vCPUs.
#[test]
fn three_virtual_cpus_share_two() {
    let vcpu = |budget, period| {
        let rank = Rank::Deadline(Duration::ZERO);
        ranked_reservation(
            rank,
            Rule::Server(ServerKind::Deferrable),
            budget,
            period,
            vec![task(0)],
        )
    };
    let plan = HierarchyPlan::global(2, level(vec![vcpu(4, 10), vcpu(3, 6), vcpu(5, 12)]));
    // Deadlines 10, 6, 12. 0-3: the second and the first; at 3 the second's budget is used up, the
    // third runs from 3 on; at 4 the first's. At 6 the second is back (12, it got ready later than
    // the third); it runs 6-9 beside the third, whose budget ends at 8. At 10 the first is back.
    assert_eq!(ends(&plan, &[(0, 0, 6), (1, 0, 5), (2, 0, 7)]), [12, 8, 14]);
}

#[test]
fn overheads_take_their_time_before_the_job() {
    let overheads = HostOverheads {
        context_switch: ns(1),
        scheduler_invocation: ns(2),
        interrupt: ns(3),
        ..HostOverheads::default()
    };
    let plan = HierarchyPlan {
        overheads,
        ..HierarchyPlan::on_one_cpu(level(vec![task(0), task(1)]))
    };
    let (story, outcome) = Story::of(&plan, &[(1, 0, 10), (0, 8, 4)], Some(1000));
    // 0: interrupt 3, look 2, switch 1; the job from 6. At 8: the same again, the other job 14-18;
    // look and switch 18-21; the first job has 8 left, to 29; then one look, for nothing, to 31.
    assert_eq!(story.ends(2), [29, 18]);
    assert_eq!(
        story
            .overheads
            .iter()
            .map(|(_, from, until)| until - from)
            .sum::<u64>(),
        15
    );
    assert_eq!(outcome.unfinished, 0);
}

#[test]
fn going_to_another_cpu_costs_a_migration() {
    let overheads = HostOverheads {
        migration: ns(5),
        ..HostOverheads::default()
    };
    let plan = HierarchyPlan {
        overheads,
        ..HierarchyPlan::global(2, level(vec![task(0), task(1), task(2)]))
    };
    let list = [(2, 0, 6), (1, 1, 4), (0, 2, 8)];
    assert_eq!(Story::of(&plan, &list, Some(100)).0.ends(3), [14, 5, 10]);
}

#[test]
fn ticks_come_on_every_cpu_whatever_runs() {
    let overheads = HostOverheads {
        tick: Some(HostTick {
            period: ns(10),
            cost: ns(2),
        }),
        ..HostOverheads::default()
    };
    let plan = HierarchyPlan {
        overheads,
        ..HierarchyPlan::global(2, level(vec![task(0)]))
    };
    let (story, _) = Story::of(&plan, &[(0, 5, 10)], Some(40));
    assert_eq!(story.ends(1), [17]);
    assert!(story.overheads.contains(&(0, 10, 12)));
    assert!(story.overheads.contains(&(1, 10, 12)));
}

#[test]
fn a_job_that_ends_as_a_tick_comes_is_done_before_it() {
    let tick = Some(HostTick {
        period: ns(10),
        cost: ns(2),
    });
    let plan = HierarchyPlan {
        overheads: HostOverheads {
            tick,
            ..HostOverheads::default()
        },
        ..HierarchyPlan::on_one_cpu(level(vec![task(0), task(1)]))
    };
    let (story, _) = Story::of(&plan, &[(0, 0, 10), (1, 0, 3)], Some(40));
    assert_eq!(story.ends(2), [10, 15]);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let simulate = |plan: &HierarchyPlan, list: &[(usize, u64, u64)]| {
        let mut completions: Vec<Completion> = Vec::new();
        simulate_plan(plan, &mut jobs(list).as_slice(), &mut completions, None)
    };
    let one = HierarchyPlan::on_one_cpu(level(vec![task(0)]));
    assert_eq!(
        simulate(&HierarchyPlan::global(0, level(vec![])), &[]),
        Err(HierarchyError::NoCpu)
    );
    assert!(matches!(
        simulate(&one, &[(1, 0, 1)]),
        Err(HierarchyError::UnknownTask {
            task: 1,
            tasks: 1,
            ..
        })
    ));
    assert_eq!(
        simulate(&one, &[(0, 0, u64::MAX)]),
        Err(HierarchyError::Overflow)
    );
    let tick = Some(HostTick {
        period: ns(2),
        cost: ns(2),
    });
    let plan = HierarchyPlan {
        overheads: HostOverheads {
            tick,
            ..HostOverheads::default()
        },
        ..one.clone()
    };
    assert!(matches!(
        simulate(&plan, &[]),
        Err(HierarchyError::Tick { .. })
    ));
    let plan = HierarchyPlan {
        overheads: HostOverheads {
            interrupt: ns(1),
            ..HostOverheads::default()
        },
        ..one
    };
    assert_eq!(simulate(&plan, &[]), Err(HierarchyError::HorizonMissing));
}

#[test]
fn a_reservation_that_makes_no_sense_is_refused_with_a_reason() {
    let with = |rule, budget, period| {
        let member = ranked_reservation(Rank::Fixed(0), rule, budget, period, vec![task(0)]);
        let plan = HierarchyPlan::on_one_cpu(level(vec![member]));
        simulate_plan(&plan, &mut [].as_slice(), &mut Vec::new(), None)
    };
    assert!(matches!(
        with(Rule::Server(ServerKind::Deferrable), 3, 2),
        Err(HierarchyError::Reservation {
            reservation: 1,
            error: ReservationError::Budget { .. }
        })
    ));
    assert!(matches!(
        with(Rule::Server(ServerKind::Deferrable), 0, 0),
        Err(HierarchyError::Reservation { .. })
    ));
    assert_eq!(
        with(Rule::Windows(Vec::new()), 0, 2),
        Err(HierarchyError::Reservation {
            reservation: 1,
            error: ReservationError::NoWindow
        })
    );
    let late = Window {
        offset: ns(1),
        length: ns(2),
    };
    assert!(matches!(
        with(Rule::Windows(vec![late]), 0, 2),
        Err(HierarchyError::Reservation {
            error: ReservationError::Window { window: 0, .. },
            ..
        })
    ));
}

#[test]
fn a_source_out_of_order_is_refused() {
    let late = Job {
        delay_ns: 0,
        task: 0,
        number: 0,
        release: 5,
        work: 1,
    };
    let early = Job { release: 3, ..late };
    let mut completions: Vec<Completion> = Vec::new();
    let plan = HierarchyPlan::on_one_cpu(level(vec![task(0)]));
    let outcome = simulate_plan(&plan, &mut [late, early].as_slice(), &mut completions, None);
    assert!(matches!(outcome, Err(HierarchyError::OutOfOrder { .. })));
}

// The oracle.

#[derive(Clone, Debug)]
struct Host {
    speeds: Vec<u32>,
    preemptive: bool,
    /// Relative deadlines, or nothing for fixed ranks.
    deadlines: Option<Vec<u64>>,
    /// Budget and period of each task's own deferrable reservation, or nothing.
    budgets: Option<Vec<(u64, u64)>>,
    jobs: Vec<(usize, u64, u64)>,
}

const TASKS: usize = 5;

fn hosts() -> impl Strategy<Value = Host> {
    let speeds = prop::collection::vec(prop::sample::select(vec![1000_u32, 500, 300]), 1..4);
    let budget = (1_u64..5, 0_u64..6).prop_map(|(budget, more)| (budget, budget + more));
    (
        speeds,
        any::<bool>(),
        prop::option::of(prop::collection::vec(1_u64..30, TASKS)),
        prop::option::of(prop::collection::vec(budget, TASKS)),
        prop::collection::vec((0..TASKS, 0_u64..40, 1_u64..9), 1..25),
    )
        .prop_map(|(speeds, preemptive, deadlines, budgets, jobs)| Host {
            speeds,
            // A member that has begun keeps its CPU only as long as it has budget; the oracle knows
            // the one or the other.
            preemptive: preemptive || budgets.is_some(),
            // Deadlines of reservations are those of their budgets.
            deadlines: deadlines.filter(|_| budgets.is_none()),
            budgets,
            jobs,
        })
}

impl Host {
    fn plan(&self) -> HierarchyPlan {
        let member = |index: usize| match (&self.budgets, &self.deadlines) {
            (Some(budgets), _) => {
                let (budget, period) = budgets[index];
                let rank = Rank::Fixed(index as u64);
                ranked_reservation(
                    rank,
                    Rule::Server(ServerKind::Deferrable),
                    budget,
                    period,
                    vec![task(0)],
                )
            }
            (None, Some(deadlines)) => {
                LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(ns(deadlines[index]))))
            }
            (None, None) => task(index as u64),
        };
        let speeds = self
            .speeds
            .iter()
            .map(|it| Speed::from_permille(*it).unwrap());
        HierarchyPlan {
            cpus: speeds.collect(),
            ..HierarchyPlan::global(
                0,
                Level {
                    preemptive: self.preemptive,
                    ..level((0..TASKS).map(member).collect())
                },
            )
        }
    }

    fn by_ticks(&self) -> Vec<u64> {
        let mut coming = jobs(&self.jobs);
        coming.reverse();
        let mut ends = vec![0; self.jobs.len()];
        let mut speeds: Vec<i64> = self.speeds.iter().map(|speed| i64::from(*speed)).collect();
        speeds.sort_unstable_by_key(|speed| -speed);
        // Number, task, deadline or rank, work left in thousandths, the CPU that it may not leave.
        let mut waiting: Vec<(usize, usize, u64, i64, Option<usize>)> = Vec::new();
        let mut left: Vec<u64> = vec![u64::MAX; TASKS];
        let mut now = 0;
        while !coming.is_empty() || !waiting.is_empty() {
            if let Some(budgets) = &self.budgets {
                for (index, (budget, period)) in budgets.iter().enumerate() {
                    if now % period == 0 {
                        left[index] = *budget;
                    }
                }
            }
            waiting.retain(|(number, _, _, work, _)| {
                if *work <= 0 {
                    ends[*number] = now;
                }
                *work > 0
            });
            while coming.last().is_some_and(|job| job.release <= now) {
                let job = coming.pop().unwrap();
                let rank = match &self.deadlines {
                    Some(deadlines) => job.release + deadlines[job.task],
                    None => job.task as u64,
                };
                let work = job.work as i64 * 1000;
                waiting.push((job.number as usize, job.task, rank, work, None));
            }
            // The first job of each task, in order of release.
            let mut first: Vec<usize> = (0..waiting.len())
                .filter(|at| !waiting[..*at].iter().any(|job| job.1 == waiting[*at].1))
                .filter(|at| left[waiting[*at].1] > 0)
                .collect();
            first.sort_by_key(|at| (waiting[*at].4.is_none(), waiting[*at].2, *at));
            first.truncate(speeds.len());
            let taken: Vec<usize> = first.iter().filter_map(|at| waiting[*at].4).collect();
            let mut free = (0..speeds.len()).filter(|cpu| !taken.contains(cpu));
            for at in first {
                let (_, task, _, work, stays) = &mut waiting[at];
                let cpu = stays.unwrap_or_else(|| free.next().unwrap());
                *work -= speeds[cpu];
                *stays = (!self.preemptive).then_some(cpu);
                left[*task] -= 1;
            }
            now += 1;
        }
        ends
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn several_cpus_are_as_from_tick_to_tick(host in hosts()) {
        prop_assert_eq!(ends(&host.plan(), &host.jobs), host.by_ticks());
    }

    #[test]
    fn what_runs_what_overheads_take_and_what_is_idle_adds_up(
        host in hosts(),
        costs in prop::collection::vec(0_u64..3, 5),
    ) {
        let overheads = HostOverheads {
            context_switch: ns(costs[0]),
            scheduler_invocation: ns(costs[1]),
            migration: ns(costs[2]),
            interrupt: ns(costs[3]),
            tick: Some(HostTick { period: ns(10), cost: ns(costs[4]) }),
            ..HostOverheads::default()
        };
        let plan = HierarchyPlan { overheads, ..host.plan() };
        let horizon = 3000;
        let (story, outcome) = Story::of(&plan, &host.jobs, Some(horizon));
        let end = outcome.end.as_nanos();
        for cpu in 0..host.speeds.len() {
            let ran = story.pieces.iter().filter(|it| it.cpu == cpu).map(|it| (it.from, it.until));
            let took = story.overheads.iter().filter(|it| it.0 == cpu).map(|it| (it.1, it.2));
            let mut all: Vec<(u64, u64)> = ran.chain(took).collect();
            all.sort_unstable();
            prop_assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            prop_assert!(all.iter().all(|(from, until)| from < until && *until <= end));
        }
        // Each job has its work, on CPUs of their speeds, and never two CPUs at once.
        let done = story.ends(host.jobs.len());
        for (number, (_, release, work)) in host.jobs.iter().enumerate() {
            let mut pieces: Vec<&Piece> =
                story.pieces.iter().filter(|it| it.number as usize == number).collect();
            pieces.sort_by_key(|it| it.from);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].until <= pair[1].from));
            prop_assert!(pieces.iter().all(|it| it.from >= *release));
            let did: u64 = pieces
                .iter()
                .map(|it| (it.until - it.from) * u64::from(host.speeds[it.cpu]))
                .sum();
            if done[number] > 0 {
                // At most what the last nanosecond of each piece gives too much.
                prop_assert!(did >= work * 1000 && did < work * 1000 + 1000);
            } else {
                prop_assert!(did < work * 1000);
            }
        }
    }
}
