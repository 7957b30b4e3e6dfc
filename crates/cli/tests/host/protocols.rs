//! Changes of modes under each protocol, with a real agent: what the analysis says is what happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::Bench;

/// A process that ends with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn sleeper() -> Ours {
    Ours(Command::new("sleep").arg("600").spawn().unwrap())
}

/// Two tasks that take turns, beside one that stays where `stays` is told.
fn description(protocol: &str, pids: [u32; 3], stays: bool) -> String {
    let stays = if stays { "\"arm.hold\", " } else { "" };
    let pids = pids.map(|pid| pid.to_string()).join(", ");
    format!(
        r#"
schema_version = 1
name = "protocols"
initial_mode = "run"
hosts.here.cpus = [0, 1]
mode_changes = {{ protocol = "{protocol}", least_gap = "50ms", timeout = "10s" }}

[domains.arm]
kind = "process"
pids = [{pids}]
scheduling = "rate-monotonic"
reservation = {{ budget = "5ms", period = "10ms", cpus = [0] }}
agent = {{ place = "outside" }}
tasks.move = {{ arrivals = {{ kind = "periodic", period = "60ms" }}, execution_time = {{ kind = "constant", value = "8ms" }} }}
tasks.look = {{ arrivals = {{ kind = "periodic", period = "50ms" }}, execution_time = {{ kind = "constant", value = "4ms" }} }}
tasks.hold = {{ arrivals = {{ kind = "periodic", period = "80ms" }}, execution_time = {{ kind = "constant", value = "2ms" }} }}

[modes.run]
tasks = [{stays}"arm.move"]

[modes.rest]
tasks = [{stays}"arm.look"]
reservations.arm = {{ budget = "4ms", period = "10ms", cpus = [0] }}
"#
    )
}

/// The agent beside `tailboundd`, where both are built.
fn agent(bench: &Bench) -> Option<PathBuf> {
    let daemon = bench.tailbound(&[]);
    let named = daemon
        .get_envs()
        .find(|(name, _)| *name == "TAILBOUND_TAILBOUNDD");
    let agent = Path::new(named?.1?).with_file_name("tailbound-agent");
    agent.exists().then_some(agent)
}

fn json(bench: &Bench, words: &[&str]) -> Value {
    let ended = bench.run(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&ended.expect(0, &[]).out).unwrap()
}

/// The instants of one step of the change, in ns.
fn instants(change: &Value, step: &str) -> Vec<u64> {
    let steps = change["timeline"]["steps"].as_array().unwrap();
    let of_kind = steps.iter().filter(|one| one["step"] == step);
    of_kind.map(|one| one["at_ns"].as_u64().unwrap()).collect()
}

fn changed(bench: &Bench, mode: &str) -> Value {
    let set = ["mode", "set", mode, "--export-json", "change.json"];
    bench.run(&set).expect(0, &["completed"]);
    let text = fs::read_to_string(bench.path().join("change.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Applies, connects an agent, and changes to `rest` and back.
fn to_and_fro(bench: &Bench, agent: &Path, protocol: &str, stays: bool) {
    let tasks = [sleeper(), sleeper(), sleeper()];
    let pids = [0, 1, 2].map(|index: usize| tasks[index].0.id());
    bench.write("arm.toml", &description(protocol, pids, stays));
    let checked = json(bench, &["check", "arm.toml"]);
    bench.run(&["apply", "arm.toml"]).expect(0, &["mode run"]);
    let listed = json(bench, &["mode", "list"]);
    let socket = format!("unix:{}", listed["socket"].as_str().unwrap());
    let mut command = Command::new(agent);
    command.args(["--domain", "arm", "--connect", &socket]);
    for (name, pid) in ["move", "look", "hold"].iter().zip(pids) {
        command.args(["--task", &format!("{name}=pid:{pid}")]);
    }
    let connected = Ours(command.stderr(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while bench.run(&["mode", "list"]).out.contains("not connected") {
        assert!(Instant::now() < deadline, "the agent does not connect");
        std::thread::sleep(Duration::from_millis(20));
    }
    for (from, to) in [("run", "rest"), ("rest", "run")] {
        let protocols = checked["protocols"].as_array().cloned().unwrap_or_default();
        let of_it = |one: &&Value| one["from"] == from && one["to"] == to;
        let offset = protocols.iter().find(of_it).map(|one| {
            assert_eq!(one["protocol"], protocol);
            assert_eq!(one["schedulable"], true, "{one}");
            one["offset_ns"].as_u64().unwrap_or(0)
        });
        assert_eq!(offset.is_none(), protocol == "none");
        let change = changed(bench, to);
        let (sent, answered) = (instants(&change, "sent"), instants(&change, "acknowledged"));
        match offset {
            // One message: the agent starts nothing before all is stopped.
            None | Some(0) => assert_eq!(sent.len(), 1, "{change}"),
            Some(offset_ns) => {
                assert_eq!((sent.len(), answered.len()), (2, 2), "{change}");
                assert!(sent[1] >= answered[0] + offset_ns, "{offset_ns}: {change}");
            }
        }
        let waits = protocol != "none" && (stays || protocol != "idle-time");
        assert_eq!(offset.unwrap_or(0) > 0, waits, "{protocols:?}");
    }
    bench.run(&["revert"]).expect(0, &[]);
    drop((connected, tasks));
}

#[test]
fn no_task_starts_before_the_offset_that_check_tells() {
    let Some(bench) = Bench::enforcing("protocols::offsets") else {
        return;
    };
    let Some(agent) = agent(&bench) else {
        eprintln!("SKIP protocols::offsets: needs tailbound-agent beside tailboundd");
        return;
    };
    for protocol in [
        "none",
        "idle-time",
        "maximum-period-offset",
        "minimum-single-offset",
    ] {
        to_and_fro(&bench, &agent, protocol, protocol == "idle-time");
    }
    to_and_fro(&bench, &agent, "idle-time", false);
    bench.assert_clean("arm");
}

#[test]
fn what_a_protocol_does_not_cover_is_told_and_not_applied() {
    let bench = Bench::new();
    let text = description("idle-time", [1, 2, 3], true);
    let text = text.replace("scheduling = \"rate-monotonic\"\n", "");
    bench.write("arm.toml", &text);
    let checked = bench.run(&["check", "arm.toml"]);
    checked.expect(
        2,
        &[
            "is not shown to keep the deadlines of arm",
            "fixed priorities",
        ],
    );
    bench.write("arm.toml", &description("idle-time", [1, 2, 3], true));
    let words = ["idle-time", "taken for granted", "new tasks start after"];
    bench.run(&["check", "arm.toml"]).expect(0, &words);
}
