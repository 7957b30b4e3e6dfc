//! Simulated schedules for tests and the example: a reservation, global scheduling on two CPUs with a
//! time partition, and more jobs than can be drawn singly.

use tailbound_report::SchedulePicture;
use tailbound_simulator::hierarchy::{
    HierarchyPlan, Level, LevelMember, PeriodicJobs, PeriodicSource, PlannedReservation,
    PlannedTask, Rank, Rule, ServerKind, Window, simulate_plan,
};
use tailbound_simulator::traces::{BLOCKS, ScheduleWindow, Setting};
use tailbound_simulator::{HostOverheads, HostTick};
use tailbound_time::Duration;

const MS: u64 = 1_000_000;

fn task(rank: u64) -> LevelMember {
    LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank)))
}

fn level(members: Vec<LevelMember>) -> Level {
    Level::of(members)
}

fn reservation(
    rank: u64,
    rule: Rule,
    interface: (u64, u64),
    members: Vec<LevelMember>,
) -> LevelMember {
    LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(rank),
        rule,
        budget: Duration::from_nanos(interface.0),
        period: Duration::from_nanos(interface.1),
        phase: Duration::ZERO,
        inside: level(members),
    })
}

fn periodic(offset: u64, period_ns: u64, work: u64) -> PeriodicSource {
    PeriodicSource {
        offset,
        period_ns,
        work,
    }
}

/// A schedule from an instant until another, in milliseconds.
fn picture(
    title: &str,
    plan: &HierarchyPlan,
    setting: Setting,
    tasks: Vec<PeriodicSource>,
    window: (u64, u64),
) -> SchedulePicture {
    let (from, until) = (window.0 * MS, window.1 * MS);
    let mut sink = ScheduleWindow::new(setting, from, until, BLOCKS).unwrap();
    let mut source = PeriodicJobs::new(tasks, 1_000_000);
    let horizon = Some(Duration::from_nanos(until));
    let outcome = simulate_plan(plan, &mut source, &mut sink, horizon).unwrap();
    SchedulePicture {
        title: title.into(),
        slice: sink.finish(outcome.end.as_nanos()),
    }
}

/// A deferrable server with two tasks beside a lesser task, with the operating system's overheads. A
/// deadline is missed.
fn one_cpu() -> (HierarchyPlan, Setting, Vec<PeriodicSource>) {
    let inside = vec![task(1), task(2)];
    let members = vec![
        reservation(
            1,
            Rule::Server(ServerKind::Deferrable),
            (4 * MS, 10 * MS),
            inside,
        ),
        task(3),
    ];
    let plan = HierarchyPlan {
        overheads: HostOverheads {
            context_switch: Duration::from_micros(40),
            tick: Some(HostTick {
                period: Duration::from_millis(4),
                cost: Duration::from_micros(60),
            }),
            ..HostOverheads::default()
        },
        ..HierarchyPlan::on_one_cpu(level(members))
    };
    let deadline = |ms| Some(Duration::from_millis(ms));
    let setting = Setting::of(&plan)
        .name_tasks(["control", "video", "logging"])
        .name_reservations(["redis"])
        .set_deadlines([deadline(5), deadline(12), None]);
    let tasks = vec![
        periodic(MS, 5 * MS, MS),
        periodic(0, 12 * MS, 3 * MS),
        periodic(2 * MS, 20 * MS, 7 * MS),
    ];
    (plan, setting, tasks)
}

/// Two CPUs under one scheduler, with a time partition and a sporadic server.
fn two_cpus() -> SchedulePicture {
    let windows = [(0, 6 * MS), (12 * MS, 4 * MS)].map(|(offset, length)| Window {
        offset: Duration::from_nanos(offset),
        length: Duration::from_nanos(length),
    });
    let members = vec![
        reservation(
            1,
            Rule::Windows(windows.into()),
            (0, 20 * MS),
            vec![task(1)],
        ),
        reservation(
            2,
            Rule::Server(ServerKind::Sporadic),
            (3 * MS, 8 * MS),
            vec![task(1)],
        ),
        task(3),
        task(4),
    ];
    let plan = HierarchyPlan::global(2, level(members));
    let setting = Setting::of(&plan)
        .name_tasks(["flight control", "telemetry <radio>", "maps", "best effort"])
        .name_reservations(["partition A", "radio"])
        .set_deadlines([
            Some(Duration::from_millis(20)),
            Some(Duration::from_millis(8)),
        ]);
    let tasks = vec![
        periodic(3 * MS, 20 * MS, 7 * MS),
        periodic(MS, 8 * MS, 3 * MS),
        periodic(0, 15 * MS, 8 * MS),
        periodic(0, 30 * MS, 9 * MS),
    ];
    picture("Two CPUs, one scheduler", &plan, setting, tasks, (0, 60))
}

/// All samples: one CPU, two CPUs, and the first for long.
pub fn sample_schedules() -> Vec<SchedulePicture> {
    let (plan, setting, tasks) = one_cpu();
    let short = picture(
        "Redis beside a log",
        &plan,
        setting.clone(),
        tasks.clone(),
        (0, 48),
    );
    let long = picture(
        "Redis beside a log, for long",
        &plan,
        setting,
        tasks,
        (1_000, 9_000),
    );
    vec![short, two_cpus(), long]
}
