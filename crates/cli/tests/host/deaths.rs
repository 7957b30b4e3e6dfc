//! SIGKILL of the command at random moments of a run: the host comes back as it was, and a service
//! that was there before the run goes on as before it.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tailbound_linux::process::{send_signal, state_letter};

use crate::bench::{Bench, redis_is_here, signal};

const SIGSTOP: i32 = 19;
const SIGKILL: i32 = 9;
/// How many are killed of each kind.
const DEATHS: u64 = 3;
/// A run is killed at most so long after it began, or after its reservation was made.
const MOMENT_MS_MAX: u64 = 1_200;

fn description(service: u32) -> String {
    format!(
        r#"
schema_version = 1
name = "death"

[hosts.here]
cpus = [0, 1]
housekeeping = [1]

[domains.survivor]
kind = "process"
pids = [{service}]
reservation = {{ budget = "6ms", period = "10ms", cpus = [0] }}

[domains.batch]
kind = "process"
builtin = "cpu-hog"
cpus = [0]

[services.web]
domain = "survivor"
protocol = "redis"
endpoint = "unix:web.sock"
max_in_flight = 1

[services.web.tasks.work]
arrivals = {{ kind = "periodic", period = "20ms" }}
execution_time = {{ kind = "calibrated", expected = "50us" }}
request = {{ command = ["PING"] }}

[experiment]
duration = "4s"

[[experiment.variants]]
name = "reserved"
repetitions = 8
"#
    )
}

/// A service that no run started.
struct Service(Child);

impl Service {
    fn start(bench: &Bench) -> Self {
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--unixsocket", "web.sock", "--save", ""])
            .current_dir(bench.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        tailbound_linux::process::die_with_parent(&mut command);
        let service = Self(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        while !bench.path().join("web.sock").exists() {
            assert!(Instant::now() < deadline, "the service does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        service
    }

    /// What a reservation changes: the cgroups, and the affinity and policy of the threads.
    fn standing(&self) -> BTreeSet<String> {
        let pid = self.0.id();
        let mut standing = BTreeSet::new();
        standing.insert(fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap());
        for tid in tailbound_linux::process::threads_of(pid).unwrap() {
            let affinity = tailbound_linux::scheduling::affinity_of(tid);
            let setting = tailbound_linux::scheduling::scheduling_of(tid);
            standing.insert(format!("{:?} {:?}", affinity.unwrap(), setting.unwrap()));
        }
        standing
    }

    /// Waits until all that a reservation changes is as it was.
    fn await_standing(&self, before: &BTreeSet<String>, context: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.standing() != *before {
            let now = self.standing();
            assert!(
                Instant::now() < deadline,
                "{context}: {now:?} is not {before:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error means that it has gone, which is what we want.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn random_moment(up_to_ms: u64) -> Duration {
    Duration::from_millis(RandomState::new().hash_one(up_to_ms) % up_to_ms)
}

#[test]
fn a_run_killed_at_any_moment_leaves_the_host_as_it_was() {
    let test = "deaths::run";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    if !redis_is_here(test) {
        return;
    }
    let mut service = Service::start(&bench);
    bench.write("death.toml", &description(service.0.id()));
    let before = service.standing();
    for round in 0..2 * DEATHS {
        // Short repetitions, so that calibration is short, and many, so that the run outlasts every moment.
        let shortened = ["--duration-scale", "0.25"];
        let words = [&["run", "death.toml", "--out", "out"][..], &shortened].concat();
        let mut child = bench.start(&words);
        let reserved = round % 2 == 1;
        if reserved {
            bench.until_said("measuring reserved");
            assert_ne!(service.standing(), before, "nothing is enforced");
        }
        let moment = random_moment(MOMENT_MS_MAX);
        std::thread::sleep(moment);
        assert!(child.try_wait().unwrap().is_none(), "{}", bench.said());
        signal(&child, "KILL");
        child.wait().unwrap();
        let context = format!("reserved {reserved}, killed after {moment:?}");
        eprintln!("{context}");
        service.await_standing(&before, &context);
    }
    // One that is frozen would not end at a signal that it handles.
    signal(&service.0, "TERM");
    let deadline = Instant::now() + Duration::from_secs(10);
    while service.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the service is stuck");
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.assert_clean("survivor");
}

#[test]
fn a_command_goes_with_the_one_that_reserved_for_it() {
    let Some(bench) = Bench::enforcing("deaths::command") else {
        return;
    };
    let folder = bench.path().to_str().unwrap();
    for _ in 0..DEATHS {
        let moment = random_moment(150);
        // It names the folder, by which it is found if it stays.
        let work = format!("cd {folder}; while :; do :; done");
        let command = ["run", "-b", "2ms", "-p", "10ms", "--", "sh", "-c", &work];
        let mut child = bench.start(&command);
        std::thread::sleep(moment);
        signal(&child, "KILL");
        child.wait().unwrap();
        let domain = format!("run-{}", child.id());
        eprintln!("killed after {moment:?}");
        bench.assert_clean(&domain);
    }
}

/// Waits until nobody has the number, or a process that has died.
fn await_end(process: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while state_letter(process).is_ok_and(|state| state != 'Z') {
        assert!(Instant::now() < deadline, "process {process} lives on");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn status_says_what_is_left_where_daemon_and_watchdog_were_killed_together() {
    let Some(bench) = Bench::enforcing("deaths::together") else {
        return;
    };
    if !redis_is_here("deaths::together") {
        return;
    }
    let service = Service::start(&bench);
    let before = service.standing();
    bench.write("one.toml", &description(service.0.id()));
    let applied = bench.run(&["apply", "one.toml"]);
    assert_eq!(applied.status, Some(0), "{}", applied.err);
    let mut client = bench.client().unwrap();
    let watchdog = client.status().unwrap().watchdog.pid.unwrap();
    // A watchdog that runs on for a moment after its daemon's death would take everything back in it.
    let deaths = [
        (watchdog, SIGSTOP),
        (client.daemon_pid(), SIGKILL),
        (watchdog, SIGKILL),
    ];
    for (process, number) in deaths {
        send_signal(process, number).unwrap();
    }
    for process in [client.daemon_pid(), watchdog] {
        await_end(process);
    }
    let left = bench.run(&["status"]);
    let names_it = left.err.contains("left survivor as it was");
    assert!(names_it, "{}", left.err);
    assert_eq!(bench.run(&["revert"]).status, Some(0));
    service.await_standing(&before, "after revert");
    let nothing = bench.run(&["status"]);
    assert!(
        nothing.err.contains("so nothing is in force"),
        "{}",
        nothing.err
    );
}
