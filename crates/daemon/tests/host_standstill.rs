//! The real daemon and its watchdog, stopped by signals: what is reserved is taken back, and whoever asks
//! is told.
//!
//! Each back end needs what it needs; skips aloud where that is missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tailbound_control::takeover::{TakeoverError, end_stopped};
use tailbound_control::{Client, ClientError, Lease, RefusalKind};
use tailbound_enforcement::recover;
use tailbound_linux::cgroup;
use tailbound_linux::process::{StoppedBy, send_signal, stopped_by};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use crate::stage::{Stage, eventually};

const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

fn stop(pid: u32) {
    send_signal(pid, SIGSTOP).unwrap();
    eventually("it is stopped", || {
        matches!(stopped_by(pid), Ok(Some(_)) | Err(_))
    });
}

#[test]
fn what_a_stopped_daemon_holds_is_taken_back_whatever_enforces_it() {
    use BackendKind::{CfsQuota, DsFreeze, None, RtGroup};
    let test = "what_a_stopped_daemon_holds";
    for backend in [None, CfsQuota, RtGroup, DsFreeze] {
        let Some(mut stage) = Stage::set(test) else {
            return;
        };
        let mut client = stage.client();
        let mut request = stage.request();
        request.backend = backend;
        match client.apply(&[request], Lease::Persistent) {
            Ok(_) => {}
            Err(error) if error.refusal_kind() == Some(RefusalKind::MissingRequirement) => {
                eprintln!("SKIP {test}: needs {backend:?}: {error}");
                continue;
            }
            Err(error) => panic!("{backend:?}: {error}"),
        }
        let (daemon, watchdog) = (client.daemon_pid(), stage.watchdog(&mut client));
        stop(daemon);
        let error = Client::connect(stage.path()).unwrap_err();
        assert!(
            matches!(error, ClientError::Ended(_) | ClientError::Slow(_)),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(&format!("process {daemon}")), "{text}");
        assert!(text.contains("is stopped (state T"), "{text}");
        assert!(text.contains("watchdog"), "{text}");
        stage.expect_gone(daemon);
        stage.expect_restored();
        stage.expect_gone(watchdog);
    }
}

/// A cgroup that is thawed and removed with the test.
struct FrozenCgroup(PathBuf);

impl FrozenCgroup {
    fn of(pid: u32, below: &Path) -> io::Result<Self> {
        let group = Self(below.join(format!("tailbound-test-standstill-{pid}")));
        cgroup::make(&group.0)?;
        cgroup::move_process(pid, &group.0)?;
        fs::write(group.0.join("cgroup.freeze"), "1")?;
        Ok(group)
    }
}

impl Drop for FrozenCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let _ = cgroup::remove(&self.0);
    }
}

#[test]
fn what_a_frozen_daemon_holds_is_taken_back() {
    let test = "what_a_frozen_daemon_holds";
    let unified = cgroup::hierarchies().unwrap();
    let unified = unified.into_iter().find(|one| one.unified);
    let (Some(mut stage), Some(unified)) = (Stage::set(test), unified) else {
        eprintln!("SKIP {test}: needs cgroup v2");
        return;
    };
    let mut client = stage.client();
    let mut request = stage.request();
    // No manager, whose heartbeat would tell as well.
    request.backend = BackendKind::CfsQuota;
    match client.apply(&[request], Lease::Persistent) {
        Ok(_) => {}
        Err(error) if error.refusal_kind() == Some(RefusalKind::MissingRequirement) => {
            eprintln!("SKIP {test}: needs cfs-quota: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let (daemon, watchdog) = (client.daemon_pid(), stage.watchdog(&mut client));
    let _frozen = FrozenCgroup::of(daemon, &unified.root).unwrap();
    eventually("it is frozen", || {
        matches!(stopped_by(daemon), Ok(Some(StoppedBy::Freezer)) | Err(_))
    });
    stage.expect_gone(daemon);
    stage.expect_restored();
    stage.expect_gone(watchdog);
}

#[test]
fn one_that_is_stopped_for_a_moment_goes_on() {
    let Some(mut stage) = Stage::set("one_that_is_stopped_for_a_moment") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    for pid in [client.daemon_pid(), watchdog] {
        send_signal(pid, SIGSTOP).unwrap();
        send_signal(pid, SIGCONT).unwrap();
    }
    assert_eq!(stage.watchdog(&mut client), watchdog);
    stage.assert_reserved();
}

#[test]
fn a_stopped_watchdog_is_replaced() {
    let Some(mut stage) = Stage::set("a_stopped_watchdog_is_replaced") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    stop(watchdog);
    eventually("another watchdog watches", || {
        let status = client.status().unwrap().watchdog;
        status.restarts == 1 && status.pid.is_some_and(|pid| pid != watchdog)
    });
    stage.expect_gone(watchdog);
    stage.assert_reserved();
    let next = stage.watchdog(&mut client);
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    stage.expect_restored();
    stage.expect_gone(next);
}

#[test]
fn both_stopped_are_found_so_ended_and_undone() {
    let Some(mut stage) = Stage::set("both_stopped_are_found") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let (daemon, watchdog) = (client.daemon_pid(), stage.watchdog(&mut client));
    // Who goes on is not ended.
    let at_work = end_stopped(stage.path());
    assert!(
        matches!(at_work, Err(TakeoverError::AtWork(_))),
        "{at_work:?}"
    );
    stop(daemon);
    stop(watchdog);
    // However long it is waited: neither of them goes on.
    let error = Client::connect_within(stage.path(), Duration::from_secs(1)).unwrap_err();
    let ClientError::Slow(standstill) = &error else {
        panic!("{error:?}")
    };
    assert!(standstill.is_for_good(), "{standstill:?}");
    let text = error.to_string();
    assert!(text.contains("`tailbound revert` ends both"), "{text}");
    stage.assert_reserved();
    let mut ended = end_stopped(stage.path()).unwrap();
    ended.sort_unstable();
    let mut both = [daemon, watchdog];
    both.sort_unstable();
    assert_eq!(ended, both);
    let recovery = recover(stage.path()).unwrap();
    assert_eq!(recovery.reverted, [stage.domain()]);
    assert_eq!(stage.now(), stage.before);
    stage.expect_restored();
    assert_eq!(end_stopped(stage.path()).unwrap(), Vec::<u32>::new());
}
