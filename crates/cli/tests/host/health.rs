//! Health monitoring of the programs that `run` starts: a program that dies is started anew under a new reservation, and one
//! that dies again and again is stopped.

use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Bench, Ended};
use crate::isolation::isolating;

/// A sensor and an actor that stay well, and a module beside them in a partition of its own.
const ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.local]
cpus = [0, 1]
housekeeping = [0]
major_frame = "50ms"
[domains.sensor]
kind = "process"
builtin = "own-tasks"
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "0ms", length = "5ms" }] }
[domains.sensor.tasks.sense]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "200us" }
[domains.actor]
kind = "process"
builtin = "own-tasks"
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "5ms", length = "5ms" }] }
[domains.actor.tasks.act]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "200us" }
[topics.speed]
publishers = ["sensor/sense"]
subscribers = ["actor/act"]
size = 64
transport = "udp"
address = "127.0.0.1:7441"
delay = { most = "500us" }
[chains.brake]
path = ["sensor/sense", "actor/act"]
data_age = "1s"
[domains.module]
kind = "process"
command = ["sh", "module.sh"]
cpu_bound = true
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "10ms", length = "25ms" }] }
KEYS
[experiment]
duration = "6s"
warm_up = "100ms"
[[experiment.variants]]
name = "partitioned"
"#;

/// A program that dies under its reservation, until it has begun so often.
fn mortal(begins_at_last: u32) -> String {
    format!(
        "echo begun >> begun\n\
         until grep -q module /proc/self/cgroup; do sleep 0.02; done\n\
         [ $(wc -l < begun) -ge {begins_at_last} ] && exec sleep 600\n\
         exit 7\n"
    )
}

/// Runs the description with further keys of the module.
fn run(bench: &Bench, keys: &str) -> Ended {
    bench.write("robot.toml", &ROBOT.replace("KEYS", keys));
    let ended = bench.run(&["run", "robot.toml", "--out", "out"]);
    assert!(matches!(ended.status, Some(0 | 2)), "{}", ended.err);
    ended
}

/// The ends of programs in the log of health; a host that stands still misses windows, too.
fn exits(folder: &Path) -> Vec<Value> {
    let entries = log(folder).into_iter();
    entries.filter(|entry| entry["event"] == "exit").collect()
}

/// The lines of the log of health.
fn log(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("out/logs/health.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The warnings of the report about the module.
fn warnings(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("out/report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let warnings = report["warnings"].as_array().unwrap().iter();
    let warnings = warnings.filter_map(|one| one["what"].as_str());
    let of_module = warnings.filter(|what| what.contains("\"module\""));
    of_module.map(str::to_owned).collect()
}

fn chains_were_measured(folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("out/report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let mut rows = report["chains"].as_array().unwrap().iter();
    rows.any(|row| row["traced"].as_u64().is_some_and(|count| count > 20))
}

#[test]
fn a_program_that_dies_is_started_anew_under_its_reservation() {
    if let Some(bench) = Bench::enforcing("health::restart") {
        dies_and_is_started_anew(&bench, "");
    }
}

/// The supervisor ends with its program, and what is started anew is isolated again before it is reserved again.
///
/// No limit on memory: the name of its group would make the program believe that it is reserved.
#[test]
fn an_isolated_program_that_dies_is_started_anew_under_its_reservation() {
    if let Some(bench) = isolating("health::isolated_restart") {
        dies_and_is_started_anew(&bench, "isolation = {}\n");
    }
}

/// A program that dies thrice, with further keys of its domain.
fn dies_and_is_started_anew(bench: &Bench, isolation: &str) {
    bench.write("module.sh", &mortal(4));
    let health = r#"health = { exit = "restart", restarts = 5, interval = "1min" }"#;
    let ended = run(bench, &format!("{isolation}{health}"));
    let entries = exits(bench.path());
    let begun = std::fs::read_to_string(bench.path().join("begun")).unwrap();
    assert_eq!(begun.lines().count(), 4, "{entries:#?}\n{}", ended.err);
    assert_eq!(entries.len(), 3, "{entries:#?}");
    for entry in &entries {
        assert_eq!(entry["domain"], "module");
        assert_eq!(
            (&entry["event"], &entry["response"]),
            (&"exit".into(), &"restart".into())
        );
        let how = entry["endings"][0].as_str().unwrap();
        assert!(how.contains("exit status: 7"), "{how}");
    }
    let warnings = warnings(bench.path());
    assert!(warnings.contains("3 exits"), "{warnings}");
    assert!(warnings.contains("3 restarts"), "{warnings}");
    assert!(!warnings.contains("stopped"), "{warnings}");
    assert!(chains_were_measured(bench.path()), "the others run on");
    bench.assert_clean("module");
}

#[test]
fn a_program_that_dies_again_and_again_is_stopped() {
    let Some(bench) = Bench::enforcing("health::crash_loop") else {
        return;
    };
    bench.write("module.sh", &mortal(100));
    let health = r#"health = { exit = "restart", restarts = 2, interval = "1min" }"#;
    run(&bench, health);
    let entries = exits(bench.path());
    let responses: Vec<_> = entries.iter().map(|one| &one["response"]).collect();
    assert_eq!(responses, ["restart", "restart", "stop"], "{entries:#?}");
    assert_eq!(entries[2]["too_many_restarts"], true);
    let warnings = warnings(bench.path());
    assert!(warnings.contains("3 exits"), "{warnings}");
    let stopped = "2 restarts, stopped: it was restarted too often";
    assert!(warnings.contains(stopped), "{warnings}");
    assert!(chains_were_measured(bench.path()), "the others run on");
    bench.assert_clean("module");
}

#[test]
fn a_partition_whose_windows_are_missed_is_stopped_where_that_is_described() {
    let Some(bench) = Bench::enforcing("health::missed_window") else {
        return;
    };
    // Once reserved, the program says so.
    let module = "until grep -q module /proc/self/cgroup; do sleep 0.02; done\necho reserved >> begun\nexec sleep 600\n";
    bench.write("module.sh", module);
    let health = r#"health = { missed_window = "stop" }"#;
    bench.write("robot.toml", &ROBOT.replace("KEYS", health));
    let mut run = bench.start(&["run", "robot.toml", "--out", "out"]);
    let begun = bench.path().join("begun");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !begun.exists() {
        assert!(
            Instant::now() < deadline,
            "never reserved: {}",
            bench.said()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // As a hypervisor or an interrupt does: nothing else runs on the CPU for more than two frames.
    let away = std::thread::spawn(|| {
        tailbound_linux::thread::pin_current_thread(1).unwrap();
        tailbound_linux::thread::make_current_thread_fifo(99).unwrap();
        let until = Instant::now() + Duration::from_millis(150);
        while Instant::now() < until {}
    });
    away.join().unwrap();
    let status = run.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 2)), "{}", bench.said());
    let entries = log(bench.path());
    let last = entries.last().unwrap();
    assert_eq!(
        (&last["event"], &last["response"]),
        (&"missed_window".into(), &"stop".into())
    );
    assert!(
        warnings(bench.path()).contains("missed windows, stopped"),
        "{}",
        bench.said()
    );
    bench.assert_clean("module");
}

/// The bytes that the kernel copies without looking whether the writer is to be stopped: longer than a window on any machine.
const ONE_WRITE: usize = 256 << 20;

#[test]
fn a_partition_that_cannot_be_stopped_in_time_is_stopped_for_good_where_that_is_described() {
    let Some(bench) = Bench::enforcing("health::overrun") else {
        return;
    };
    let program = std::env::current_exe().unwrap();
    let words = ["--ignored", "--exact", "--nocapture", "health::writer"].join(" ");
    bench.write(
        "module.sh",
        &format!("exec {} {words}\n", program.display()),
    );
    run(&bench, r#"health = { overrun = "stop" }"#);
    let entries = log(bench.path());
    let overruns = entries.iter().filter(|entry| entry["event"] == "overrun");
    let overruns: Vec<_> = overruns.collect();
    let [overrun] = &overruns[..] else {
        panic!("{entries:#?}");
    };
    assert_eq!(overrun["domain"], "module");
    assert_eq!(overrun["response"], "stop");
    assert_eq!(overrun["too_many_restarts"], false);
    let warnings = warnings(bench.path());
    let stopped = "overrun windows, stopped: an event asks for it";
    assert!(warnings.contains(stopped), "{warnings}");
    assert!(chains_were_measured(bench.path()), "the others run on");
    bench.assert_clean("module");
}

/// Writes to memory, in system calls that nothing but SIGKILL ends.
#[test]
#[ignore = "a program of the test above"]
fn writer() {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    let zeros = vec![0; ONE_WRITE];
    loop {
        file.rewind().unwrap();
        file.write_all(&zeros).unwrap();
    }
}
