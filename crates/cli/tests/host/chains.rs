//! Chains of tasks that programs of ours carry out: messages go from partition to partition, and their way is measured.

use serde_json::Value;

use crate::bench::Bench;

/// A sensor, a route and an actor. The windows of the sensor and the actor are apart, so that data wait for them.
const ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.local]
cpus = [0, 1]
housekeeping = [0]
major_frame = "10ms"
[domains.sensor]
kind = "process"
builtin = "own-tasks"
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "0ms", length = "2ms" }] }
[domains.sensor.tasks.sense]
arrivals = { kind = "periodic", period = "10ms" }
execution_time = { kind = "constant", value = "200us" }
[domains.routing]
kind = "process"
builtin = "own-tasks"
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "3ms", length = "2ms" }] }
[domains.routing.tasks.pass]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "100us" }
deadline = "10ms"
[domains.actor]
kind = "process"
builtin = "own-tasks"
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "6ms", length = "2ms" }] }
[domains.actor.tasks.act]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "200us" }
[topics.speed]
publishers = ["sensor/sense"]
released = ["routing/pass"]
size = 64
transport = "udp"
address = "127.0.0.1:7431"
quality = { history = 16 }
delay = { most = "500us" }
[topics.speed-routed]
publishers = ["routing/pass"]
subscribers = ["actor/act"]
size = 64
type_name = "speed"
transport = "udp"
address = "127.0.0.1:7432"
delay = { most = "500us" }
[routes.speed]
task = "routing/pass"
from = "speed"
to = "speed-routed"
[chains.brake]
path = ["sensor/sense", "routing/pass", "actor/act"]
data_age = "100ms"
[experiment]
duration = "1s"
warm_up = "500ms"
[[experiment.variants]]
name = "partitioned"
[[experiment.variants]]
name = "unpartitioned"
backend = "none"
"#;

/// The rows of the report about a variant, of one kind.
fn rows(report: &Value, variant: &str, (evidence, source): (&str, Value)) -> Vec<Value> {
    let rows = report["chains"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["variant"] == variant && row["evidence"] == evidence);
    rows.filter(|row| row["source"] == source)
        .cloned()
        .collect()
}

/// A figure of a time of a row, in nanoseconds.
fn figure(row: &Value, time: &str, key: &str) -> u64 {
    let mut times = row["times"].as_array().unwrap().iter();
    let time = times.find(|one| one["name"] == time).unwrap();
    time[key].as_u64().unwrap()
}

fn median(row: &Value, time: &str) -> u64 {
    figure(row, time, "median_ns")
}

/// The row of the bound, and those of the prediction and the simulation, agree with each other and with the measured row.
fn assert_layers_agree(report: &Value, measured: &Value) {
    let one = |evidence: &str, source: Value| {
        let mut rows = rows(report, "partitioned", (evidence, source));
        assert_eq!(rows.len(), 1, "{evidence}: {report:#}");
        rows.remove(0)
    };
    let bound = one("bound", Value::Null);
    let predicted = one("estimate", "prediction".into());
    let simulated = one("estimate", "simulation".into());
    let off = |other: &Value, time: &str, key: &str| {
        figure(other, time, key) as f64 / figure(&predicted, time, key) as f64 - 1.0
    };
    for time in ["data age", "data age at the output"] {
        assert!(
            off(&simulated, time, "median_ns").abs() < 0.02,
            "{report:#}"
        );
        // A host that takes CPUs away makes chains later; half of them it leaves alone.
        assert!(off(measured, time, "median_ns").abs() < 0.2, "{report:#}");
    }
    // Half of all reactions take one frame more than the others, so that their median may be either.
    assert!(
        off(&simulated, "reaction time", "p99_ns").abs() < 0.02,
        "{report:#}"
    );
    for time in ["data age", "reaction time"] {
        let longest = figure(&bound, time, "longest_ns");
        assert!(
            figure(&simulated, time, "longest_ns") <= longest,
            "{report:#}"
        );
    }
}

#[test]
fn a_run_measures_the_way_of_messages_through_partitions() {
    let Some(bench) = Bench::enforcing("chains::partitions") else {
        return;
    };
    bench.write("robot.toml", ROBOT);
    let ended = bench.run(&["run", "robot.toml", "--out", "out"]);
    assert!(matches!(ended.status, Some(0 | 2)), "{}", ended.err);
    let report = bench.path().join("out/report.json");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let partitioned = rows(&report, "partitioned", ("sample", Value::Null));
    assert_eq!(partitioned.len(), 1, "{report:#}");
    let row = &partitioned[0];
    assert_layers_agree(&report, row);
    // An output every 20 ms, and a host that loses some of them.
    assert!(row["traced"].as_u64().unwrap() > 20, "{row:#}");
    let names: Vec<&str> = row["times"]
        .as_array()
        .unwrap()
        .iter()
        .map(|time| time["name"].as_str().unwrap())
        .collect();
    let parts = [
        "sensor/sense",
        "speed",
        "routing/pass",
        "speed-routed",
        "actor/act",
    ];
    assert_eq!(names[3..], parts);
    // The windows make data wait: half of them wait no less than from window to window, less what the jobs take.
    assert!(median(row, "speed") > 1_500_000, "{row:#}");
    assert!(median(row, "speed-routed") > 1_500_000, "{row:#}");
    let unpartitioned = rows(&report, "unpartitioned", ("sample", Value::Null));
    assert!(
        median(&unpartitioned[0], "speed") < median(row, "speed"),
        "{report:#}"
    );
    let page = std::fs::read_to_string(bench.path().join("out/report.html")).unwrap();
    assert!(
        page.contains("brake: data age"),
        "the page has no plot of the chain"
    );
    assert!(bench.path().join("out/plots/chain-1-share.svg").exists());
    for task in ["sensor.sense", "routing.pass", "actor.act"] {
        let log = bench.path().join(format!("out/jobs/{task}.csv"));
        assert!(std::fs::read_to_string(log).unwrap().lines().count() > 20);
    }
    bench.assert_clean("robot");
}
