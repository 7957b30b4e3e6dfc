//! Writes what a simulation leaves behind into a folder: `jobs.csv` and `schedule.perfetto-trace`:
//! `cargo run -p tailbound-simulator --example schedule_traces -- FOLDER`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use tailbound_simulator::hierarchy::{
    HierarchyPlan, Level, LevelMember, PeriodicJobs, PeriodicSource, PlannedReservation,
    PlannedTask, Rank, Rule, ServerKind, simulate_plan,
};
use tailbound_simulator::traces::{JobTable, ScheduleTrace, Setting, Tee};
use tailbound_simulator::{HostOverheads, HostTick};
use tailbound_time::Duration;

fn level(members: Vec<LevelMember>) -> Level {
    Level::of(members)
}

/// Two CPUs with a deferrable server, which has two tasks inside, above two tasks of lower rank.
fn plan() -> HierarchyPlan {
    let task = |rank| LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank)));
    let reserved = LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(1),
        rule: Rule::Server(ServerKind::Deferrable),
        budget: Duration::from_millis(4),
        period: Duration::from_millis(10),
        phase: Duration::ZERO,
        inside: level(vec![task(1), task(2)]),
    });
    HierarchyPlan {
        overheads: HostOverheads {
            context_switch: Duration::from_micros(5),
            tick: Some(HostTick {
                period: Duration::from_millis(4),
                cost: Duration::from_micros(2),
            }),
            ..HostOverheads::default()
        },
        ..HierarchyPlan::global(2, level(vec![reserved, task(2), task(3)]))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .unwrap_or_else(|| ".".into())
        .into();
    std::fs::create_dir_all(&folder)?;
    let plan = plan();
    let deadline = |ms| Some(Duration::from_millis(ms));
    let setting = Setting::of(&plan)
        .name_tasks(["control", "video", "maps", "log"])
        .name_reservations(["redis"])
        .set_deadlines([deadline(5), deadline(12), deadline(15), None]);
    let periodic = |offset_ms: u64, period_ms: u64, work_us: u64| PeriodicSource {
        offset: offset_ms * 1_000_000,
        period_ns: period_ms * 1_000_000,
        work: work_us * 1_000,
    };
    let tasks = vec![
        periodic(1, 5, 1_000),
        periodic(0, 12, 3_000),
        periodic(0, 15, 8_000),
        periodic(2, 20, 9_000),
    ];
    let mut source = PeriodicJobs::new(tasks, u64::MAX);
    let mut sinks = Tee(
        JobTable::new(setting.clone(), File::create(folder.join("jobs.csv"))?),
        ScheduleTrace::new(
            setting,
            BufWriter::new(File::create(folder.join("schedule.perfetto-trace"))?),
        ),
    );
    let horizon = Some(Duration::from_millis(1_000));
    let end = simulate_plan(&plan, &mut source, &mut sinks, horizon)?
        .end
        .as_nanos();
    sinks.0.finish(end)?;
    sinks.1.finish(end)?;
    Ok(())
}
