//! HostOverheads take time from everybody, and are all accounted for.

use proptest::prelude::*;
use tailbound_simulator::aperiodic::{AperiodicCosts, Gain, Policy, System, simulate_aperiodic};
use tailbound_simulator::hierarchy::{Completion, Job, Piece, Sink};
use tailbound_simulator::{HostOverheads, HostTick};
use tailbound_time::Duration;

use super::properties::bearable;
use super::sets::{Set, Task, a_set, ns, run};

/// How long each task ran.
#[derive(Default)]
struct Ran {
    hard: u64,
    soft: u64,
    soft_task: usize,
}

impl Sink for Ran {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        if piece.task == self.soft_task {
            self.soft += piece.until - piece.from;
        } else {
            self.hard += piece.until - piece.from;
        }
    }
}

fn costly(system: &System, switch: u64, look: u64, policy: u64) -> System {
    System {
        overheads: HostOverheads {
            context_switch: ns(switch),
            scheduler_invocation: ns(look),
            migration: ns(9),
            tick: Some(HostTick {
                period: ns(7),
                cost: ns(look.min(3)),
            }),
            interrupt: ns(switch / 2),
            ..HostOverheads::default()
        },
        costs: AperiodicCosts {
            replenishment: ns(policy),
            promotion: ns(policy),
            slack_per_task: ns(policy),
            gain: ns(policy),
        },
        ..system.clone()
    }
}

proptest! {
    #[test]
    fn everything_adds_up(
        set in a_set(),
        period_ns in 2_u64..25,
        (switch, look, policy) in (0_u64..4, 0_u64..4, 0_u64..3),
        horizon in prop::option::of(1_u64..150),
    ) {
        for policy_at_work in bearable(&set, period_ns) {
            let system = costly(&set.system(policy_at_work), switch, look, policy);
            let mut ran = Ran { soft_task: set.tasks.len(), ..Ran::default() };
            // HostOverheads may use up everything, for ever.
            let horizon = horizon.unwrap_or(3000);
            let usage = simulate_aperiodic(
                &system,
                &mut set.jobs.as_slice(),
                &mut ran,
                Some(ns(horizon)),
            ).unwrap();
            prop_assert_eq!(
                usage.hard + usage.soft + usage.idle + usage.overhead,
                usage.elapsed
            );
            prop_assert_eq!((usage.hard, usage.soft), (ns(ran.hard), ns(ran.soft)));
            let kinds = usage.switching + usage.scheduling + usage.policy + usage.interrupts
                + usage.ticks;
            prop_assert!(kinds >= usage.overhead);
            if usage.elapsed < ns(horizon) {
                prop_assert_eq!(kinds, usage.overhead);
                let work: u64 = set.jobs.iter().map(|job| job.work).sum();
                prop_assert_eq!(usage.hard + usage.soft, ns(work));
            }
        }
    }
}

fn job(task: usize, number: u64, release: u64, work: u64) -> Job {
    Job {
        delay_ns: 0,
        task,
        number,
        release,
        work,
    }
}

#[test]
fn a_switch_is_paid_once_and_charged_to_nobody() {
    let set = Set {
        tasks: vec![Task::new(3, 20, 20)],
        jobs: vec![job(0, 0, 0, 3), job(1, 1, 1, 2), job(1, 2, 10, 2)],
    };
    let mut system = set.system(Policy::Background);
    system.overheads.context_switch = ns(1);
    let (completions, usage) = run(&system, &set.jobs);
    // Switch, hard 1-4, switch, soft 5-7; the second soft job finds its task on the CPU.
    let ends: Vec<u64> = completions.iter().map(|done| done.end).collect();
    assert_eq!(ends, [4, 7, 12]);
    assert_eq!((usage.context_switches, usage.overhead), (2, ns(2)));
}

#[test]
fn a_release_during_an_overhead_waits_for_its_end() {
    let set = Set {
        tasks: vec![Task::new(4, 20, 20)],
        jobs: vec![job(0, 0, 0, 4), job(1, 1, 1, 2)],
    };
    let mut system = set.system(Policy::SlackStealing { gain: Gain::None });
    system.overheads.scheduler_invocation = ns(3);
    let (completions, usage) = run(&system, &set.jobs);
    // The look at 0 takes until 3, that of 1 until 6; soft 6-8, a look until 11, hard 11-15, a look.
    let ends: Vec<u64> = completions.iter().map(|done| done.end).collect();
    assert_eq!(ends, [8, 15]);
    assert_eq!((usage.scheduler_invocations, usage.elapsed), (4, ns(18)));
}

#[test]
fn slack_costs_as_much_as_there_are_tasks() {
    let tasks = vec![Task::new(1, 20, 20); 3];
    let set = Set {
        jobs: (0..3).map(|task| job(task, task as u64, 0, 1)).collect(),
        tasks,
    };
    let mut system = set.system(Policy::SlackStealing {
        gain: Gain::Propagated,
    });
    system.costs.slack_per_task = ns(2);
    system.costs.gain = ns(1);
    let (_, usage) = run(&system, &set.jobs);
    assert_eq!(usage.policy, ns(3 * (3 * 2 + 1)));
    assert_eq!(usage.overhead, usage.policy);
}

#[test]
fn ticks_that_leave_nothing_are_refused() {
    let set = Set {
        tasks: Vec::new(),
        jobs: vec![job(0, 0, 0, 1)],
    };
    let mut system = set.system(Policy::Background);
    system.overheads.tick = Some(HostTick {
        period: ns(4),
        cost: ns(4),
    });
    let mut sink: Vec<Completion> = Vec::new();
    let refused = simulate_aperiodic(&system, &mut set.jobs.as_slice(), &mut sink, None);
    assert!(refused.is_err());
    system.overheads.tick = Some(HostTick {
        period: Duration::ZERO,
        cost: ns(4),
    });
    assert_eq!(run(&system, &set.jobs).1.overhead, Duration::ZERO);
}
