//! Time partitions under the real daemon on this host: whoever of us is killed, and whenever, all partitions run again and
//! are as they were before.
//!
//! Needs what the time-partitions back end needs; skips aloud where that is missing.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration as StdDuration;

use proptest::prelude::*;
use tailbound_control::{Client, ClientError, Lease, Selection};
use tailbound_enforcement::ReservationRequest;
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_model::{BackendKind, Window};
use tailbound_time::Duration;

use crate::stage::{Stage, State, cgroups_named, eventually, request_for};

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// The cycle of the windows, and the longest time after which a process of ours is killed: two cycles.
const FRAME: Duration = Duration::from_millis(50);
const TWO_FRAMES_US: u64 = 100_000;

/// Two time partitions on one CPU: the busy process of a stage, and another one.
struct PartitionStage {
    stage: Stage,
    other: Child,
    other_before: State,
}

impl PartitionStage {
    fn set(test: &str) -> Option<Self> {
        let stage = Stage::set(test)?;
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let other = die_with_parent(&mut command).spawn().unwrap();
        let other_before = stage.state_of(other.id());
        Some(Self {
            stage,
            other,
            other_before,
        })
    }

    fn domains(&self) -> BTreeSet<String> {
        self.requests().map(|one| one.domain).into()
    }

    /// The windows of both take turns, and some of the frame is nobody's.
    fn requests(&self) -> [ReservationRequest; 2] {
        [
            partition(self.stage.busy.id(), &[(0, 10), (25, 10)]),
            partition(self.other.id(), &[(10, 15)]),
        ]
    }

    fn apply(&mut self) -> Client {
        let mut client = self.stage.client();
        client.apply(&self.requests(), Lease::Persistent).unwrap();
        self.assert_reserved();
        client
    }

    fn assert_reserved(&self) {
        self.stage.assert_reserved();
        let other = self.stage.state_of(self.other.id());
        assert!(other.is_real_time(), "{other:?}");
    }

    /// Both are as they were before, both run, and the kernel has nothing left of either.
    fn expect_restored(&self) {
        self.stage.expect_restored();
        let pid = self.other.id();
        eventually("the other partition is as it was before", || {
            self.stage.state_of(pid) == self.other_before
        });
        let used = cpu_time_of_process(pid).unwrap();
        eventually("the other partition runs", || {
            cpu_time_of_process(pid).unwrap() > used
        });
        eventually("no cgroup is left", || {
            let mut names = self.domains().into_iter();
            names.all(|name| cgroups_named(&name).is_empty())
        });
    }
}

impl Drop for PartitionStage {
    fn drop(&mut self) {
        let _ended_already = self.other.kill();
        let _reaped = self.other.wait();
    }
}

fn partition(pid: u32, windows_ms: &[(u64, u64)]) -> ReservationRequest {
    let mut request = request_for(pid);
    let windows = windows_ms.iter().map(|(offset, length)| Window {
        offset: Duration::from_millis(*offset),
        length: Duration::from_millis(*length),
    });
    request.backend = BackendKind::TimePartitions;
    request.interface.windows = windows.collect();
    request.interface.period = FRAME;
    let lengths = request.interface.windows.iter().map(|one| one.length);
    request.interface.budget = lengths.sum();
    request
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(6) })]

    #[test]
    fn partitions_of_a_killed_daemon_are_thawed_by_its_watchdog(after_us in 0..TWO_FRAMES_US) {
        let set = PartitionStage::set("partitions_of_a_killed_daemon");
        let Some(mut partitions) = set else { return Ok(()) };
        let mut client = partitions.apply();
        let watchdog = partitions.stage.watchdog(&mut client);
        thread::sleep(StdDuration::from_micros(after_us));
        send_signal(client.daemon_pid(), SIGKILL).unwrap();
        partitions.expect_restored();
        partitions.stage.expect_gone(watchdog);
    }

    #[test]
    fn a_daemon_killed_while_it_makes_partitions_is_undone(after_us in 0..TWO_FRAMES_US) {
        let set = PartitionStage::set("a_daemon_killed_while_it_makes_partitions");
        let Some(mut partitions) = set else { return Ok(()) };
        let mut client = partitions.stage.client();
        let daemon = client.daemon_pid();
        let requests = partitions.requests();
        let busy_client = thread::spawn(move || {
            while client.apply(&requests, Lease::Persistent).is_ok()
                && client.revert(Selection::All).is_ok() {}
        });
        thread::sleep(StdDuration::from_micros(after_us));
        send_signal(daemon, SIGKILL).unwrap();
        busy_client.join().unwrap();
        partitions.stage.expect_gone(daemon);
        partitions.expect_restored();
        // A new one starts, and has nothing to complain of.
        let recovered = partitions.stage.client().status().unwrap().recovered;
        prop_assert!(recovered.failures.is_empty(), "{recovered:?}");
    }

    #[test]
    fn partitions_left_by_daemon_and_watchdog_are_restored_by_the_next_start(after_us in 0..TWO_FRAMES_US) {
        let set = PartitionStage::set("partitions_left_by_daemon_and_watchdog");
        let Some(mut partitions) = set else { return Ok(()) };
        let mut client = partitions.apply();
        let watchdog = partitions.stage.watchdog(&mut client);
        thread::sleep(StdDuration::from_micros(after_us));
        // Stopped first, so that it cannot act before it is killed.
        send_signal(watchdog, SIGSTOP).unwrap();
        send_signal(client.daemon_pid(), SIGKILL).unwrap();
        partitions.stage.expect_gone(client.daemon_pid());
        send_signal(watchdog, SIGKILL).unwrap();
        partitions.stage.expect_gone(watchdog);
        partitions.assert_reserved();
        let refused = Client::connect(partitions.stage.path());
        prop_assert!(matches!(refused, Err(ClientError::NotRunning { .. })), "{refused:?}");

        let recovered = partitions.stage.client().status().unwrap().recovered;
        let reverted: BTreeSet<String> = recovered.reverted.iter().cloned().collect();
        prop_assert_eq!(reverted, partitions.domains(), "{:?}", recovered.failures);
        partitions.expect_restored();
    }
}
