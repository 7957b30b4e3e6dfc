//! Ctrl-C ends `size` and `predict` with the best answer so far, and with a status of its own.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The exit status of a stopped analysis.
const STOPPED: i32 = 3;
/// The most starts of a command.
const ATTEMPTS: usize = 4;
/// A law with a long tail, whose analysis is still under way when the signal comes.
const LOAD: [&str; 4] = [
    "--execution-time",
    "lognormal:median=2ms,p99=9ms",
    "--rate",
    "150/s",
];

/// Whether the process catches signal number `signal` by now.
fn catches(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & (1 << (signal - 1)) != 0
}

/// The end of a command that gets a signal as soon as it catches it. One that was done before that, since the host
/// held up the test, tells nothing: another is started.
fn stopped(arguments: &[&str], signal: (&str, u32)) -> Output {
    let mut ends = (0..ATTEMPTS).map(|_| ended_by(arguments, signal));
    let end = ends.find(|output| !output.status.success());
    end.expect("no command was at work when its signal came")
}

fn ended_by(arguments: &[&str], (name, signal): (&str, u32)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    command
        .args(arguments)
        .args(LOAD)
        .args(["--format", "json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    while !catches(child.id(), signal) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The signal fails if the command has ended, whose parent we still are.
    let _ended = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(STOPPED), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tailbound: stopped: "), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_stopped_sizing_tells_the_periods_that_are_open() {
    let arguments = ["size", "--slo", "p99=40ms", "--period", "50ms..100ms"];
    let answer = json(&stopped(&arguments, ("INT", 2)));
    let open = answer["open_periods_ns"].as_array().unwrap();
    assert!(!open.is_empty() && open.len() <= 20, "{answer}");
}

#[test]
fn a_stopped_prediction_is_a_wider_bracket() {
    let arguments = [
        "predict",
        "-b",
        "50ms",
        "-p",
        "100ms",
        "--percentiles",
        "99",
    ];
    let answer = json(&stopped(&arguments, ("TERM", 15)));
    let answer = &answer["answers"][0];
    assert_eq!(answer["is_stopped"], true);
    assert_eq!(answer["evidence"], "bound");
    let p99 = &answer["quantiles"][0];
    let end = |key: &str| p99[key].as_u64().unwrap();
    // A whole computation encloses it between 34.7 and 41.1 ms.
    assert!(
        end("low_ns") < 34_700_000 && end("high_ns") > 41_100_000,
        "{p99}"
    );
}
