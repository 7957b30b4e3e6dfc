#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const TEXT: &str = r#"
schema_version = 1
name = "small"
seed = 7
hosts.here.cpus = [0]

[domains.service]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "6ms", period = "10ms", cpus = [0] }

[services.synthetic]
domain = "service"
protocol = "synthetic"
endpoint = "unix:s.sock"
scheduling = "rate-monotonic"

[services.synthetic.tasks.long]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "uniform", min = "5ms", max = "10ms" }

[services.synthetic.tasks.short]
arrivals = { kind = "sporadic", min_gap = "20ms", max_gap = "30ms" }
execution_time = { kind = "constant", value = "4ms" }
deadline = "6ms"

[[services.synthetic.slos]]
percentile = 90
latency = "40ms"

[[services.synthetic.slos]]
percentile = 90
latency = "1ms"
task = "short"
"#;

fn query(axes: &[&str], seeds: u64) -> SweepQuery {
    SweepQuery {
        axes: axes.iter().map(|axis| axis.parse().unwrap()).collect(),
        seeds,
        duration: Duration::from_secs(20),
        warm_up: Duration::ZERO,
        variant: None,
    }
}

fn plan(axes: &[&str], seeds: u64) -> Result<Sweep, SweepError> {
    Sweep::plan(TEXT, "small.toml", Path::new("."), query(axes, seeds))
}

const AXES: [&str; 2] = [
    "domains.service.reservation.budget=4ms..8ms/2ms",
    "services.synthetic.tasks.short.deadline=6ms,30ms",
];

#[test]
fn rows_are_those_of_the_product_in_its_order() {
    let sweep = plan(&AXES, 2).unwrap();
    assert_eq!(sweep.units(), 12);
    let header = sweep.header();
    assert!(header.starts_with(
        "domains.service.reservation.budget,services.synthetic.tasks.short.deadline,seed,service,"
    ));
    let text: String = (0..12).map(|unit| sweep.rows(unit).unwrap()).collect();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 12 * 3);
    let columns = header.trim_end().split(',').count();
    assert!(rows.iter().all(|row| row.len() == columns));
    let begins: Vec<String> = rows
        .iter()
        .step_by(3)
        .map(|row| row[..3].join(" "))
        .collect();
    assert_eq!(begins[0], "4ms 6ms 7");
    assert_eq!(begins[1], "4ms 6ms 8");
    assert_eq!(begins[2], "4ms 30ms 7");
    assert_eq!(begins[11], "8ms 30ms 8");
    let tasks: Vec<&str> = rows[..3].iter().map(|row| row[4]).collect();
    assert_eq!(tasks, ["long", "short", "*"]);
    assert!(sweep.rows(12).is_err());
}

/// Counted anew from what the simulation itself returns.
#[test]
fn rows_say_what_the_simulation_found() {
    let sweep = plan(&AXES, 1).unwrap();
    let point = &sweep.points[0];
    let span = Span {
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(20),
        seed: 7,
    };
    let found =
        simulate_description(&point.description, &point.variant, &point.inputs, span).unwrap();
    let simulation = found[0].found.as_ref().unwrap();
    let samples = simulation.per_task["short"].samples();
    let late = samples
        .iter()
        .filter(|one| **one > Duration::from_millis(6))
        .count();
    assert!(late > 0 && late < samples.len());
    let rows = sweep.rows(0).unwrap();
    let row: Vec<&str> = rows.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(row[5], samples.len().to_string());
    let mean = samples.iter().map(|one| one.as_nanos()).sum::<u64>() as f64 / samples.len() as f64;
    assert!((row[6].parse::<f64>().unwrap() - mean).abs() <= 1.0);
    assert_eq!(
        row[7],
        samples[samples.len().div_ceil(2) - 1]
            .as_nanos()
            .to_string()
    );
    assert_eq!(row[11], samples.last().unwrap().as_nanos().to_string());
    assert_eq!(row[12], late.to_string());
    // No job takes less than 4 ms, and 1 ms is promised.
    assert_eq!(row[13], "missed");
    let all: Vec<&str> = rows.lines().nth(2).unwrap().split(',').collect();
    assert_eq!(all[13], "met");
    assert_eq!(all[5], simulation.overall.samples().len().to_string());
    // Periodic tasks without a deadline have that of their period.
    let long: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    let misses = |row: &[&str]| row[12].parse::<u64>().unwrap();
    assert_eq!(misses(&all), misses(&long) + misses(&row));
}

#[test]
fn a_domain_without_a_rule_is_told_in_its_rows() {
    let mut query = query(&["seed=1,2"], 1);
    query.variant = Some("unreserved".into());
    let sweep = Sweep::plan(TEXT, "small.toml", Path::new("."), query).unwrap();
    let rows = sweep.rows(1).unwrap();
    assert!(
        rows.lines().all(|line| line.ends_with(",not-simulated")),
        "{rows}"
    );
    let columns = |line: &str| line.split(',').count();
    assert!(
        rows.lines()
            .all(|line| columns(line) == columns(&sweep.header()))
    );
}

#[test]
fn keys_that_are_not_there_are_told_before_anything_runs() {
    for (axis, words) in [
        (
            "domains.servise.reservation.budget=1ms",
            "did you mean domains.service?",
        ),
        (
            "domain.service.reservation.budget=1ms",
            "did you mean domains?",
        ),
        (
            "domains.service.reservation.buget=1ms",
            "did you mean `budget`?",
        ),
        (
            "domains.service.reservation=1ms",
            "it holds others; domains.service.reservation has",
        ),
        ("services.synthetic.slos.2.latency=1ms", "has 2 elements"),
        ("seed.of=1", "seed is a value"),
        (
            "domains.service.reservation.budget=11ms",
            "longer than the period",
        ),
        ("domains.service.reservation.budget=4", "has no unit"),
    ] {
        let found = plan(&[axis], 1).unwrap_err().to_string();
        assert!(found.contains(words), "{axis}: {found}");
    }
    let twice = plan(&["seed=1,2", "seed=3"], 1).unwrap_err().to_string();
    assert!(twice.contains("varied twice"), "{twice}");
    let none = plan(&["seed=1"], 0).unwrap_err().to_string();
    assert!(none.contains("from 1 to"), "{none}");
    let mut other = query(&["seed=1"], 1);
    other.variant = Some("resrved".into());
    let found = Sweep::plan(TEXT, "small.toml", Path::new("."), other).unwrap_err();
    assert!(
        found.to_string().contains("the experiment has: reserved"),
        "{found}"
    );
}

#[test]
fn values_in_lists_and_of_every_sort_are_set() {
    let sweep = plan(
        &[
            "services.synthetic.slos.1.latency=1ms,60ms",
            "services.synthetic.slos.0.percentile=90,99.5",
            "services.synthetic.max_in_flight=1",
        ],
        1,
    )
    .unwrap();
    let last = &sweep.points[3].description.services["synthetic"];
    assert_eq!(last.slos[1].latency, Duration::from_millis(60));
    assert_eq!(last.slos[0].percentile.0, 99.5);
    assert_eq!(last.max_in_flight, Some(1));
}

#[test]
fn a_sweep_that_was_cut_off_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, resumed) = (
        folder.path().join("whole.csv"),
        folder.path().join("again.csv"),
    );
    let sweep = plan(&AXES, 2).unwrap();
    sweep.run(&whole, |_| {}).unwrap();
    let expected = std::fs::read_to_string(&whole).unwrap();
    let by_hand: String = (0..12).map(|unit| sweep.rows(unit).unwrap()).collect();
    assert_eq!(expected, sweep.header() + &by_hand);
    // Some units out of order, and the beginning of another.
    let (mut journal, _) = Journal::open(&resumed, sweep.fingerprint, 12).unwrap();
    for unit in [7, 0, 3] {
        journal.add(unit, &sweep.rows(unit).unwrap()).unwrap();
    }
    drop(journal);
    let path = folder.path().join("again.csv.journal");
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"9 00112233");
    std::fs::write(&path, torn).unwrap();
    let first = AtomicUsize::new(usize::MAX);
    sweep
        .run(&resumed, |done| {
            first.fetch_min(done, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(first.into_inner(), 3);
    assert_eq!(std::fs::read_to_string(&resumed).unwrap(), expected);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
