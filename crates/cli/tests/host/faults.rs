//! `tailbound run FILE` when something is missing, dies or is refused.

use std::fs;

use crate::bench::{Bench, Ended, redis_is_here, signal};

/// A description of a service in the domain `NAME`, started by `PROGRAM`, reached in the folder.
fn description(name: &str, program: &str, protocol: &str) -> String {
    format!(
        r#"
schema_version = 1
name = "fault"

[hosts.here]
cpus = [0, 1]
housekeeping = [1]

[domains.{name}]
kind = "process"
{program}
reservation = {{ budget = "6ms", period = "10ms", cpus = [0] }}

[domains.batch]
kind = "process"
builtin = "cpu-hog"
cpus = [0]

[services.web]
domain = "{name}"
protocol = "{protocol}"
endpoint = "unix:web.sock"
max_in_flight = 1

[services.web.tasks.work]
arrivals = {{ kind = "periodic", period = "20ms" }}
{work}

[[services.web.slos]]
percentile = 90
latency = "1s"

[experiment]
duration = "2s"
warm_up = "100ms"

[[experiment.variants]]
name = "reserved"
repetitions = 1

[[experiment.variants]]
name = "dedicated"
backend = "dedicated"
neighbours = false
repetitions = 1
"#,
        work = if protocol == "redis" {
            "execution_time = { kind = \"calibrated\", expected = \"50us\" }\n\
             request = { command = [\"PING\"] }"
        } else {
            "execution_time = { kind = \"constant\", value = \"1ms\" }"
        },
    )
}

const SYNTHETIC: &str = "builtin = \"synthetic-service\"";
const REDIS: &str = "command = [\"redis-server\", \"--port\", \"0\", \"--unixsocket\", \"web.sock\", \
                     \"--save\", \"\"]";

fn report(bench: &Bench) -> serde_json::Value {
    let text = fs::read_to_string(bench.path().join("out/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How many repetitions of each variant the report has.
fn measured(report: &serde_json::Value) -> Vec<usize> {
    let variants = report["variants"].as_array().unwrap();
    let runs = |variant: &serde_json::Value| variant["measured"].as_array().unwrap().len();
    variants.iter().map(runs).collect()
}

/// Shortened, so that the calibration is.
const RUN: [&str; 6] = [
    "run",
    "fault.toml",
    "--out",
    "out",
    "--duration-scale",
    "0.25",
];
/// How often each variant is measured where the run has to last until something happens to it.
const REPETITIONS: usize = 8;

/// A description with so many repetitions of each variant that a test of any pace finds the run measuring.
fn long_description(name: &str, program: &str, protocol: &str) -> String {
    let text = description(name, program, protocol);
    text.replace("repetitions = 1", &format!("repetitions = {REPETITIONS}"))
}

/// A description whose first measurement is long, for what has to happen during that one.
fn slow_description(name: &str) -> String {
    let text = description(name, SYNTHETIC, "synthetic");
    text.replace("duration = \"2s\"", "duration = \"8s\"")
}

fn run(bench: &Bench) -> Ended {
    bench.run(&RUN)
}

#[test]
fn without_the_means_a_run_predicts_and_says_so() {
    let bench = Bench::new();
    bench.write("fault.toml", &description("plain", SYNTHETIC, "synthetic"));
    let mut command = bench.tailbound(&["run", "fault.toml", "--out", "out"]);
    let ended = Ended::from(
        command
            .env("TAILBOUND_WITHOUT", "sched-fifo")
            .output()
            .unwrap(),
    );
    let words = [
        "nothing was measured",
        "variant reserved cannot be enforced here",
        "SCHED_FIFO",
    ];
    ended.expect(0, &words);
    let report = report(&bench);
    assert_eq!(measured(&report), [0, 0]);
    assert!(!report["variants"][0]["simulated"].is_null());
    assert!(
        report["warnings"]
            .to_string()
            .contains("nothing was measured")
    );
    // Nothing was started, not even for a moment.
    assert!(!bench.path().join("out/logs").exists());
    bench.assert_clean("plain");
}

#[test]
fn more_than_the_host_has_is_an_error_before_anything_starts() {
    let bench = Bench::new();
    let text = description("plain", SYNTHETIC, "synthetic");
    bench.write("fault.toml", &text.replace("\"6ms\"", "\"9.99ms\""));
    run(&bench).expect(1, &["variant reserved", "CPU 0", "would fit"]);
    let elsewhere = text.replace("cpus = [0, 1]", "cpus = [0, 1, 4095]");
    bench.write(
        "fault.toml",
        &elsewhere.replace("cpus = [0] }", "cpus = [4095] }"),
    );
    run(&bench).expect(1, &["CPU 4095 is not online"]);
    assert!(!bench.path().join("out/logs").exists());
    bench.assert_clean("plain");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let Some(bench) = Bench::enforcing("faults::not_installed") else {
        return;
    };
    bench.write("fault.toml", &description("absent", REDIS, "redis"));
    let mut command = bench.tailbound(&["run", "fault.toml", "--out", "out"]);
    let ended = Ended::from(command.env("PATH", bench.path()).output().unwrap());
    ended.expect(
        1,
        &["redis-server", "domain \"absent\"", "install redis-server"],
    );
    bench.assert_clean("absent");
}

#[test]
fn a_service_that_gives_up_is_not_waited_for() {
    let Some(bench) = Bench::enforcing("faults::gives_up") else {
        return;
    };
    let gives_up = "command = [\"sh\", \"-c\", \"echo no luck; exit 7\"]";
    bench.write("fault.toml", &description("mayfly", gives_up, "redis"));
    run(&bench).expect(1, &["domain \"mayfly\"", "exit status: 7", "mayfly-0.log"]);
    let log = fs::read_to_string(bench.path().join("out/logs/mayfly-0.log")).unwrap();
    assert_eq!(log, "no luck\n");
    bench.assert_clean("mayfly");
}

#[test]
fn a_service_that_refuses_connections_is_an_error() {
    let bench = Bench::new();
    bench.write("fault.toml", &description("plain", SYNTHETIC, "synthetic"));
    // A socket that nobody listens on any more.
    drop(std::os::unix::net::UnixListener::bind(bench.path().join("web.sock")).unwrap());
    let ended = bench.run(&["measure", "fault.toml", "--duration", "200ms"]);
    ended.expect(1, &["web.sock", "refused"]);
}

#[test]
fn a_redis_killed_in_mid_run_leaves_a_report_of_what_was_measured() {
    let test = "faults::redis_killed";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    if !redis_is_here(test) {
        return;
    }
    bench.write("fault.toml", &long_description("mortal", REDIS, "redis"));
    let mut child = bench.start(&RUN);
    bench.until_said("measuring dedicated");
    let children = tailbound_linux::process::children_of(child.id()).unwrap();
    let name = |pid: &&u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let redis = children
        .iter()
        .find(|pid| name(pid).starts_with("redis-server"));
    tailbound_linux::process::send_signal(*redis.unwrap(), 9).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = bench.said();
    assert!(
        said.contains("redis-server of domain \"mortal\" ended"),
        "{said}"
    );
    assert!(said.contains("report: "), "{said}");
    let report = report(&bench);
    assert!(report["interrupted"].as_str().unwrap().contains("mortal"));
    assert!((1..REPETITIONS).contains(&measured(&report)[0]), "{said}");
    bench.assert_clean("mortal");
}

#[test]
fn a_whole_run_keeps_every_request() {
    let Some(bench) = Bench::enforcing("faults::whole") else {
        return;
    };
    bench.write("fault.toml", &description("whole", SYNTHETIC, "synthetic"));
    let arguments = [
        "run",
        "fault.toml",
        "--out",
        "out",
        "--duration-scale",
        "0.3",
    ];
    let ended = bench.run(&arguments);
    // Whether the promise was kept is for quieter hosts to say.
    assert!(matches!(ended.status, Some(0 | 2)), "{}", ended.err);
    let listed = report(&bench)["raw_data"].to_string();
    let file = "raw/reserved-web-1-requests.csv";
    assert!(listed.contains(file), "{listed}");
    let text = fs::read_to_string(bench.path().join("out").join(file)).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("task,client,intended_ns"));
    // 0.63 s at 20 ms.
    assert_eq!(lines.count(), 32);
    bench.assert_clean("whole");
}

#[test]
fn a_daemon_killed_in_mid_run_leaves_a_report_too() {
    let Some(bench) = Bench::enforcing("faults::daemon_killed") else {
        return;
    };
    bench.write("fault.toml", &slow_description("orphan"));
    let mut child = bench.start(&RUN);
    bench.until_said("measuring reserved");
    let daemon = bench.client().unwrap().daemon_pid();
    tailbound_linux::process::send_signal(daemon, 9).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = bench.said();
    assert!(
        said.contains("the reservation of orphan has ended")
            && said.contains("this measurement is not valid"),
        "{said}"
    );
    assert_eq!(measured(&report(&bench))[0], 1);
    bench.assert_clean("orphan");
}

#[test]
fn a_reservation_taken_back_in_mid_run_makes_the_measurement_invalid() {
    let Some(bench) = Bench::enforcing("faults::taken_back") else {
        return;
    };
    bench.write("fault.toml", &slow_description("robbed"));
    let mut child = bench.start(&RUN);
    bench.until_said("measuring reserved");
    bench.run(&["revert", "--all"]).expect(0, &["robbed"]);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = bench.said();
    assert!(
        said.contains("the reservation of \"robbed\" was taken back by `tailbound revert --all`")
            && said.contains("this measurement is not valid"),
        "{said}"
    );
    assert_eq!(measured(&report(&bench))[0], 1);
    bench.assert_clean("robbed");
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let Some(bench) = Bench::enforcing("faults::interrupted") else {
        return;
    };
    let text = long_description("cut", SYNTHETIC, "synthetic");
    bench.write("fault.toml", &text);
    let mut child = bench.start(&RUN);
    bench.until_said("measuring reserved");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(
        bench.said().contains("the user asked to stop"),
        "{}",
        bench.said()
    );
    let measured = measured(&report(&bench));
    let whole = (1..REPETITIONS).contains(&measured[0]) && measured[1] <= measured[0];
    assert!(whole, "{measured:?}");
    bench.assert_clean("cut");
}
