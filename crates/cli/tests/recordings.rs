//! Verbs that read recordings, over recordings of invented events.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tailbound_trace::kernel::{InterruptContext, KernelEventKind, OffCpuState, ThreadSwitch};
use tailbound_trace::recording::{RecordedProcess, RecordedThread};
use tailbound_trace::synthetic::SyntheticRecording;

const MILLISECOND: u64 = 1_000_000;

/// A domain of two tasks on one CPU: `step` takes 8 ms in 40, `tick` 1 ms in 10 and comes first.
const DESCRIPTION: &str = r#"
    schema_version = 1
    name = "edge"

    [hosts.edge]
    cpus = [0, 1]
    housekeeping = [1]

    [domains.loop]
    kind = "process"
    command = ["control-loop"]
    scheduling = "rate-monotonic"
    reservation = { budget = "8ms", period = "10ms", priority = 40, cpus = [0] }

    [domains.loop.tasks.step]
    arrivals = { kind = "periodic", period = "40ms" }
    execution_time = { kind = "constant", value = "8ms" }

    [domains.loop.tasks.tick]
    arrivals = { kind = "periodic", period = "10ms" }
    execution_time = { kind = "constant", value = "1ms" }
"#;

/// A thread "step" that works for 8 ms every 40 ms, and in each job an interrupt of 100 us.
fn recording() -> SyntheticRecording {
    let mut recording = SyntheticRecording::new(1);
    recording.header.interrupt_lines.insert(24, "eth0".into());
    recording.header.processes.push(RecordedProcess {
        pid: 7,
        threads: vec![RecordedThread {
            tid: 7,
            name: "step".into(),
            cgroup: None,
        }],
        ..RecordedProcess::default()
    });
    let switch = |previous: u32, state: OffCpuState, next: u32| {
        let name = |thread: u32| if thread == 0 { "swapper/0" } else { "step" };
        KernelEventKind::ThreadSwitch(ThreadSwitch {
            previous,
            previous_name: name(previous).into(),
            state,
            next,
            next_name: name(next).into(),
            previous_rank: 120,
            next_rank: 120,
        })
    };
    let line = InterruptContext::Line(24);
    for job in 1..=50 {
        let at = job * 40 * MILLISECOND;
        let waking = KernelEventKind::Waking {
            thread: 7,
            name: "step".into(),
            target_cpu: 0,
        };
        recording.push(at, 0, 0, waking);
        recording.push(at + 5_000, 0, 0, switch(0, OffCpuState::Runnable, 7));
        let interrupted = at + MILLISECOND;
        recording.push(interrupted, 0, 7, KernelEventKind::InterruptEntry(line));
        recording.push(
            interrupted + 100_000,
            0,
            7,
            KernelEventKind::InterruptExit(line),
        );
        let end = at + 8 * MILLISECOND + 105_000;
        recording.push(end, 0, 7, switch(7, OffCpuState::Sleeping, 0));
    }
    recording
}

/// A folder with the recording and the description.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        std::fs::write(desk.path("loop.trace"), recording().to_bytes()).unwrap();
        std::fs::write(desk.path("edge.toml"), DESCRIPTION).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(Path::new(env!("CARGO_BIN_EXE_tailbound")))
            .current_dir(self.0.path())
            .args(arguments)
            .output()
            .unwrap()
    }

    /// The output of a command, which has to succeed.
    fn print(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let arguments = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&self.print(&arguments)).unwrap()
    }
}

/// The sum of a cause over all bands.
fn total(explanation: &serde_json::Value, cause: &str) -> u64 {
    let bands = explanation["bands"].as_array().unwrap().iter();
    let parts = bands.flat_map(|band| band["parts"].as_array().unwrap());
    let of_cause = parts.filter(|part| part["cause"] == cause);
    of_cause
        .map(|part| part["total_ns"].as_u64().unwrap())
        .sum()
}

#[test]
fn jobs_stand_beside_the_simulation_of_the_task_that_they_are_of() {
    let desk = Desk::new();
    let explain = [
        "explain",
        "loop.trace",
        "--description",
        "edge.toml",
        "--thread",
    ];
    for thread in ["step", "step=loop.step"] {
        let answer = desk.json(&[&explain[..], &[thread]].concat());
        let (measured, simulated) = (&answer["explanations"][0], &answer["simulated"][0]);
        assert_eq!(measured["subject"], "jobs of step");
        assert_eq!(simulated["subject"], "jobs of step");
        let jobs = |one: &serde_json::Value| one["requests"].as_u64().unwrap();
        assert_eq!(jobs(measured), 50);
        assert_eq!(total(measured, "execution"), 50 * 8 * MILLISECOND);
        assert_eq!(total(measured, "interrupt"), 50 * 100_000);
        // The simulation has the other task and a used-up budget in place of the interrupt: `tick` runs for 1 ms before
        // `step` and for 1 ms after the 2 ms until the budget comes back.
        assert_eq!(
            total(simulated, "execution"),
            jobs(simulated) * 8 * MILLISECOND
        );
        for cause in ["preempted", "budget-used-up"] {
            assert_eq!(total(simulated, cause), jobs(simulated) * 2 * MILLISECOND);
        }
    }
    let text = desk.print(&[&explain[..], &["step"]].concat());
    assert!(
        text.contains("in brackets: the simulation of the description"),
        "{text}"
    );
    let refused = desk.run(&[&explain[..], &["step=loop.stop"]].concat());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        why.contains("no task \"loop.stop\"") && why.contains("loop.step, loop.tick"),
        "{why}"
    );
    let nobody = desk.json(&["explain", "loop.trace", "--thread", "step"]);
    assert_eq!(nobody["simulated"], serde_json::json!([]));
}

#[test]
fn the_model_of_a_recording_is_a_description_that_every_verb_takes() {
    let desk = Desk::new();
    let model = desk.print(&["trace", "model", "loop.trace", "--comm", "step"]);
    assert!(model.contains("source = \"irq 24 (eth0)\""), "{model}");
    std::fs::write(desk.path("model.toml"), &model).unwrap();
    desk.print(&["check", "--elsewhere", "model.toml"]);
    let analysis = desk.json(&["analyze", "model.toml"]);
    let task = &analysis["modes"][0]["tasks"][0];
    assert_eq!(task["verdict"], "met", "{task}");
    let simulation = desk.json(&["simulate", "--duration", "2s", "model.toml"]);
    let tasks = &simulation["hosts"][0]["domains"]["cpu0"]["tasks"];
    assert_eq!(tasks[0]["released"], 50, "{tasks}");
    assert_eq!(tasks[0]["missed"], 0, "{tasks}");
}

#[test]
fn events_of_a_program_stand_among_those_of_the_kernel() {
    let desk = Desk::new();
    let events = serde_json::json!({
        "lost": 2, "clock_error_ns": 80,
        "events": [
            { "instant_ns": 41_000_000, "thread": 7, "trigger": "serve.end", "arguments": [] },
            { "instant_ns": 40_500_000, "thread": 7, "trigger": "serve.begin", "arguments": [3, 4] },
        ],
    });
    std::fs::write(desk.path("events.json"), events.to_string()).unwrap();
    let export = |to: &str, out: &str| {
        let arguments = [
            "trace",
            "export",
            "loop.trace",
            "--triggers",
            "events.json",
            "--to",
        ];
        desk.run(&[&arguments[..], &[to, "-o", out]].concat())
    };
    let noted = export("csv", "loop.csv");
    let note = String::from_utf8_lossy(&noted.stderr).into_owned();
    assert!(
        note.contains("2 events of programs, 2 lost") && note.contains("80ns"),
        "{note}"
    );
    let text = std::fs::read_to_string(desk.path("loop.csv")).unwrap();
    let of_job: Vec<&str> = text.lines().skip(1).take(5).collect();
    assert!(of_job[1].contains("sched_switch"), "{of_job:?}");
    assert_eq!(of_job[2], "40500000,,7,step,serve.begin,arguments=3 4");
    assert!(of_job[3].starts_with("41000000,") && of_job[4].starts_with("41000000,"));
    for (to, out) in [("perfetto", "loop.perfetto-trace"), ("ctf", "loop.ctf")] {
        let written = export(to, out);
        assert!(
            written.status.success(),
            "{}",
            String::from_utf8_lossy(&written.stderr)
        );
        assert!(desk.path(out).exists());
    }
    let refused = export("trace-dat", "trace.dat");
    assert_eq!(refused.status.code(), Some(1));
    std::fs::write(desk.path("events.json"), "instant_ns,thread\n").unwrap();
    let refused = export("csv", "other.csv");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        why.contains("events.json holds no events of triggers"),
        "{why}"
    );
    assert!(!desk.path("other.csv").exists());
}
