#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS};

use super::*;

const TEXT: &str = r#"
schema_version = 1
name = "small"
seed = 7
hosts.here.cpus = [0]

[domains.service]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "6ms", period = "10ms", priority = 80, cpus = [0] }

[domains.loop]
kind = "process"
command = ["loop"]
reservation = { budget = "1ms", period = "10ms", priority = 90, cpus = [0] }
tasks.control = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "1ms" } }

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
        mode: None,
        variant: None,
    }
}

fn plan(axes: &[&str], seeds: u64) -> Result<Sweep, SweepError> {
    Sweep::plan(TEXT, "small.toml", Path::new("."), query(axes, seeds))
}

const IN_FLIGHT: &str = "services.synthetic.max_in_flight=1,2";

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
        "domains.service.reservation.budget,services.synthetic.tasks.short.deadline,seed,host,"
    ));
    let text: String = (0..12).map(|unit| sweep.rows(unit).unwrap()).collect();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 12 * 6);
    let columns = header.trim_end().split(',').count();
    assert!(rows.iter().all(|row| row.len() == columns));
    let begins: Vec<String> = rows
        .iter()
        .step_by(6)
        .map(|row| row[..3].join(" "))
        .collect();
    assert_eq!(begins[0], "4ms 6ms 7");
    assert_eq!(begins[1], "4ms 6ms 8");
    assert_eq!(begins[2], "4ms 30ms 7");
    assert_eq!(begins[11], "8ms 30ms 8");
    let names: Vec<String> = rows[..6].iter().map(|row| row[3..7].join(" ")).collect();
    assert_eq!(
        names,
        [
            "here loop  ",
            "here loop  control",
            "here service  ",
            "here service synthetic long",
            "here service synthetic short",
            "here service synthetic *"
        ]
    );
    assert!(sweep.rows(12).is_err());
}

/// Counted anew from what the simulation of the host returns, with every response time.
#[test]
fn rows_say_what_the_simulation_found() {
    let sweep = plan(&AXES, 1).unwrap();
    let (values, checked) = sweep.checked(0).unwrap();
    let point = sweep.hosted(values, &checked).unwrap();
    let simulation = simulate_host(&HostQuery {
        description: &point.description,
        host: "here",
        inputs: &InputFiles::default(),
        seed: 7,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(20),
        kept: Kept::All,
        most_events: MOST_EVENTS,
    })
    .unwrap();
    let rows = sweep.rows(0).unwrap();
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let header = sweep.header();
    let columns: Vec<&str> = header.trim_end().split(',').collect();
    let cell = |row: usize, name: &str| {
        let column = columns.iter().position(|column| *column == name).unwrap();
        rows[row][column]
    };
    let domain = &simulation.domains["service"];
    let short = domain.tasks.iter().find(|task| task.name == "short");
    let samples = short.unwrap().response_times.as_ref().unwrap().samples();
    let deadline = Duration::from_millis(6);
    let late = samples.iter().filter(|one| **one > deadline).count();
    assert!(late > 0 && late < samples.len());
    assert_eq!(cell(4, "jobs"), samples.len().to_string());
    assert_eq!(cell(4, "misses"), late.to_string());
    assert_eq!(
        cell(4, "max_ns"),
        samples.last().unwrap().as_nanos().to_string()
    );
    // At the upper end of a class, at most 1/512 of its values wide.
    let in_class = |text: &str, exact: u64| {
        let upper: u64 = text.parse().unwrap();
        assert!(
            exact <= upper && upper <= exact + exact / 512 + 1,
            "{exact} {upper}"
        );
    };
    in_class(
        cell(4, "p50_ns"),
        samples[samples.len().div_ceil(2) - 1].as_nanos(),
    );
    let sum: u64 = samples.iter().map(|one| one.as_nanos()).sum();
    in_class(cell(4, "mean_ns"), sum / samples.len() as u64);
    assert_eq!(cell(2, "depletions"), domain.depletions.to_string());
    assert_eq!(cell(2, "cpu_share"), domain.cpu_share.to_string());
    // No job takes less than 4 ms, and 1 ms is promised.
    assert_eq!(cell(4, "verdict"), "missed");
    assert_eq!(cell(5, "verdict"), "met");
    let of = |row| cell(row, "misses").parse::<u64>().unwrap();
    assert_eq!(of(5), of(3) + of(4));
    // The budget of the loop comes first, and is its tasks' need.
    assert_eq!(cell(1, "max_ns"), "1000000");
    assert_eq!((cell(0, "growth"), cell(1, "misses")), ("", "0"));
}

#[test]
fn work_that_piles_up_is_told_of_its_domain() {
    let sweep = plan(&["domains.service.reservation.budget=2ms"], 1).unwrap();
    let rows = sweep.rows(0).unwrap();
    let domain = rows.lines().find(|row| row.contains(",service,,,"));
    assert!(domain.unwrap().ends_with(",demand,,,"), "{rows}");
}

#[test]
fn a_variant_is_simulated_as_its_back_end_has_it() {
    let text = "[[experiment.variants]]\nname = \"free\"\nbackend = \"none\"\n";
    let mut query = query(&[], 1);
    let file = "small.toml";
    let all = format!("{TEXT}{text}");
    let described = Sweep::plan(&all, file, Path::new("."), query.clone()).unwrap();
    query.variant = Some("free".into());
    let free = Sweep::plan(&all, file, Path::new("."), query).unwrap();
    let depletions = |sweep: &Sweep| {
        let rows = sweep.rows(0).unwrap();
        let row = rows
            .lines()
            .find(|row| row.contains(",service,,,"))
            .unwrap();
        row.split(',').nth(9).unwrap().parse::<u64>().unwrap()
    };
    assert!(depletions(&described) > 0);
    assert_eq!(depletions(&free), 0);
}

#[test]
fn a_parcel_computes_the_same_rows_and_no_other_text_is_one() {
    let sweep = plan(&AXES, 2).unwrap();
    let parcel = sweep.to_parcel().unwrap();
    let there = Sweep::from_parcel(&parcel).unwrap();
    assert_eq!((there.units(), there.header()), (12, sweep.header()));
    for unit in [0, 11] {
        assert_eq!(there.rows(unit).unwrap(), sweep.rows(unit).unwrap());
    }
    let text = String::from_utf8(parcel).unwrap();
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let engine = format!("\"engine\":{}", tailbound_simulator::ENGINE);
    for (own, other, words) in [
        (version, r#""version":"0.0.1""#, "packed by version 0.0.1"),
        (engine, r#""engine":4711"#, "(engine 4711)"),
    ] {
        assert!(text.contains(&own));
        let others = text.replace(&own, other);
        let refused = Sweep::from_parcel(others.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // Whatever else is in it.
    let refused = Sweep::from_parcel(br#"{"version":"0.0.1"}"#).unwrap_err();
    assert!(refused.to_string().contains("engine 0"), "{refused}");
    assert!(Sweep::from_parcel(b"{}").is_err());
}

/// Files travel with the parcel.
#[test]
fn the_files_of_a_description_are_in_its_parcel() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("times.csv");
    std::fs::write(&file, "1500us\n2500us\n").unwrap();
    let text = TEXT.replace(
        r#"{ kind = "constant", value = "4ms" }"#,
        r#"{ kind = "samples", file = "times.csv" }"#,
    );
    let sweep = Sweep::plan(&text, "small.toml", folder.path(), query(&[], 2)).unwrap();
    let rows = sweep.rows(1).unwrap();
    let parcel = sweep.to_parcel().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(Sweep::from_parcel(&parcel).unwrap().rows(1).unwrap(), rows);
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
        let error = plan(&[axis], 1).unwrap_err().to_string();
        assert!(error.contains(words), "{axis}: {error}");
    }
    let twice = plan(&[IN_FLIGHT, IN_FLIGHT], 1).unwrap_err().to_string();
    assert!(twice.contains("varied twice"), "{twice}");
    let none = plan(&[], 0).unwrap_err().to_string();
    assert!(none.contains("from 1 to"), "{none}");
    let mut other = query(&[], 1);
    other.variant = Some("resrved".into());
    let error = Sweep::plan(TEXT, "small.toml", Path::new("."), other).unwrap_err();
    assert!(
        error.to_string().contains("the experiment has: "),
        "{error}"
    );
}

/// Two columns of one name, seeds counted twice: nothing good would come of it.
#[test]
fn the_seed_is_no_key_to_vary() {
    let refused = plan(&["seed=1,2"], 2).unwrap_err();
    assert!(matches!(refused, SweepError::SeedVaried));
    assert!(refused.to_string().contains("--seeds"), "{refused}");
}

/// What follows a number in its text would be dropped without a word.
#[test]
fn a_value_is_all_of_its_text() {
    let key = "services.synthetic.max_in_flight";
    let planned = |values: &[&str]| {
        let values = values.iter().map(ToString::to_string).collect();
        let mut query = query(&[], 1);
        query.axes = vec![Axis::of(key.into(), values).unwrap()];
        Sweep::plan(TEXT, "small.toml", Path::new("."), query)
    };
    for text in [
        "5 # x", "5\nz = 1", "5\n", "5\r\n#", "5 6", "5, z = 1", "\"5",
    ] {
        assert!(planned(&[text]).is_err(), "{text:?}");
    }
    let sweep = planned(&["0x5", "6"]).unwrap();
    let (_, first) = sweep.checked(0).unwrap();
    assert_eq!(first.services["synthetic"].max_in_flight, Some(5));
    for same in [["5", "0x5"], ["1_0", "10"], ["5", "5"], ["5", " 5"]] {
        let refused = planned(&same).unwrap_err();
        assert!(matches!(refused, SweepError::SamePoint { .. }), "{refused}");
    }
    // In whatever place, and whatever else is varied.
    let deadline = "services.synthetic.tasks.short.deadline=6ms,30ms,6000us";
    let refused = plan(&[AXES[0], deadline], 1).unwrap_err().to_string();
    assert!(
        refused.contains("deadline=6ms and ") && refused.contains("deadline=6000us are the same"),
        "{refused}"
    );
    // No key has two names.
    let twice = "services.synthetic.slos.00.latency=1ms";
    assert!(matches!(plan(&[twice], 1), Err(SweepError::NoKey { .. })));
}

/// However many points name a file, it is read, kept and packed once.
#[test]
fn points_share_the_files_that_they_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", "1500777ns\n"), ("b.csv", "2500777ns\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let text = TEXT.replace(
        r#"{ kind = "constant", value = "4ms" }"#,
        r#"{ kind = "samples", file = "a.csv" }"#,
    );
    let file = "services.synthetic.tasks.short.execution_time.file=a.csv,b.csv";
    let query = query(&[file, AXES[1], AXES[0]], 1);
    let sweep = Sweep::plan(&text, "small.toml", folder.path(), query).unwrap();
    assert_eq!(sweep.units(), 12);
    let parcel = String::from_utf8(sweep.to_parcel().unwrap()).unwrap();
    for content in ["1.500777ms", "2.500777ms"] {
        assert_eq!(parcel.matches(content).count(), 1, "{content}");
    }
    // Each point from its own file: alone in the queue the least takes what the file says.
    let longest = |unit: usize| -> u64 {
        let rows = sweep.rows(unit).unwrap();
        let row = rows.lines().find(|row| row.contains(",short,")).unwrap();
        row.rsplit(',').nth(4).unwrap().parse().unwrap()
    };
    let (first, second) = (longest(2), longest(8));
    assert!(
        first >= 1_500_777 && second >= first + 1_000_000,
        "{first} {second}"
    );
    // What only a later point names is missing before anything runs.
    std::fs::remove_file(folder.path().join("b.csv")).unwrap();
    let query = sweep.query.clone();
    let missing = Sweep::plan(&text, "small.toml", folder.path(), query).unwrap_err();
    assert!(missing.to_string().contains("b.csv"), "{missing}");
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
    let (_, last) = sweep.checked(3).unwrap();
    let last = &last.services["synthetic"];
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
    let mut collection = Collection::open(&sweep, &resumed).unwrap();
    for unit in [7, 0, 3] {
        collection.add(unit, sweep.rows(unit).unwrap()).unwrap();
    }
    assert_eq!(collection.missing(), [1, 2, 4, 5, 6, 8, 9, 10, 11]);
    assert!(collection.add(12, String::new()).is_err());
    assert!(matches!(
        collection.write(),
        Err(SweepError::Unfinished { finished: 3, .. })
    ));
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
