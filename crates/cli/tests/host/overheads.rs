//! Overheads measured here, in a description, in a simulation.

use crate::bench::{Bench, signal};

const DESCRIPTION: &str = r#"
schema_version = 1
name = "own"

[hosts.local]
cpus = [0]

[domains.work]
kind = "process"
command = ["sleep", "1"]
cpus = [0]
scheduling = "fixed-priority"

[domains.work.tasks.fast]
priority = 20
arrivals = { kind = "periodic", period = "2ms" }
execution_time = { kind = "constant", value = "200us" }

[domains.work.tasks.slow]
priority = 10
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "20ms" }

"#;

/// The longest simulated response time of the task `slow`, in nanoseconds.
fn longest_of_slow_ns(bench: &Bench, file: &str) -> u64 {
    let ended = bench.run(&["simulate", file, "-d", "1s", "--format", "json", "-q"]);
    let answer: serde_json::Value = serde_json::from_str(&ended.expect(0, &[]).out).unwrap();
    let tasks = answer["hosts"][0]["domains"]["work"]["tasks"]
        .as_array()
        .unwrap();
    let slow = tasks.iter().find(|task| task["name"] == "slow").unwrap();
    slow["longest_ns"].as_u64().unwrap()
}

#[test]
fn measured_overheads_are_a_table_that_simulation_takes() {
    let test = "measured_overheads_are_a_table_that_simulation_takes";
    let bench = Bench::new();
    let measured = bench
        .run(&[
            "doctor",
            "--measure-overheads",
            "--duration",
            "40ms",
            "--format",
            "json",
            "--export-toml",
            "overheads.toml",
        ])
        .expect(0, &[]);
    let document: serde_json::Value = serde_json::from_str(&measured.out).unwrap();
    let overheads = &document["overheads"];
    let table = std::fs::read_to_string(bench.path().join("overheads.toml")).unwrap();
    assert_eq!(overheads["toml"].as_str(), Some(table.as_str()));
    if overheads["fifo"] == false {
        eprintln!("SKIP part of {test}: needs CAP_SYS_NICE");
        let missing = overheads["not_measured"].to_string();
        assert!(missing.contains("CAP_SYS_NICE"), "{missing}");
    }

    bench.write("bare.toml", DESCRIPTION);
    bench.write("whole.toml", &(DESCRIPTION.to_string() + &table));
    let checked = bench.run(&["check", "whole.toml", "--elsewhere"]);
    checked.expect(0, &["whole.toml: well-formed"]);
    // Ten jobs of `fast` and the ticks of 20 ms come between at least.
    let bare_ns = longest_of_slow_ns(&bench, "bare.toml");
    let whole_ns = longest_of_slow_ns(&bench, "whole.toml");
    let of = |name: &str| {
        let costs = overheads["costs"].as_array().unwrap();
        let cost = costs.iter().find(|cost| cost["name"] == name).unwrap();
        cost["value_ns"].as_u64().unwrap()
    };
    let interrupts_ns = 10 * of("interrupt");
    assert!(
        whole_ns >= bare_ns + interrupts_ns,
        "{bare_ns} without overheads, {whole_ns} with {overheads}"
    );
}

#[test]
fn overheads_are_written_only_where_they_are_measured() {
    let bench = Bench::new();
    let ended = bench.run(&["doctor", "--export-toml", "overheads.toml"]);
    ended.expect(1, &["--measure-overheads"]);
}

#[test]
fn overheads_are_not_measured_where_a_reservation_is_in_force() {
    let Some(bench) = Bench::enforcing("overheads::reserved") else {
        return;
    };
    let command = "echo up >&2; exec sleep 30";
    let mut child = bench.start(&[
        "run", "-b", "1ms", "-p", "10ms", "--cpus", "0", "--", "sh", "-c", command,
    ]);
    bench.until_said("up");
    let words = ["on CPU 0", "has a reservation", "tailbound revert"];
    for cpus in ["0", "1,0"] {
        let measure = [
            "doctor",
            "--measure-overheads",
            "-d",
            "20ms",
            "--cpus",
            cpus,
        ];
        bench.run(&measure).expect(1, &words);
    }
    // Asked to measure elsewhere, it does not go there by itself.
    let format = ["--format", "json"];
    let measure = ["doctor", "--measure-overheads", "-d", "20ms", "--cpus", "1"];
    let measured = bench.run(&[measure.as_slice(), &format].concat());
    let document: serde_json::Value = serde_json::from_str(&measured.expect(0, &[]).out).unwrap();
    assert_eq!(document["overheads"]["cpu"], 1);
    assert_ne!(document["overheads"]["other_cpu"], 0);
    signal(&child, "INT");
    child.wait().unwrap();
    bench.assert_clean("none");
}

#[test]
fn a_length_that_is_refused_is_refused_before_the_noise_is_sampled() {
    let bench = Bench::new();
    let measure = ["doctor", "--measure-overheads", "--duration", "2min", "-v"];
    let ended = bench
        .run(&measure)
        .expect(1, &["cannot be measured for 120s each"]);
    assert!(!ended.err.contains("sampling the noise"), "{}", ended.err);
}

/// How often it is tried to find the host calm.
const MOST_ATTEMPTS: u32 = 5;

#[test]
fn the_parts_of_a_preemption_are_about_the_whole() {
    let test = "the_parts_of_a_preemption_are_about_the_whole";
    let bench = Bench::new();
    let mut seen = Vec::new();
    for _ in 0..MOST_ATTEMPTS {
        let measure = ["doctor", "--measure-overheads", "-d", "100ms"];
        let measured = bench.run(&[measure.as_slice(), &["--format", "json"]].concat());
        let document: serde_json::Value =
            serde_json::from_str(&measured.expect(0, &[]).out).unwrap();
        let overheads = &document["overheads"];
        if overheads["fifo"] == false {
            eprintln!("SKIP {test}: needs CAP_SYS_NICE");
            return;
        }
        let parts_ns = overheads["preemption_of_parts_ns"].as_u64().unwrap();
        let costs = overheads["costs"].as_array().unwrap();
        let whole = costs.iter().find(|cost| cost["name"] == "whole preemption");
        let whole_ns = whole.unwrap()["value_ns"].as_u64().unwrap();
        seen.push((parts_ns, whole_ns));
        if parts_ns > 0 && parts_ns <= 2 * whole_ns && whole_ns <= 2 * parts_ns {
            eprintln!("{test}: parts and whole in ns: {seen:?}");
            return;
        }
    }
    panic!("parts and whole in ns, never within a factor of two: {seen:?}");
}
