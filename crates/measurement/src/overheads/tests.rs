//! Of what was measured to a description, and on the machine that this runs on.
#![allow(clippy::unwrap_used)]

use tailbound_time::Instant;

use super::series::Spread;
use super::*;

fn cost(value_ns: u64) -> Option<Cost> {
    let spread = |median_ns| Spread {
        count: 1,
        min: Duration::from_nanos(median_ns),
        median: Duration::from_nanos(median_ns),
        p99: Duration::from_nanos(median_ns),
    };
    Some(Cost {
        value: Duration::from_nanos(value_ns),
        with: spread(value_ns + 100),
        without: spread(100),
        floor: Duration::ZERO,
    })
}

fn noisy(value_ns: u64, floor_ns: u64) -> Option<Cost> {
    let floor = Duration::from_nanos(floor_ns);
    cost(value_ns).map(|cost| Cost { floor, ..cost })
}

fn empty(fifo: bool) -> MeasuredOverheads {
    MeasuredOverheads {
        plan: OverheadPlan {
            cpu: Cpu(0),
            other_cpu: None,
            length: Duration::from_millis(1),
        },
        fifo,
        reading: Duration::from_nanos(20),
        costs: Vec::new(),
        tick: None,
        missing: Vec::new(),
    }
}

#[test]
fn the_parts_of_a_handover_add_up_to_it() {
    let mut measured = empty(true);
    measured.keep(Subject::Look, cost(300));
    measured.keep(Subject::Switch, cost(1_000));
    measured.keep(Subject::Handover, cost(2_400));
    measured.keep(Subject::Interrupt, cost(900));
    measured.keep(Subject::Migration, cost(5_000));
    let overheads = measured.overheads();
    assert_eq!(overheads.context_switch.as_nanos(), 1_000);
    assert_eq!(overheads.scheduler_invocation.as_nanos(), 700);
    assert_eq!(overheads.interrupt.as_nanos(), 900);
    assert_eq!(overheads.migration.as_nanos(), 5_000);
    assert_eq!(measured.preemption_of_parts().as_nanos(), 900 + 2 * 1_700);

    let mut ordinary = empty(false);
    ordinary.keep(Subject::Look, cost(300));
    ordinary.keep(Subject::Handover, cost(2_400));
    let overheads = ordinary.overheads();
    assert_eq!(overheads.scheduler_invocation.as_nanos(), 300);
    assert_eq!(overheads.context_switch.as_nanos(), 1_800);
    assert_eq!(empty(false).overheads(), HostOverheads::default());
}

#[test]
fn values_that_are_not_above_their_noise_are_told() {
    let doubtful_values = |overheads: &MeasuredOverheads| -> Vec<(&str, u64, u64)> {
        let doubtful = overheads.not_above_noise().into_iter();
        doubtful
            .map(|it| (it.key, it.value.as_nanos(), it.floor.as_nanos()))
            .collect()
    };
    let mut overheads = empty(true);
    overheads.keep(Subject::Switch, noisy(1_000, 300));
    overheads.keep(Subject::Handover, noisy(1_600, 400));
    overheads.keep(Subject::Interrupt, noisy(900, 899));
    overheads.keep(Subject::Migration, noisy(40, 900));
    // Half of 600, which may be off by 300 and 400.
    let expected = [("scheduler_invocation", 300, 350), ("migration", 40, 900)];
    assert_eq!(doubtful_values(&overheads), expected);

    let mut ordinary = empty(false);
    ordinary.keep(Subject::Look, noisy(300, 20));
    ordinary.keep(Subject::Handover, noisy(1_000, 500));
    ordinary.keep(Subject::Interrupt, noisy(0, 0));
    let expected = [("context_switch", 400, 540), ("interrupt", 0, 0)];
    assert_eq!(doubtful_values(&ordinary), expected);
    assert_eq!(doubtful_values(&empty(true)), []);
}

#[test]
fn a_tick_costs_its_gap_without_the_reading_of_the_clock() {
    let gaps: Vec<tick::Gap> = (0..40)
        .map(|number| tick::Gap {
            begin: Instant::from_nanos(1_000 + number * 4_000_000),
            length: Duration::from_nanos(2_020),
        })
        .collect();
    let stretch = tick::Stretch {
        begin: Instant::ORIGIN,
        end: Instant::from_nanos(160_000_000),
        gaps,
    };
    let mut overheads = empty(true);
    overheads.tick = tick::find_tick(&[stretch]);
    let tick = overheads.overheads().tick.unwrap();
    assert_eq!(tick.period, Duration::from_millis(4));
    assert_eq!(tick.cost.as_nanos(), 2_000);
}

#[test]
fn measures_the_machine_that_this_runs_on() {
    let cpu = tailbound_linux::thread::current_cpu().unwrap();
    let plan = OverheadPlan {
        cpu: Cpu(cpu),
        other_cpu: None,
        length: Duration::from_millis(30),
    };
    let overheads = measure_overheads(plan).unwrap();
    assert_eq!(overheads.plan, plan);
    for subject in [Subject::Look, Subject::Handover, Subject::Interrupt] {
        let cost = overheads.cost_of(subject).unwrap();
        assert!(cost.with.min <= cost.with.median && cost.with.median <= cost.with.p99);
        assert!(cost.with.count > 0 && cost.without.count > 0);
    }
    assert_eq!(overheads.cost_of(Subject::Switch).is_some(), overheads.fifo);
    assert!(
        overheads
            .missing
            .iter()
            .any(|missing| missing.what == "migration")
    );
    if !overheads.fifo {
        eprintln!("SKIP part of measures_the_machine_that_this_runs_on: needs CAP_SYS_NICE");
    }
    let refused = |plan| measure_overheads(plan).unwrap_err().to_string();
    let length = Duration::ZERO;
    assert!(refused(OverheadPlan { length, ..plan }).contains("above zero"));
    let length = Duration::from_secs(120);
    assert!(refused(OverheadPlan { length, ..plan }).contains("120s"));
    let nowhere = OverheadPlan {
        cpu: Cpu(100_000),
        ..plan
    };
    assert!(refused(nowhere).contains("name an online CPU"));
}
