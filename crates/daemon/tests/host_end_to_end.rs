//! The real daemon on this host: whoever of us is killed, and whenever, the domain is as it was
//! before within a bounded number of looks.
//!
//! Needs what the ds-freeze back end needs; skips aloud where that is missing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration as StdDuration;

use proptest::prelude::*;
use tailbound_daemon::{Client, ClientError, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::linux_kernel::LinuxKernel;
use tailbound_enforcement::{
    Change, KernelView, ReservationRequest, SchedulingSetting, Target, recover,
};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{children_of, die_with_parent, own_thread, send_signal, started};
use tailbound_linux::scheduling::affinity_of;
use tailbound_model::{BackendKind, Cpu, CpuSet, Priority, ResourceInterface};
use tailbound_time::Duration;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;
const SIGSTOP: i32 = 19;
/// Looks at the host until something has to have happened, and the time between them.
const LOOKS: u32 = 600;
const BETWEEN_LOOKS: StdDuration = StdDuration::from_millis(20);
/// Set in the process that holds a lease until it is killed: the state directory.
const HOLDER_VARIABLE: &str = "TAILBOUND_TEST_HOLDS_LEASE_IN";
const HOLDER_TARGET_VARIABLE: &str = "TAILBOUND_TEST_HOLDS_LEASE_FOR";

/// One test at a time: they share a CPU.
static TURN: Mutex<()> = Mutex::new(());

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("not within {LOOKS} looks: {what}");
}

/// What a domain is before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    cgroup: PathBuf,
    scheduling: SchedulingSetting,
    affinity: CpuSet,
}

/// A busy process of ours, a private state directory, and whatever runs for them.
struct Stage {
    _turn: MutexGuard<'static, ()>,
    directory: tempfile::TempDir,
    busy: Child,
    kernel: LinuxKernel,
    /// Any directory of the hierarchy that the back end uses.
    hierarchy: PathBuf,
    before: State,
    processes: BTreeSet<u32>,
}

impl Stage {
    /// `None`, said aloud, where the host cannot do it.
    fn set(test: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // With SIGUSR1 it starts a child as busy as itself.
        let script = "trap '(while :; do :; done) &' USR1; while :; do :; done";
        command.args(["-c", script]);
        let busy = die_with_parent(&mut command).spawn().unwrap();
        let kernel = LinuxKernel::new().unwrap();
        let mut stage = Self {
            _turn: turn,
            directory,
            kernel,
            hierarchy: PathBuf::new(),
            before: State {
                cgroup: PathBuf::new(),
                scheduling: SchedulingSetting::Idle,
                affinity: CpuSet::new(),
            },
            processes: BTreeSet::new(),
            busy,
        };
        let planned = stage.client().plan(&[stage.request()]);
        let plans = match planned {
            Ok(plans) => plans,
            Err(error) if error.refusal_kind() == Some(RefusalKind::MissingRequirement) => {
                eprintln!("SKIP {test}: needs the ds-freeze back end: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        stage.hierarchy = plans[0]
            .changes
            .iter()
            .find_map(|change| match change {
                Change::MoveProcess { directory, .. } => directory.parent().map(Path::to_owned),
                _ => None,
            })
            .expect("ds-freeze moves the process");
        while !stage.hierarchy.is_dir() {
            stage.hierarchy.pop();
        }
        stage.before = stage.now();
        Some(stage)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn client(&mut self) -> Client {
        let options = StartOptions {
            program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
            idle_time: Duration::from_secs(2),
            ..StartOptions::default()
        };
        let client = Client::connect_or_start(self.path(), &options).unwrap();
        self.processes.insert(client.daemon_pid());
        client
    }

    fn domain(&self) -> String {
        format!("daemon-test-{}", self.busy.id())
    }

    fn request(&self) -> ReservationRequest {
        request_for(self.busy.id())
    }

    fn now(&self) -> State {
        self.state_of(self.busy.id())
    }

    /// Has the busy process start a child, and returns it.
    fn fork(&self) -> u32 {
        send_signal(self.busy.id(), SIGUSR1).unwrap();
        let children = || children_of(self.busy.id()).unwrap();
        eventually("it has a child", || !children().is_empty());
        children()[0]
    }

    fn state_of(&self, tid: u32) -> State {
        State {
            cgroup: self.kernel.cgroup_of(tid, &self.hierarchy).unwrap(),
            scheduling: self.kernel.scheduling(tid).unwrap(),
            affinity: self.kernel.affinity(tid).unwrap(),
        }
    }

    /// The watchdog's process.
    fn watchdog(&mut self, client: &mut Client) -> u32 {
        let pid = client.status().unwrap().watchdog.pid.expect("a watchdog");
        self.processes.insert(pid);
        pid
    }

    fn assert_reserved(&self) {
        let now = self.now();
        assert!(
            matches!(now.scheduling, SchedulingSetting::Fifo { .. }),
            "{now:?}"
        );
        assert_ne!(now.cgroup, self.before.cgroup);
    }

    /// As it was before, and running.
    fn expect_restored(&self) {
        eventually("the domain is as it was before", || {
            self.now() == self.before
        });
        let used = cpu_time_of_process(self.busy.id()).unwrap();
        eventually("the domain runs", || {
            cpu_time_of_process(self.busy.id()).unwrap() > used
        });
        eventually("its cgroup is gone", || {
            !self
                .hierarchy
                .join("tailbound")
                .join(self.domain())
                .exists()
        });
    }

    fn expect_gone(&self, pid: u32) {
        eventually("the process has ended", || started(pid).is_err());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in &self.processes {
            // Most have ended by now.
            let _ = send_signal(*pid, SIGKILL);
        }
        for _ in 0..LOOKS {
            if self.processes.iter().all(|pid| started(*pid).is_err()) {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        // What a failed test left; a watchdog that we do not know of may do the same.
        let _ = recover(self.path());
        let children = children_of(self.busy.id()).unwrap_or_default();
        let _ = self.busy.kill();
        for child in children {
            let _ = send_signal(child, SIGKILL);
        }
        let _ = self.busy.wait();
    }
}

fn request_for(pid: u32) -> ReservationRequest {
    // The last CPU that we may use.
    let cpu = *affinity_of(own_thread()).unwrap().last().unwrap();
    ReservationRequest {
        domain: format!("daemon-test-{pid}"),
        target: Target::Processes(vec![pid]),
        interface: ResourceInterface {
            budget: Duration::from_millis(2),
            period: Duration::from_millis(10),
            priority: Priority(40),
            cpus: [Cpu(cpu)].into(),
        },
        backend: BackendKind::DsFreeze,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn a_daemon_killed_while_it_serves_is_undone_by_its_watchdog(after_us in 0_u64..60_000) {
        let Some(mut stage) = Stage::set("a_daemon_killed_while_it_serves") else { return Ok(()) };
        let mut client = stage.client();
        client.apply(&[stage.request()], Lease::Persistent).unwrap();
        stage.assert_reserved();
        let watchdog = stage.watchdog(&mut client);
        thread::sleep(StdDuration::from_micros(after_us));
        send_signal(client.daemon_pid(), SIGKILL).unwrap();
        stage.expect_restored();
        stage.expect_gone(watchdog);
    }

    #[test]
    fn a_daemon_killed_while_it_applies_or_reverts_is_undone(after_us in 0_u64..30_000) {
        let Some(mut stage) = Stage::set("a_daemon_killed_while_it_applies") else { return Ok(()) };
        let mut client = stage.client();
        let daemon = client.daemon_pid();
        let request = stage.request();
        let busy_client = thread::spawn(move || {
            while client.apply(std::slice::from_ref(&request), Lease::Persistent).is_ok()
                && client.revert(Selection::All).is_ok() {}
        });
        thread::sleep(StdDuration::from_micros(after_us));
        send_signal(daemon, SIGKILL).unwrap();
        busy_client.join().unwrap();
        stage.expect_gone(daemon);
        stage.expect_restored();
        // A new one starts, and has nothing to complain of.
        let recovered = stage.client().status().unwrap().recovered;
        prop_assert!(recovered.failures.is_empty(), "{recovered:?}");
    }

    #[test]
    fn when_daemon_and_watchdog_are_killed_the_next_start_recovers(after_us in 0_u64..60_000) {
        let Some(mut stage) = Stage::set("when_daemon_and_watchdog_are_killed") else { return Ok(()) };
        let mut client = stage.client();
        client.apply(&[stage.request()], Lease::Persistent).unwrap();
        let watchdog = stage.watchdog(&mut client);
        thread::sleep(StdDuration::from_micros(after_us));
        // Stopped first, so that it cannot act before it is killed.
        send_signal(watchdog, SIGSTOP).unwrap();
        send_signal(client.daemon_pid(), SIGKILL).unwrap();
        stage.expect_gone(client.daemon_pid());
        send_signal(watchdog, SIGKILL).unwrap();
        stage.expect_gone(watchdog);
        stage.assert_reserved();
        let refused = Client::connect(stage.path());
        prop_assert!(matches!(refused, Err(ClientError::NotRunning { .. })), "{refused:?}");

        let recovered = stage.client().status().unwrap().recovered;
        prop_assert_eq!(recovered.reverted, [stage.domain()]);
        stage.expect_restored();
    }
}

#[test]
fn a_killed_watchdog_is_replaced_and_the_new_one_works() {
    let Some(mut stage) = Stage::set("a_killed_watchdog_is_replaced") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    for restarts in 1..=3 {
        let watchdog = stage.watchdog(&mut client);
        send_signal(watchdog, SIGKILL).unwrap();
        eventually("another watchdog watches", || {
            let status = client.status().unwrap().watchdog;
            status.restarts == restarts && status.pid.is_some_and(|pid| pid != watchdog)
        });
        stage.assert_reserved();
    }
    let watchdog = stage.watchdog(&mut client);
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    stage.expect_restored();
    stage.expect_gone(watchdog);
}

#[test]
fn a_daemon_that_stands_still_is_killed_and_undone() {
    let Some(mut stage) = Stage::set("a_daemon_that_stands_still") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    send_signal(client.daemon_pid(), SIGSTOP).unwrap();
    stage.expect_gone(client.daemon_pid());
    stage.expect_restored();
    stage.expect_gone(watchdog);
}

#[test]
fn children_started_under_a_reservation_are_put_back_too() {
    let Some(mut stage) = Stage::set("children_started_under_a_reservation") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    let child = stage.fork();
    assert_eq!(stage.state_of(child), stage.now(), "it is in the domain");
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    stage.expect_restored();
    stage.expect_gone(watchdog);
    assert_eq!(stage.state_of(child), stage.before);
    let used = cpu_time_of_process(child).unwrap();
    eventually("the child runs", || {
        cpu_time_of_process(child).unwrap() > used
    });
}

#[test]
fn a_daemon_told_to_end_takes_everything_back_first() {
    for signal in [SIGTERM, SIGINT] {
        let Some(mut stage) = Stage::set("a_daemon_told_to_end") else {
            return;
        };
        let mut client = stage.client();
        client.apply(&[stage.request()], Lease::Persistent).unwrap();
        let watchdog = stage.watchdog(&mut client);
        send_signal(client.daemon_pid(), signal).unwrap();
        stage.expect_gone(client.daemon_pid());
        assert_eq!(stage.now(), stage.before, "before it ended");
        stage.expect_restored();
        stage.expect_gone(watchdog);
        assert!(!stage.path().join("control.sock").exists());
    }
}

#[test]
fn a_client_killed_with_a_lease_loses_it() {
    if let Some(directory) = std::env::var_os(HOLDER_VARIABLE) {
        hold_lease_until_killed(Path::new(&directory));
    }
    let Some(mut stage) = Stage::set("a_client_killed_with_a_lease") else {
        return;
    };
    let mut client = stage.client();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_client_killed_with_a_lease_loses_it"])
        .env(HOLDER_VARIABLE, stage.path())
        .env(HOLDER_TARGET_VARIABLE, stage.busy.id().to_string())
        .stdout(Stdio::null());
    let mut holder = die_with_parent(&mut command).spawn().unwrap();
    eventually("the holder has its reservation", || {
        !client.status().unwrap().reservations.is_empty()
    });
    stage.assert_reserved();
    let watchdog = stage.watchdog(&mut client);
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the reservation is gone", || {
        client.status().unwrap().reservations.is_empty()
    });
    stage.expect_restored();
    assert_eq!(
        stage.watchdog(&mut client),
        watchdog,
        "nobody else was hurt"
    );

    // Idle once we leave, the daemon ends, and its watchdog with it.
    let daemon = client.daemon_pid();
    drop(client);
    stage.expect_gone(daemon);
    stage.expect_gone(watchdog);
}

fn hold_lease_until_killed(directory: &Path) -> ! {
    let target = std::env::var(HOLDER_TARGET_VARIABLE).unwrap();
    let mut client = Client::connect(directory).unwrap();
    client
        .apply(&[request_for(target.parse().unwrap())], Lease::Connection)
        .unwrap();
    loop {
        thread::sleep(StdDuration::from_secs(3600));
    }
}

#[test]
fn clients_that_come_at_once_find_one_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let options = StartOptions {
        program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
        ..StartOptions::default()
    };
    let daemons: BTreeSet<u32> = thread::scope(|scope| {
        let come = || {
            Client::connect_or_start(directory.path(), &options)
                .unwrap()
                .daemon_pid()
        };
        let clients: Vec<_> = (0..6).map(|_| scope.spawn(come)).collect();
        clients.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    Client::connect(directory.path())
        .unwrap()
        .shutdown()
        .unwrap();
    let daemon = *daemons.first().unwrap();
    eventually("the daemon has ended", || started(daemon).is_err());
}

#[test]
fn a_directory_that_cannot_be_used_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let options = StartOptions {
        program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
        ..StartOptions::default()
    };
    let error = Client::connect_or_start(&file.join("below"), &options).unwrap_err();
    assert!(error.to_string().contains("TAILBOUND_STATE_DIR"), "{error}");
}

#[test]
fn a_daemon_that_is_nowhere_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let options = StartOptions {
        program: Some("/nonexistent/tailboundd".into()),
        ..StartOptions::default()
    };
    let error = Client::connect_or_start(directory.path(), &options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot run /nonexistent/tailboundd"),
        "{error}"
    );
}
