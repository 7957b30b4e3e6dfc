//! What simulations leave behind: small schedules as they must look, random ones against each other and
//! against readers of our own, and calls that no simulation makes.

mod arbitrary;
pub mod audit;
mod hosts;
mod random;
mod wire;

use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Piece, Rule, ServerKind, Sink, simulate_plan,
};
use tailbound_simulator::traces::{
    Detail, JobTable, ScheduleTrace, ScheduleWindow, Setting, Tee, WindowProblem,
};

use self::audit::{Audit, Finding};
use crate::plans::{level, ns, reservation, task};

/// A deferrable server of 3 in 10 with two tasks, above a task in the background.
fn plan() -> HierarchyPlan {
    HierarchyPlan::on_one_cpu(level(vec![
        reservation(
            1,
            Rule::Server(ServerKind::Deferrable),
            3,
            10,
            vec![task(1), task(2)],
        ),
        task(9),
    ]))
}

fn setting() -> Setting {
    Setting::of(&plan())
        .name_tasks(["control", "video, \"live\"", "log"])
        .name_reservations(["redis"])
        .set_deadlines([Some(ns(5)), Some(ns(10)), None])
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

fn run(sink: &mut impl Sink, horizon: u64) -> u64 {
    let jobs = [
        job(2, 0, 0, 9),
        job(1, 1, 0, 4),
        job(0, 2, 1, 2),
        job(1, 3, 2, 1),
        job(0, 4, 18, 2),
    ];
    let outcome = simulate_plan(&plan(), &mut jobs.as_slice(), sink, Some(ns(horizon))).unwrap();
    outcome.end.as_nanos()
}

#[test]
fn the_table_has_a_row_for_each_job() {
    let mut table = JobTable::new(setting(), Vec::new());
    let end = run(&mut table, 19);
    let text = String::from_utf8(table.finish(end).unwrap()).unwrap();
    insta::assert_snapshot!(text, @r#"
    task,number,release_ns,start_ns,completion_ns,response_ns,deadline_ns,missed,preemptions,cpu
    control,2,1,1,3,2,6,false,0,0
    "video, ""live""",1,0,0,13,13,10,true,1,0
    log,0,0,3,15,15,,,1,0
    control,4,18,,,,23,false,0,
    "video, ""live""",3,2,,,,12,true,0,
    "#);
}

#[test]
fn the_trace_shows_cpus_reservations_and_tasks() {
    let mut trace = ScheduleTrace::new(setting(), Vec::new());
    let end = run(&mut trace, 40);
    let bytes = trace.finish(end).unwrap();
    let shown = wire::Shown::of(&wire::packets(&bytes).unwrap()).unwrap();
    assert_eq!(shown.disorder(), Vec::<String>::new());
    insta::assert_snapshot!(shown.text(), @r#"
    CPUs/CPU 0: video, "live" 0-1 control 1-3 log 3-10 video, "live" 10-13 log 13-15 control 20-22 video, "live" 22-23
    Tasks/control/jobs 12: #2 1-3 #4 18-22
    Tasks/log/jobs 10: #0 0-15
    Tasks/video, "live"/jobs 11: #1 0-13
    Tasks/video, "live"/jobs 13: #3 2-23
    Reservations/redis: [("ran out", 3), ("replenished", 10), ("ran out", 13), ("replenished", 20)]
    Tasks/control: [("release", 1), ("release", 18)]
    Tasks/log: [("release", 0)]
    Tasks/video, "live": [("release", 0), ("release", 2), ("deadline missed", 10), ("deadline missed", 12)]
    Reservations/redis/budget left: [(0, 3), (1, 2), (2, 1), (3, 0), (10, 3), (13, 0), (20, 3), (22, 1), (23, 0)]
    "#);
}

#[test]
fn what_the_operating_system_takes_in_between_is_no_preemption() {
    let mut table = JobTable::new(setting(), Vec::new());
    let piece = |from, until| Piece {
        task: 2,
        number: 7,
        cpu: 0,
        from,
        until,
        reservation: 0,
        boosted: false,
    };
    table.released(&job(2, 7, 0, 9));
    table.ran(&piece(0, 3));
    table.ran(&piece(3, 4));
    table.overhead(0, 4, 5);
    table.overhead(0, 5, 6);
    table.ran(&piece(6, 8));
    table.ran(&piece(9, 10));
    table.completed(&Completion {
        task: 2,
        number: 7,
        release: 0,
        end: 10,
    });
    let text = String::from_utf8(table.finish(10).unwrap()).unwrap();
    assert_eq!(text.lines().nth(1), Some("log,7,0,0,10,10,,,1,0"));
}

/// Takes so many bytes, and then fails.
#[derive(Debug)]
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(bytes.len())
            .ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_end() {
    let mut sinks = Tee(
        JobTable::new(setting(), Full(20)),
        ScheduleTrace::new(setting(), Full(300)),
    );
    let end = run(&mut sinks, 40);
    let table = sinks.0.finish(end).unwrap_err();
    assert_eq!(table.kind(), std::io::ErrorKind::StorageFull);
    let trace = sinks.1.finish(end).unwrap_err();
    assert_eq!(trace.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_window_has_what_happened_in_it_and_nothing_else() {
    let mut window = ScheduleWindow::new(setting(), 2, 12, 100).unwrap();
    let end = run(&mut window, 40);
    let slice = window.finish(end);
    let Detail::Exact(exact) = slice.detail else {
        panic!("summed up");
    };
    let blocks: Vec<_> = exact
        .blocks
        .iter()
        .map(|block| (block.job.map(|(task, _)| task), block.from, block.until))
        .collect();
    assert_eq!(
        blocks,
        [(Some(0), 2, 3), (Some(2), 3, 10), (Some(1), 10, 12)]
    );
    let curve: Vec<_> = exact.curves[&1]
        .stretches
        .iter()
        .map(|stretch| (stretch.from, stretch.first, stretch.until, stretch.last))
        .collect();
    assert_eq!(curve, [(2, 1, 3, 0), (3, 0, 10, 0), (10, 3, 12, 1)]);
    assert_eq!(exact.curves[&1].ran_out, [3]);
    let mut jobs: Vec<_> = exact
        .jobs
        .iter()
        .map(|job| (job.number, job.missed))
        .collect();
    jobs.sort_unstable();
    assert_eq!(jobs, [(0, false), (1, true), (2, false), (3, true)]);
}

#[test]
fn a_window_without_time_is_refused() {
    let refused = ScheduleWindow::new(setting(), 5, 5, 100);
    assert_eq!(
        refused.err(),
        Some(WindowProblem::Empty { from: 5, until: 5 })
    );
}

/// What an audit finds in a schedule that somebody made up.
fn findings(calls: impl FnOnce(&mut Audit)) -> Vec<Finding> {
    let mut audit = Audit::new(setting());
    audit.released(&job(0, 1, 0, 4));
    audit.released(&job(2, 2, 0, 3));
    calls(&mut audit);
    audit.verdict().err().unwrap_or_default()
}

fn piece(task: usize, number: u64, from: u64, until: u64) -> Piece {
    Piece {
        task,
        number,
        cpu: 0,
        from,
        until,
        reservation: usize::from(task < 2),
        boosted: false,
    }
}

fn done(task: usize, number: u64, end: u64) -> Completion {
    Completion {
        task,
        number,
        release: 0,
        end,
    }
}

#[test]
fn an_audit_finds_busy_cpus_and_lost_work() {
    let fine = findings(|audit| {
        audit.ran(&piece(2, 2, 0, 3));
        audit.completed(&done(2, 2, 3));
    });
    assert_eq!(fine, []);
    let twice = findings(|audit| {
        audit.ran(&piece(2, 2, 0, 2));
        audit.ran(&piece(0, 1, 1, 2));
    });
    assert!(matches!(twice[..], [Finding::CpuTwice { busy: 2, .. }]));
    let kernel = findings(|audit| {
        audit.overhead(0, 0, 2);
        audit.ran(&piece(2, 2, 1, 2));
    });
    assert!(matches!(kernel[..], [Finding::CpuTwice { .. }]));
    let lost = findings(|audit| {
        audit.ran(&piece(2, 2, 0, 2));
        audit.completed(&done(2, 2, 2));
    });
    assert!(matches!(lost[..], [Finding::Work { done: 2_000, .. }]));
}

#[test]
fn an_audit_finds_wrong_budgets_places_and_orders() {
    let overdrawn = findings(|audit| {
        audit.ran(&piece(0, 1, 0, 4));
    });
    assert!(matches!(
        overdrawn[..],
        [Finding::Overdrawn {
            used: 4,
            left: 3,
            ..
        }]
    ));
    let early = findings(|audit| {
        audit.ran(&piece(0, 1, 0, 2));
        audit.ran_out(1, 2);
    });
    assert!(matches!(early[..], [Finding::RanOutEarly { left: 1, .. }]));
    let unknown = findings(|audit| {
        audit.ran(&piece(0, 9, 0, 1));
        audit.completed(&done(0, 9, 1));
    });
    assert!(matches!(
        unknown[..],
        [Finding::NotOpen { .. }, Finding::NotOpen { .. }]
    ));
    let elsewhere = findings(|audit| {
        let other = Piece {
            cpu: 1,
            ..piece(0, 1, 1, 2)
        };
        audit.ran(&piece(0, 1, 0, 2));
        audit.ran(&other);
    });
    assert!(matches!(
        elsewhere[..],
        [
            Finding::UnknownCpu { cpu: 1 },
            Finding::TaskTwice { .. },
            Finding::ReservationTwice { .. },
            ..
        ]
    ));
    let backwards = findings(|audit| {
        audit.replenished(1, 10);
        audit.ran_out(1, 9);
    });
    assert!(matches!(
        backwards[0],
        Finding::Backwards { at: 9, before: 10 }
    ));
}
