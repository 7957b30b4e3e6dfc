//! Sweeps are simulations of whole hosts; one that is killed goes on where it was, and ends with the bytes
//! of one that was not.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tailbound_distribution::Distribution;
use tailbound_simulator::host::{HostSimulation, TaskResult};

/// How often a sweep is started anew to be killed in its middle.
const ATTEMPTS: u32 = 20;

fn sweep(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/sweep.in/two-tasks.toml");
    command
        .arg("sweep")
        .arg(file)
        .args([
            "--vary",
            "domains.service.reservation.budget=3ms..9ms/100us",
        ])
        .args([
            "--vary",
            "services.synthetic.scheduling=fifo,rate-monotonic",
        ])
        .args(["--seeds", "3", "--duration", "20s", "--quiet", "--out"])
        .arg(out)
        .stdin(Stdio::null());
    command
}

/// Waits until the journal has a few units or the sweep is over; `true` if it still ran.
fn in_its_middle(child: &mut Child, journal: &Path) -> bool {
    loop {
        let units = std::fs::read_to_string(journal).map_or(0, |text| text.lines().count());
        match child.try_wait().unwrap() {
            Some(_) => return false,
            None if units > 4 => return true,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_killed_sweep_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (
        folder.path().join("whole.csv"),
        folder.path().join("killed.csv"),
    );
    let journal = folder.path().join("killed.csv.journal");
    assert!(sweep(&whole).status().unwrap().success());
    let mut cut_off = false;
    for _ in 0..ATTEMPTS {
        let mut child = sweep(&killed).spawn().unwrap();
        let running = in_its_middle(&mut child, &journal);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have ended between the look and the kill, or been about to: the results are in place before
        // the journal goes.
        cut_off = running && journal.exists() && !killed.exists();
        if cut_off {
            break;
        }
        for left in [&killed, &journal] {
            let _there_or_not = std::fs::remove_file(left);
        }
    }
    assert!(cut_off, "every sweep ended before it could be killed");
    let held = std::fs::read_to_string(&journal).unwrap().lines().count();
    assert!(held > 4);
    assert!(sweep(&killed).status().unwrap().success());
    assert_eq!(
        std::fs::read(&killed).unwrap(),
        std::fs::read(&whole).unwrap()
    );
    assert!(!journal.exists());
}

/// A virtual machine with two domains in it, a control loop above it, a service and a neighbour.
const HOST: &str = r#"
schema_version = 1
name = "host"
seed = 11
hosts.here.cpus = [0, 1]
hosts.here.overheads = { context_switch = "3us", tick = { period = "4ms", cost = "2us" } }

[domains.loop]
kind = "process"
command = ["loop"]
reservation = { derive = "virtualization-agnostic", priority = 90, cpus = [0] }
tasks.control = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "1ms" } }

[domains.machine]
kind = "qemu-vm"
reservation = { budget = "6ms", period = "10ms", cpus = [0] }

[domains.inner]
kind = "container"
inside = "machine"
reservation = { budget = "3ms", period = "10ms", cpus = [0] }
tasks.often = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "uniform", min = "1ms", max = "3ms" }, deadline = "8ms" }

[domains.service]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "4ms", period = "10ms", cpus = [1] }

[domains.hog]
kind = "process"
builtin = "cpu-hog"
cpus = [1]

[services.synthetic]
domain = "service"
protocol = "synthetic"
endpoint = "unix:s.sock"
tasks.work = { arrivals = { kind = "poisson", rate = "150/s" }, execution_time = { kind = "constant", value = "2ms" } }

[[services.synthetic.slos]]
percentile = 99
latency = "30ms"
"#;

fn simulated(file: &Path, seed: u64) -> Vec<HostSimulation> {
    let output = Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .args(["simulate", "--duration", "20s", "--warm-up", "1s"])
        .args(["--format", "json", "--quiet", "--seed", &seed.to_string()])
        .arg(file)
        .output()
        .unwrap();
    let mut answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(answer["hosts"].take()).unwrap()
}

/// What `simulate` says of the place of a row, as the row's last cells.
fn expected(host: &HostSimulation, [domain, service, task]: [&str; 3]) -> [String; 9] {
    let cell = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let times = |responses: Option<&Distribution>| {
        let upper = |p: f64| responses.and_then(|responses| responses.quantile(p)?.high);
        [0.5, 0.99].map(|p| cell(upper(p).map(|time| time.as_nanos())))
    };
    let domain = &host.domains[domain];
    if task.is_empty() {
        let mut cells: [String; 9] = Default::default();
        cells[3] = domain.cpu_share.to_string();
        cells[4] = domain.depletions.to_string();
        cells[8] = domain.growth.map_or("", |_| "demand").to_owned();
        return cells;
    }
    let about = |it: &&TaskResult| it.service.as_deref().unwrap_or("") == service;
    let tasks: Vec<&TaskResult> = domain.tasks.iter().filter(about).collect();
    let task_result = tasks.iter().find(|it| it.name == task);
    let sum = |count: fn(&TaskResult) -> u64| tasks.iter().map(|it| count(it)).sum::<u64>();
    let responses = match task_result {
        Some(task_result) => task_result.response_times.as_ref(),
        None => host.services[service].as_ref(),
    };
    let late = tasks.iter().any(|it| it.deadline_ns.is_some());
    let [half, most] = times(responses);
    // Each owner has one task here, so what is told of all of them is told of it.
    [
        cell(Some(sum(|it| it.released))),
        cell(Some(sum(|it| it.unfinished))),
        cell(late.then(|| sum(|it| it.missed))),
        task_result.map_or(String::new(), |it| it.cpu_share.to_string()),
        String::new(),
        half,
        most,
        cell(tasks.iter().filter_map(|it| it.longest_ns).max()),
        String::new(),
    ]
}

#[test]
fn rows_are_what_simulate_says_of_the_same_description_and_seed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("host.toml"), folder.path().join("o.csv"));
    std::fs::write(&file, HOST).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .arg("sweep")
        .arg(&file)
        .args(["--vary", "domains.machine.reservation.budget=6ms"])
        .args(["--seeds", "2", "--duration", "20s", "--warm-up", "1s"])
        .args(["--quiet", "--out"])
        .arg(&out)
        .status();
    assert!(status.unwrap().success());
    let text = std::fs::read_to_string(&out).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect());
    let header: Vec<&str> = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let hosts = [11, 12].map(|seed| (seed.to_string(), simulated(&file, seed)));
    let column = |name: &str| header.iter().position(|it| *it == name).unwrap();
    let names = ["jobs", "unfinished", "misses", "cpu_share", "depletions"];
    let numbers = ["p50_ns", "p99_ns", "max_ns", "growth"];
    for row in &rows {
        let seed = row[column("seed")];
        let (_, hosts) = hosts.iter().find(|(one, _)| one == seed).unwrap();
        let place = ["domain", "service", "task"].map(|name| row[column(name)]);
        let cells: Vec<&str> = names
            .iter()
            .chain(&numbers)
            .map(|it| row[column(it)])
            .collect();
        assert_eq!(cells, expected(&hosts[0], place), "{place:?} of {seed}");
    }
    // For each seed the five domains, their tasks (the hog is none), and the service.
    assert_eq!(rows.len(), 2 * (5 + 3 + 1));
    let verdicts: Vec<&str> = rows.iter().map(|row| row[column("verdict")]).collect();
    assert_eq!(verdicts.iter().filter(|it| !it.is_empty()).count(), 2);
}
