//! Begins and ends of windows that come late, by their causes.

use std::process::{Child, Command, Stdio};
use std::thread::{Builder, park, sleep};
use std::time::{Duration, Instant};

use tailbound_enforcement::ds_freeze::WindowTotals;
use tailbound_linux::process::send_signal;

use crate::bench::Bench;

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
/// How long a cause may take to show: each is there all the time, but the host has to let it act.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program of the tests, ended with the test.
struct Program(Child);

impl Program {
    fn start(name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", name]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Two partitions of one CPU, with their processes and windows in a frame of 40 ms.
fn partitions(first: (u32, &str), second: (u32, &str)) -> String {
    let domain = |name: &str, (pid, windows): (u32, &str), priority: u32| {
        format!(
            "[domains.{name}]\nkind = \"process\"\npids = [{pid}]\nreservation = {{ backend = \"time-partitions\", cpus = [1], \
             priority = {priority}, windows = [{windows}] }}\n"
        )
    };
    format!(
        "schema_version = 1\nname = \"late\"\n[hosts.here]\ncpus = [0, 1]\nhousekeeping = [0]\nmajor_frame = \"40ms\"\n{}{}",
        domain("late-first", first, 60),
        domain("late-second", second, 50),
    )
}

/// The account of a partition's windows.
fn windows(bench: &Bench, domain: &str) -> WindowTotals {
    let status = bench.client().unwrap().status().unwrap();
    let mut held = status.reservations.into_iter();
    let held = held.find(|one| one.enforced.domain == domain).unwrap();
    held.enforced.ledger.unwrap().windows.unwrap()
}

/// Does something until the account of a partition is as wanted.
fn until(bench: &Bench, domain: &str, is_there: impl Fn(&WindowTotals) -> bool, act: impl Fn()) {
    let begin = Instant::now();
    loop {
        act();
        let seen = windows(bench, domain);
        if is_there(&seen) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{seen:?}");
    }
}

/// The kernel stops a partition thread by thread, and the next one waits for it at the same edge.
#[test]
fn a_partition_that_takes_long_to_be_stopped_makes_the_next_one_late() {
    let Some(bench) = Bench::enforcing("late_windows::by_partition") else {
        return;
    };
    let (crowd, other) = (
        Program::start("late_windows::crowd"),
        Program::start("late_windows::idle"),
    );
    let first = "{ offset = \"0ms\", length = \"20ms\" }";
    let second = "{ offset = \"20ms\", length = \"10ms\" }";
    let text = partitions((crowd.pid(), first), (other.pid(), second));
    bench.write("late.toml", &text);
    bench.run(&["apply", "late.toml"]).expect(0, &[]);
    let is_late = |seen: &WindowTotals| seen.late_by_partition.edges > 0;
    until(&bench, "late-second", is_late, || {
        sleep(Duration::from_millis(100));
    });
    drop(crowd);
    bench.run(&["revert"]).expect(0, &[]);
    bench.assert_clean("late-first");
}

/// A daemon that is stopped comes late to an edge: where its manager sleeps, as if the CPU were away, and where the manager is at work,
/// by its own fault.
#[test]
fn a_manager_that_is_stopped_at_work_is_late_by_its_own_fault() {
    let Some(bench) = Bench::enforcing("late_windows::by_manager") else {
        return;
    };
    let programs = [(), ()].map(|()| Program::start("late_windows::idle"));
    // Many edges, so that the manager is often at work.
    let windows_from = |offset_us: u64| {
        let each = (0..16).map(|index| {
            let offset_us = index * 2_500 + offset_us;
            format!("{{ offset = \"{offset_us}us\", length = \"1ms\" }}")
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let (first, second) = (windows_from(0), windows_from(1_000));
    let text = partitions((programs[0].pid(), &first), (programs[1].pid(), &second));
    bench.write("late.toml", &text);
    bench.run(&["apply", "late.toml"]).expect(0, &[]);
    let daemon = bench.client().unwrap().status().unwrap().pid;
    let is_late =
        |seen: &WindowTotals| seen.late_by_manager.edges > 0 && seen.late_by_host.edges > 0;
    until(&bench, "late-second", is_late, || {
        for _ in 0..50 {
            send_signal(daemon, SIGSTOP).unwrap();
            sleep(Duration::from_millis(3));
            send_signal(daemon, SIGCONT).unwrap();
            sleep(Duration::from_millis(2));
        }
    });
    bench.run(&["revert"]).expect(0, &[]);
    bench.assert_clean("late-first");
}

/// Threads that do nothing, more and more of them.
#[test]
#[ignore = "a program of the tests above"]
fn crowd() {
    const MOST: u32 = 24_000;
    const AT_ONCE: u32 = 250;
    for count in 0..MOST {
        let thread = Builder::new().stack_size(16 << 10);
        // As many as the host allows are enough.
        if thread
            .spawn(|| {
                loop {
                    park()
                }
            })
            .is_err()
        {
            break;
        }
        if count % AT_ONCE == 0 {
            sleep(Duration::from_millis(50));
        }
    }
    loop {
        park();
    }
}

#[test]
#[ignore = "a program of the tests above"]
fn idle() {
    loop {
        park();
    }
}
