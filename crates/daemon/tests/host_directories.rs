//! Real daemons of two state directories on this host, and reservations whose members end.
//!
//! Needs what the ds-freeze back end needs; skips aloud where that is missing.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tailbound_control::{Client, EndReason, Lease, Presence, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::HostCapabilities;
use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_time::Duration;

use crate::stage::{Stage, eventually, request_for};

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// A process that waits to be ended.
fn sleeper() -> Child {
    let mut command = Command::new("sleep");
    die_with_parent(command.arg("600")).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A request for 70% of the CPU that the stage uses.
fn most_of_the_cpu(pid: u32) -> ReservationRequest {
    let mut request = request_for(pid);
    request.interface.budget = Duration::from_millis(7);
    request
}

/// A daemon of another state directory.
fn daemon_of(stage: &mut Stage, directory: &Path) -> Client {
    let options = StartOptions {
        program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
        idle_time: Duration::from_secs(2),
        ..StartOptions::default()
    };
    let client = Client::connect_or_start(directory, &options).unwrap();
    stage.processes.insert(client.daemon_pid());
    client
}

#[test]
fn two_daemons_do_not_give_one_cpu_away_twice() {
    let Some(mut stage) = Stage::set("two_daemons_do_not_give_one_cpu_away_twice") else {
        return;
    };
    let (other_directory, other) = (tempfile::tempdir().unwrap(), sleeper());
    let mut first = stage.client();
    let mut second = daemon_of(&mut stage, other_directory.path());
    let ours = most_of_the_cpu(stage.busy.id());
    let theirs = most_of_the_cpu(other.id());
    first
        .apply(std::slice::from_ref(&ours), Lease::Persistent)
        .unwrap();
    let refused = |second: &mut Client, words: &[&str]| {
        let refusal = second.apply(std::slice::from_ref(&theirs), Lease::Persistent);
        let text = refusal.unwrap_err().to_string();
        for words in words {
            assert!(text.contains(words), "no {words:?} in: {text}");
        }
    };
    let directory = stage.path().canonicalize().unwrap();
    let process = format!("process {}", first.daemon_pid());
    let place = directory.to_str().unwrap();
    refused(&mut second, &["70%", place, &process]);

    // Killed with its watchdog, which is stopped before, so that nobody takes anything back.
    let watchdog = stage.watchdog(&mut first);
    send_signal(watchdog, SIGSTOP).unwrap();
    send_signal(first.daemon_pid(), SIGKILL).unwrap();
    stage.expect_gone(first.daemon_pid());
    refused(&mut second, &["70%", place, "which has died"]);
    send_signal(watchdog, SIGKILL).unwrap();
    stage.expect_gone(watchdog);
    let recovered = tailbound_enforcement::recover(stage.path()).unwrap();
    assert_eq!(recovered.reverted, [stage.domain()]);
    second.apply(&[theirs], Lease::Persistent).unwrap();
    stage.watchdog(&mut second);
    second.revert(Selection::All).unwrap();
    stage.expect_restored();
    end(other);
}

fn presence(client: &mut Client, domain: &str) -> Option<Presence> {
    let reservations = client.status().unwrap().reservations;
    let mut reservations = reservations.into_iter();
    let reservation = reservations.find(|one| one.enforced.domain == domain);
    reservation.map(|one| one.presence)
}

#[test]
fn a_reservation_of_processes_that_ended_is_released() {
    let Some(mut stage) = Stage::set("a_reservation_of_processes_that_ended_is_released") else {
        return;
    };
    let (one, two) = (sleeper(), sleeper());
    let (request, next) = (most_of_the_cpu(one.id()), most_of_the_cpu(two.id()));
    let mut client = stage.client();
    let apply = |client: &mut Client, request: &ReservationRequest| {
        client.apply(std::slice::from_ref(request), Lease::Persistent)
    };
    apply(&mut client, &request).unwrap();
    stage.watchdog(&mut client);
    assert_eq!(
        presence(&mut client, &request.domain),
        Some(Presence::InForce)
    );
    apply(&mut client, &next).unwrap_err();
    end(one);
    let mut was_shown = false;
    eventually("it is released", || {
        let now = presence(&mut client, &request.domain);
        was_shown |= matches!(
            &now,
            Some(Presence::Empty {
                released_in_ns: Some(_),
                ..
            })
        );
        now.is_none()
    });
    assert!(was_shown, "it was shown as in force until it was released");
    let ended = client.status().unwrap().ended;
    let last = ended.last().unwrap();
    assert_eq!(last.domain, request.domain);
    assert_eq!(last.reason, EndReason::Empty {});
    apply(&mut client, &next).unwrap();
    client.revert(Selection::All).unwrap();
    end(two);
}

/// A cgroup as a container's runtime makes and removes it.
struct Container {
    directory: PathBuf,
    process: Option<Child>,
}

impl Container {
    fn start(&mut self) -> u32 {
        let _made_before = std::fs::create_dir(&self.directory);
        let process = sleeper();
        let pid = process.id();
        std::fs::write(self.directory.join("cgroup.procs"), pid.to_string()).unwrap();
        self.process = Some(process);
        pid
    }

    fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            end(process);
        }
        // The kernel lets go of the members a moment after they have ended.
        eventually("its cgroup is gone", || {
            let removed = std::fs::remove_dir(&self.directory);
            removed.is_ok() || !self.directory.exists()
        });
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

#[test]
fn a_container_started_anew_under_its_path_is_under_its_reservation_again() {
    let test = "a_container_started_anew_under_its_path_is_under_its_reservation_again";
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let Some(root) = HostCapabilities::probe().cgroup_v2_root else {
        eprintln!("SKIP {test}: needs cgroup v2");
        return;
    };
    let name = format!("tailbound-test-container-{}", std::process::id());
    let mut container = Container {
        directory: root.join(&name),
        process: None,
    };
    let outside = stage.state_of(stage.busy.id());
    container.start();
    let mut request = most_of_the_cpu(stage.busy.id());
    request.target = Target::Cgroup(name.into());
    let domain = request.domain.clone();
    let mut client = stage.client();
    client.apply(&[request], Lease::Persistent).unwrap();
    stage.watchdog(&mut client);
    for _ in 0..2 {
        container.stop();
        eventually("it is waited for", || {
            matches!(
                presence(&mut client, &domain),
                Some(Presence::Waiting { .. })
            )
        });
        let pid = container.start();
        eventually("the new members are under the reservation", || {
            presence(&mut client, &domain) == Some(Presence::InForce)
        });
        let inside = stage.state_of(pid);
        assert!(inside.is_real_time(), "{inside:?}");
        assert!(!outside.is_real_time(), "{outside:?}");
    }
    client.revert(Selection::All).unwrap();
    container.stop();
}
