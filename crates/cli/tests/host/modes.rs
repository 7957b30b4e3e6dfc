//! `tailbound apply` of a description with modes, and `tailbound mode`.

use std::fs;
use std::process::{Child, Command};

use crate::bench::{Bench, Ended};

/// A process to reserve for, which ends with the test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// One domain whose budget differs between the modes, with or without an agent, whose reservation comes before it.
fn description(pid: u32, agent: &str) -> String {
    format!(
        r#"
schema_version = 1
name = "modes"
initial_mode = "run"

[hosts.here]
cpus = [0, 1]

[mode_changes]
least_gap = "1ms"

[domains.changing]
kind = "process"
pids = [{pid}]
reservation = {{ budget = "2ms", period = "10ms", priority = 80, cpus = [0] }}
{agent}

[domains.changing.tasks.work]
arrivals = {{ kind = "periodic", period = "50ms" }}
execution_time = {{ kind = "constant", value = "1ms" }}

[modes.run]

[modes.rest]
tasks = []
reservations = {{ changing = {{ budget = "1ms", period = "10ms", priority = 80, cpus = [0] }} }}
"#
    )
}

fn prepared(test: &str, agent: &str) -> Option<(Bench, Sleeper)> {
    let bench = Bench::enforcing(test)?;
    let sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    bench.write("modes.toml", &description(sleeper.id(), agent));
    Some((bench, Sleeper(sleeper)))
}

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn a_mode_is_applied_listed_and_changed() {
    let Some((bench, sleeper)) = prepared("modes::changed", "") else {
        return;
    };
    let planned = ["mode run (initial): changing 2ms every 10ms", "mode rest:"];
    bench
        .run(&["apply", "--dry-run", "modes.toml"])
        .expect(0, &planned);
    bench.run(&["mode", "list"]).expect(1, &["no daemon"]);
    bench
        .run(&["apply", "modes.toml"])
        .expect(0, &["mode run of rest, run"]);
    bench
        .run(&["mode", "last"])
        .expect(1, &["no change yet", "mode `run` holds"]);
    let set = ["mode", "set", "rest", "--export-json", "change.json"];
    bench.run(&set).expect(0, &["run -> rest: completed"]);
    let written = fs::read_to_string(bench.path().join("change.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["ending"], "completed");
    let listed = bench.run(&["mode", "list", "--format", "json"]);
    let listed = json(&listed.expect(0, &[]));
    assert_eq!(listed["mode"], "rest");
    assert_eq!(listed["domains"][0]["budget_ns"], 1_000_000);
    // The parts and the timeline are those that were told then.
    assert_eq!(listed["last_change"]["timeline"], written["timeline"]);
    let last = ["mode", "last", "--export-perfetto", "change.trace"];
    let pictures = ["--export-svg", "change.svg", "--export-html", "change.html"];
    bench
        .run(&[&last[..], &pictures].concat())
        .expect(0, &["run -> rest: completed", "in force after"]);
    let svg = fs::read_to_string(bench.path().join("change.svg")).unwrap();
    assert!(svg.contains("<title>run \u{2192} rest</title>"), "{svg}");
    assert!(bench.path().join("change.html").exists());
    let trace = fs::read(bench.path().join("change.trace")).unwrap();
    let name = b"accepted, not yet in force";
    assert!(trace.windows(name.len()).any(|bytes| bytes == name));
    bench
        .run(&["mode", "set", "fly"])
        .expect(1, &["no mode `fly`", "rest, run"]);
    bench.run(&["revert"]).expect(0, &["taken back: changing"]);
    bench.run(&["mode", "list"]).expect(1, &["tailbound apply"]);
    drop(sleeper);
    bench.assert_clean("changing");
}

#[test]
fn the_list_of_modes_shows_that_a_domain_has_no_members_any_more() {
    let Some((bench, sleeper)) = prepared("modes::without_members", "") else {
        return;
    };
    bench.run(&["apply", "modes.toml"]).expect(0, &[]);
    let in_force = ["changing", "in force"];
    bench.run(&["mode", "list"]).expect(0, &in_force);
    let listed = json(&bench.run(&["mode", "list", "--format", "json"]));
    assert_eq!(listed["domains"][0]["presence"]["state"], "in-force");
    drop(sleeper);
    let mut looks = 0;
    while !bench.run(&["mode", "list"]).out.contains("no members for") {
        looks += 1;
        assert!(looks < 200, "the daemon looks at the members often");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let listed = json(&bench.run(&["mode", "list", "--format", "json"]));
    assert_eq!(listed["domains"][0]["presence"]["state"], "empty");
    let csv = bench.run(&["mode", "list", "--format", "csv"]);
    csv.expect(0, &["agent,state", "no members for"]);
    bench.run(&["revert"]).expect(0, &["taken back: changing"]);
    bench.assert_clean("changing");
}

#[test]
fn a_change_without_its_agent_is_given_up_with_status_two() {
    let Some((bench, sleeper)) = prepared("modes::given_up", "agent = {}") else {
        return;
    };
    bench
        .run(&["apply", "modes.toml"])
        .expect(0, &["tailbound-agent --domain changing --connect unix:"]);
    let words = ["its agent is not connected", "mode `run` holds again"];
    bench.run(&["mode", "set", "rest"]).expect(2, &words);
    let listed = bench.run(&["mode", "list"]);
    listed.expect(0, &["mode run of", "not connected", "given up"]);
    bench.run(&["revert"]).expect(0, &[]);
    drop(sleeper);
    bench.assert_clean("changing");
}

#[test]
fn modes_that_the_daemon_does_not_take_leave_nothing_in_force() {
    let Some((bench, sleeper)) = prepared("modes::not_taken", "") else {
        return;
    };
    // The daemon cannot listen there.
    let obstacle = bench.path().join("state/modes.sock");
    fs::create_dir(&obstacle).unwrap();
    let words = ["the modes are not known", "what was applied is taken back"];
    bench.run(&["apply", "modes.toml"]).expect(1, &words);
    let status = bench.run(&["status", "--format", "json"]);
    let status = json(&status.expect(0, &[]));
    assert_eq!(status["reservations"], serde_json::json!([]));
    drop(sleeper);
    bench.assert_clean("changing");
}

#[test]
fn modes_are_added_and_triggers_are_listed() {
    let Some((bench, sleeper)) = prepared("modes::added", "") else {
        return;
    };
    bench
        .run(&["apply", "modes.toml"])
        .expect(0, &["mode run of rest, run"]);
    let park = r#"
[modes.park]
tasks = []
reservations = { changing = { budget = "BUDGET", period = "10ms", cpus = [0] } }
triggers = [{ kind = "condition", domain = "changing", metric = "depletions", above = 99.5, for = "1s" }]
"#;
    bench.write("large.toml", &park.replace("BUDGET", "9.9ms"));
    let too_much = ["mode park does not fit", "nothing is added"];
    bench
        .run(&["mode", "add", "large.toml"])
        .expect(2, &too_much);
    bench.write("wrong.toml", &park.replace("BUDGET", "fast"));
    bench.run(&["mode", "add", "wrong.toml"]).expect(
        1,
        &["wrong.toml:4:", "modes.park.reservations.changing.budget"],
    );
    bench
        .run(&["mode", "set", "park"])
        .expect(1, &["no mode `park`"]);
    bench.write("park.toml", &park.replace("BUDGET", "500us"));
    let added = bench.run(&["mode", "add", "park.toml", "--format", "json"]);
    let added = json(&added.expect(0, &[]));
    assert_eq!(added["added"], serde_json::json!(["park"]));
    assert_eq!(added["transitions"].as_array().unwrap().len(), 4);
    let listed = "trigger of park: depletions of changing above 99.5% for 1s; has not asked yet";
    bench.run(&["mode", "list"]).expect(0, &[listed]);
    bench
        .run(&["mode", "set", "park"])
        .expect(0, &["run -> park: completed"]);
    bench
        .run(&["mode", "add", "park.toml"])
        .expect(1, &["park.toml:2:", "there is a mode of this name already"]);
    bench.run(&["revert"]).expect(0, &[]);
    drop(sleeper);
    bench.assert_clean("changing");
}

/// A service whose budget is changed by the clock while it is measured.
const BY_SCHEDULE: &str = r#"
schema_version = 1
name = "by-schedule"
initial_mode = "full"

[hosts.here]
cpus = [0, 1]
housekeeping = [1]

[mode_changes]
least_gap = "10ms"

[domains.measured]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "6ms", period = "10ms", cpus = [0] }

[services.web]
domain = "measured"
protocol = "synthetic"
endpoint = "unix:web.sock"
max_in_flight = 1

[services.web.tasks.work]
arrivals = { kind = "periodic", period = "10ms" }
execution_time = { kind = "constant", value = "1ms" }

[[services.web.slos]]
percentile = 90
latency = "5s"

[modes.full]
triggers = [{ kind = "schedule", every = "500ms", offset = "450ms" }]

[modes.low]
reservations = { measured = { budget = "3ms", period = "10ms", cpus = [0] } }
triggers = [{ kind = "schedule", every = "500ms", offset = "200ms" }]

[experiment]
duration = "3s"
warm_up = "200ms"

[[experiment.variants]]
name = "reserved"
repetitions = 2

[[experiment.variants]]
name = "dedicated"
backend = "dedicated"
"#;

#[test]
fn modes_change_while_a_run_measures() {
    let Some(bench) = Bench::enforcing("modes::while_a_run_measures") else {
        return;
    };
    bench.write("modes.toml", BY_SCHEDULE);
    // Shortened, so that the calibration is.
    let shortened = ["--duration-scale", "0.25"];
    let run = [&["run", "modes.toml", "--out", "out"][..], &shortened].concat();
    let ended = bench.run(&run);
    ended.expect(0, &["Latencies by mode", "Mode changes", "completed"]);
    let text = fs::read_to_string(bench.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let changes = report["mode_changes"].as_array().unwrap();
    assert!(changes.len() >= 3, "{text}");
    for change in changes {
        assert_eq!(
            change["variant"], "reserved",
            "other back ends belong to no mode"
        );
        assert_eq!(change["ending"], "completed");
        assert_eq!(change["tracks"][1]["name"], "measured", "{change}");
    }
    // What was due in each mode, and in each change, is all that was answered.
    let of = |variant: usize| report["variants"][variant]["measured"].as_array().unwrap();
    for run in of(0) {
        let per_mode = run["per_mode"].as_object().unwrap();
        assert!(
            per_mode.contains_key("full") && per_mode.contains_key("low"),
            "{per_mode:?}"
        );
        let counts = per_mode.values().map(count);
        assert_eq!(counts.sum::<usize>(), count(&run["overall"]));
    }
    assert!(
        of(1)
            .iter()
            .all(|run| run["per_mode"].as_object().unwrap().is_empty())
    );
    let page = fs::read_to_string(bench.path().join("out/report.html")).unwrap();
    assert!(page.contains("id=\"mode-courses\"") && page.contains("in force"));
    bench
        .run(&["report", "out/report.json"])
        .expect(0, &["Latencies by mode", "full \u{2192} low"]);
    bench.assert_clean("measured");
}

#[test]
fn a_run_leaves_the_modes_of_an_applied_description_alone() {
    let Some((bench, _sleeper)) = prepared("modes::of_another_description", "") else {
        return;
    };
    bench.run(&["apply", "modes.toml"]).expect(0, &["mode run"]);
    bench.write("run.toml", BY_SCHEDULE);
    let run = ["run", "run.toml", "--out", "out", "--duration-scale", "0.1"];
    bench
        .run(&run)
        .expect(1, &["mode `run` holds", "`tailbound revert` ends them"]);
    bench
        .run(&["mode", "set", "rest"])
        .expect(0, &["completed"]);
    bench.run(&["revert"]).expect(0, &["changing"]);
    bench.assert_clean("measured");
}

/// The number of samples of a distribution.
fn count(distribution: &serde_json::Value) -> usize {
    distribution["shape"]["samples_ns"]
        .as_array()
        .unwrap()
        .len()
}
