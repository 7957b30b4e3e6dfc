//! Rows of chains, and of the tasks that messages release.
#![allow(clippy::unwrap_used)]

use std::error::Error;
use std::path::Path;

use tailbound_analysis::FORMAT;
use tailbound_assessment::chain_simulation::SimulatedTimes;
use tailbound_assessment::simulation::{SimulationQuery, simulate};
use tailbound_distribution::Interval;
use tailbound_model::InputFiles;
use tailbound_simulator::host::{HostQuery, simulate_host};
use tailbound_time::Duration;

use crate::{Sweep, SweepQuery};

/// The eye sees in the first window of a frame, and each sight releases an action in the window that opens after 5 ms.
const ARM: &str = r#"
schema_version = 1
name = "arm"
seed = 3
[hosts.here]
cpus = [0]
major_frame = "10ms"

[domains.eye]
kind = "process"
reservation = { backend = "time-partitions", cpus = [0], windows = [{ offset = "0ms", length = "2ms" }] }
[domains.eye.tasks.see]
arrivals = { kind = "periodic", period = "10ms" }
execution_time = { kind = "uniform", min = "500us", max = "1500us" }

[domains.arm]
kind = "process"
reservation = { backend = "time-partitions", cpus = [0], windows = [{ offset = "5ms", length = "3ms" }] }
[domains.arm.tasks.act]
arrivals = { kind = "sporadic", min_gap = "500us", max_gap = "1s" }
execution_time = { kind = "constant", value = "1ms" }
deadline = "10ms"

[topics.sight]
publishers = ["eye/see"]
released = ["arm/act"]
size = 8
delay = { most = "100us" }

[chains.grip]
path = ["eye/see", "arm/act"]
data_age = "16ms"
"#;

fn query(axes: &[&str], seeds: u64) -> SweepQuery {
    SweepQuery {
        axes: axes.iter().map(|axis| axis.parse().unwrap()).collect(),
        seeds,
        duration: Duration::from_secs(2),
        warm_up: Duration::from_millis(100),
        mode: None,
        variant: None,
    }
}

/// The cells of a sweep, by the names of their columns.
struct SweptCells {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl SweptCells {
    fn of(text: &str, axes: &[&str], seeds: u64) -> Self {
        let sweep = Sweep::plan(text, "arm.toml", Path::new("."), query(axes, seeds)).unwrap();
        let cells = |line: &str| line.trim_end().split(',').map(str::to_owned).collect();
        let columns: Vec<String> = cells(&sweep.header());
        let units = (0..sweep.units()).map(|unit| sweep.rows(unit).unwrap());
        let rows: Vec<Vec<String>> = units.collect::<String>().lines().map(cells).collect();
        assert!(rows.iter().all(|row| row.len() == columns.len()));
        Self { columns, rows }
    }

    fn cell<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        let at = self.columns.iter().position(|name| name == column);
        &row[at.unwrap()]
    }

    /// The cells of the rows with this value in a column.
    fn with(&self, column: &str, value: &str, wanted: &[&str]) -> Vec<Vec<&str>> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| self.cell(row, column) == value);
        rows.map(|row| wanted.iter().map(|name| self.cell(row, name)).collect())
            .collect()
    }
}

/// By its own arrivals, twice a second on average, the task would have a few jobs.
#[test]
fn messages_release_the_jobs_of_a_sweep() {
    let swept = SweptCells::of(ARM, &[], 1);
    let jobs = |task: &str| -> u64 { swept.with("task", task, &["jobs"])[0][0].parse().unwrap() };
    assert_eq!(jobs("see"), 200);
    assert!(jobs("act").abs_diff(200) <= 1, "{}", jobs("act"));
}

/// The message that the eye reads as its window opens is replaced when the action of the next frame ends: 10 + 5 + 1 ms later.
#[test]
fn a_chain_has_a_row_of_data_ages_and_one_of_reaction_times() {
    let limits = "chains.grip.data_age=15999us,16ms";
    let swept = SweptCells::of(ARM, &[limits], 1);
    let wanted = [
        "chains.grip.data_age",
        "time",
        "p50_ns",
        "max_ns",
        "verdict",
    ];
    let age = ["data-age", "16000000", "16000000"];
    let reaction = ["reaction-time", "16000000", "16000000", ""];
    let rows = swept.with("chain", "grip", &wanted);
    assert_eq!(
        rows,
        [
            [&["15999us"], &age[..], &["missed"]].concat(),
            [&["15999us"], &reaction[..]].concat(),
            [&["16ms"], &age[..], &["met"]].concat(),
            [&["16ms"], &reaction[..]].concat(),
        ]
    );
    let counts = swept.with("time", "data-age", &["jobs", "misses"]);
    assert_eq!(counts[0][0], counts[0][1], "every age is above 15.999 ms");
    assert_eq!(counts[1][1], "0");
    let places = ["host", "domain", "service", "task", "cpu_share", "growth"];
    let places = swept.with("chain", "grip", &places);
    assert!(places.iter().flatten().all(|cell| cell.is_empty()));
}

/// The times that `simulate` has for the same description and seed.
fn simulated(seed: u64) -> SimulatedTimes {
    let query = SimulationQuery {
        mode: None,
        variant: None,
        seed: Some(seed),
        warm_up: Duration::from_millis(100),
        duration: Duration::from_secs(2),
    };
    let description = FORMAT.check(&random_delays(), "arm.toml").description;
    let one_host = |query: &HostQuery<'_>| Ok::<_, Box<dyn Error>>(simulate_host(query)?);
    let answer = simulate(
        &description.unwrap(),
        &InputFiles::default(),
        &query,
        one_host,
    );
    let mut chains = answer.unwrap().chains.into_iter();
    chains.next().unwrap().outcome.unwrap()
}

/// The arm with a delay beyond its window, so that ages vary.
fn random_delays() -> String {
    ARM.replace("most = \"100us\"", "most = \"9ms\"")
}

#[test]
fn rows_of_chains_say_what_simulate_says_of_each_seed() {
    let swept = SweptCells::of(&random_delays(), &[], 2);
    for (time, of) in [
        (
            "data-age",
            (|times| times.data_age) as fn(SimulatedTimes) -> _,
        ),
        ("reaction-time", |times| times.reaction_time),
    ] {
        let wanted = ["seed", "jobs", "mean_ns", "p50_ns", "p99_ns", "max_ns"];
        let expected = [3, 4].map(|seed| {
            let values = of(simulated(seed));
            let ns =
                |interval: Option<Interval>| interval.unwrap().high.unwrap().as_nanos().to_string();
            vec![
                seed.to_string(),
                values.count().unwrap().to_string(),
                ns(values.mean()),
                ns(values.quantile(0.5)),
                ns(values.quantile(0.99)),
                ns(values.max()),
            ]
        });
        assert_ne!(expected[0][2], expected[1][2], "delays depend on the seed");
        assert_eq!(swept.with("time", time, &wanted), expected);
    }
}

/// A rate-monotonic task among others has the priority of its own arrivals, so that messages do not release it.
#[test]
fn a_chain_without_figures_has_nothing_to_tell() {
    let other = "scheduling = \"rate-monotonic\"\n[domains.arm.tasks.note]\n\
                 arrivals = { kind = \"periodic\", period = \"20ms\" }\n\
                 execution_time = { kind = \"constant\", value = \"100us\" }\n";
    let text = ARM.replace(
        "[domains.arm.tasks.act]",
        &format!("{other}[domains.arm.tasks.act]"),
    );
    let swept = SweptCells::of(&text, &[], 1);
    let wanted = ["time", "jobs", "misses", "p99_ns", "max_ns", "verdict"];
    assert_eq!(
        swept.with("chain", "grip", &wanted),
        [
            ["data-age", "", "", "", "", "nothing-to-tell"],
            ["reaction-time", "", "", "", "", ""],
        ]
    );
}
