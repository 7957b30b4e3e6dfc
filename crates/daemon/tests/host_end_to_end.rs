//! The real daemon on this host: whoever of us is killed, and whenever, the domain is as it was
//! before within a bounded number of looks.
//!
//! Needs what the ds-freeze back end needs; skips aloud where that is missing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration as StdDuration;

use proptest::prelude::*;
use tailbound_control::{Client, ClientError, Lease, Selection, StartOptions};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{die_with_parent, process_started, send_signal};

use crate::stage::{Stage, cgroups_named, eventually, journals_in, request_for};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGSTOP: i32 = 19;
/// Set in the process that holds a lease until it is killed: the state directory.
const HOLDER_VARIABLE: &str = "TAILBOUND_TEST_HOLDS_LEASE_IN";
const HOLDER_TARGET_VARIABLE: &str = "TAILBOUND_TEST_HOLDS_LEASE_FOR";

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
fn who_asks_a_daemon_that_stands_still_gets_the_next_one() {
    let Some(mut stage) = Stage::set("who_asks_a_daemon_that_stands_still") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    send_signal(client.daemon_pid(), SIGSTOP).unwrap();
    let mut next = stage.client();
    assert_ne!(next.daemon_pid(), client.daemon_pid());
    assert_eq!(next.status().unwrap().reservations, []);
    assert!(matches!(client.status(), Err(ClientError::Closed)));
    stage.expect_restored();
    stage.expect_gone(watchdog);
}

#[test]
fn a_daemon_started_while_another_dies_takes_its_place() {
    for _ in 0..8 {
        let Some(mut stage) = Stage::set("a_daemon_started_while_another_dies") else {
            return;
        };
        let mut client = stage.client();
        client.apply(&[stage.request()], Lease::Persistent).unwrap();
        send_signal(client.daemon_pid(), SIGKILL).unwrap();
        let mut next = stage.daemon_in_foreground();
        assert_eq!(stage.now(), stage.before, "before the next one is ready");
        stage.expect_restored();
        stage.client().shutdown().unwrap();
        assert!(next.wait().unwrap().success());
    }
}

#[test]
fn interrupts_from_the_terminal_take_everything_back() {
    let Some(mut stage) = Stage::set("interrupts_from_the_terminal") else {
        return;
    };
    // The one that was started to plan ends first.
    stage.client().shutdown().unwrap();
    for pid in stage.processes.clone() {
        stage.expect_gone(pid);
    }
    let mut daemon = stage.daemon_in_foreground();
    let mut client = stage.client();
    assert_eq!(client.daemon_pid(), daemon.id());
    client.apply(&[stage.request()], Lease::Connection).unwrap();
    stage.assert_reserved();
    let watchdog = stage.watchdog(&mut client);
    // As Ctrl-C by somebody impatient: to the whole group, and more than once.
    let group = format!("-{}", daemon.id());
    for _ in 0..3 {
        let mut kill = Command::new("kill");
        // There may be nobody left to be told.
        let _ = kill
            .args(["-INT", "--", &group])
            .stderr(Stdio::null())
            .status();
    }
    let status = daemon.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(stage.now(), stage.before, "before it ended");
    stage.expect_restored();
    stage.expect_gone(watchdog);
    assert!(matches!(client.status(), Err(ClientError::Closed)));
}

#[test]
fn a_watchdog_that_stands_still_is_ended_with_the_daemon() {
    let Some(mut stage) = Stage::set("a_watchdog_that_stands_still") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    send_signal(watchdog, SIGSTOP).unwrap();
    send_signal(client.daemon_pid(), SIGTERM).unwrap();
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
    // The child is born an ordinary thread in the domain's cgroup; an audit gives it a priority of the domain.
    eventually("it is a member", || {
        stage.state_of(child).is_beside(&stage.now())
    });
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
fn a_daemon_outlives_the_service_that_started_it() {
    let Some(mut stage) = Stage::set("a_daemon_outlives_the_service") else {
        return;
    };
    // The one that was started to plan ends first.
    let planner = stage.client();
    let planner_pid = planner.daemon_pid();
    planner.shutdown().unwrap();
    stage.expect_gone(planner_pid);
    let service = Service::start(stage.path());
    let mut client = Client::connect(stage.path()).unwrap();
    stage.processes.insert(client.daemon_pid());
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    for pid in [client.daemon_pid(), watchdog] {
        assert!(!service.has(pid), "{pid} is of the service");
    }
    service.kill();
    stage.assert_reserved();
    assert_eq!(client.status().unwrap().reservations.len(), 1);
    client.revert(Selection::All).unwrap();
    stage.expect_restored();
}

#[test]
fn a_reserved_process_ends_with_its_service() {
    let Some(mut stage) = Stage::set("a_reserved_process_ends_with_its_service") else {
        return;
    };
    let mut client = stage.client();
    let service = Service::start(stage.path());
    let request = request_for(service.main.id());
    let domain = request.domain.clone();
    client.apply(&[request], Lease::Persistent).unwrap();
    assert!(stage.state_of(service.main.id()).is_real_time());
    service.kill();
    eventually("its group has gone with it", || {
        // The daemon takes back what has no members left, or does so now.
        let _gone_already = client.revert(Selection::All);
        cgroups_named(&domain).is_empty()
    });
    stage.expect_restored();
}

/// A service in a cgroup of its own, which has started a daemon.
struct Service {
    group: PathBuf,
    main: Child,
}

impl Service {
    fn start(state_directory: &Path) -> Self {
        let root = HostCapabilities::probe().cgroup_v2_root.unwrap();
        let group = root.join(format!("tailbound-test-service-{}", std::process::id()));
        std::fs::create_dir(&group).unwrap();
        let script = format!(
            "echo $$ > {0}/cgroup.procs && {1} --state-dir {2} --detach --exit-when-idle && echo started && exec sleep 600",
            group.display(),
            env!("CARGO_BIN_EXE_tailboundd"),
            state_directory.display(),
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::piped());
        let mut main = die_with_parent(&mut command).spawn().unwrap();
        let mut line = String::new();
        let stdout = main.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let service = Self { group, main };
        assert_eq!(line, "started\n");
        assert!(service.has(service.main.id()));
        service
    }

    fn has(&self, pid: u32) -> bool {
        let text = std::fs::read_to_string(self.group.join("cgroup.procs")).unwrap();
        text.lines().any(|line| line == pid.to_string())
    }

    /// Ends all that is in its group, as a service manager does.
    fn kill(mut self) {
        std::fs::write(self.group.join("cgroup.kill"), "1").unwrap();
        eventually("it has ended", || self.main.try_wait().unwrap().is_some());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.main.kill();
        let _reaped = self.main.wait();
        eventually("its group is empty", || {
            std::fs::remove_dir(&self.group).is_ok()
        });
    }
}

#[test]
fn a_daemon_told_to_end_takes_everything_back_first() {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let Some(mut stage) = Stage::set("a_daemon_told_to_end") else {
            return;
        };
        let mut client = stage.client();
        client.apply(&[stage.request()], Lease::Persistent).unwrap();
        let watchdog = stage.watchdog(&mut client);
        send_signal(client.daemon_pid(), signal).unwrap();
        stage.expect_gone(client.daemon_pid());
        assert_eq!(stage.now(), stage.before, "before it ended");
        assert_eq!(journals_in(stage.path()), [] as [PathBuf; 0]);
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
        .args([
            "--exact",
            "host_end_to_end::a_client_killed_with_a_lease_loses_it",
        ])
        .env(HOLDER_VARIABLE, stage.path())
        .env(HOLDER_TARGET_VARIABLE, stage.busy.id().to_string())
        .stdout(Stdio::null());
    let mut holder = die_with_parent(&mut command).spawn().unwrap();
    eventually("the holder has its reservation", || {
        !client.status().unwrap().reservations.is_empty()
    });
    stage.assert_reserved();
    assert_ne!(cgroups_named(&stage.domain()), [] as [PathBuf; 0]);
    assert_ne!(journals_in(stage.path()), [] as [PathBuf; 0]);
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
    eventually("the daemon has ended", || process_started(daemon).is_err());
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
