//! The agent with real tasks: processes, cgroups, units, functions.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tailbound_linux::cgroup;
use tailbound_linux::task_group::TaskGroup;
use tailbound_modes::agent::callback::{DomainCallback, SwitchedByCall};
use tailbound_modes::agent::freezer::FrozenGroup;
use tailbound_modes::agent::units::{SystemdUnit, UnitRunner};
use tailbound_modes::agent::{SwitchError, TaskEngine, TaskError, TaskTable};
use tailbound_modes::wire::{AgentMessage, HostMessage, TaskLists};
use tailbound_time::Duration;

use crate::stage::{self, Host, Process, Running, add_signalled, change, name, signalled};

#[test]
fn processes_stop_before_the_answer_and_go_on_when_told() {
    let (one, two, other) = (Process::busy(), Process::busy(), Process::busy());
    other.watched.stop().unwrap();
    let host = Host::listen();
    let table = signalled(&[("run", &[&one, &two]), ("calibrate", &[&other])]);
    let _agent = Running::start(&host, table);
    let mut peer = host.welcome(0);

    peer.expect_done(&change(1, "calibrate", &["run"], &["calibrate"]));
    one.assert_at_rest();
    two.assert_at_rest();
    stage::eventually("both are stopped", || one.is_stopped() && two.is_stopped());
    other.expect_running();

    peer.expect_done(&change(2, "run", &["calibrate"], &["run"]));
    other.assert_at_rest();
    one.expect_running();
    two.expect_running();

    peer.expect_done(&HostMessage::Withdraw { change: 2 });
    one.assert_at_rest();
    other.expect_running();
}

#[test]
fn a_process_of_many_threads_is_at_rest_when_the_answer_comes() {
    let process = Process::with_threads(16);
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("run", &[&process])]));
    let mut peer = host.welcome(0);
    for round in 0..20 {
        peer.expect_done(&change(2 * round + 1, "idle", &["run"], &[]));
        process.assert_at_rest();
        peer.expect_done(&change(2 * round + 2, "run", &[], &["run"]));
        process.expect_running();
    }
}

/// Stops and starts task "run" again and again, without a link whose latency would hide that
/// something still goes on.
fn assert_at_rest_at_once(mut table: TaskTable, process: &Process) {
    let lists = |stop: &[&str], start: &[&str]| TaskLists {
        stop: stop.iter().map(|task| name(task)).collect(),
        start: start.iter().map(|task| name(task)).collect(),
    };
    for _ in 0..40 {
        table.switch(&lists(&["run"], &[])).unwrap();
        let counted = process.counted();
        std::thread::sleep(std::time::Duration::from_micros(500));
        assert_eq!(process.counted(), counted);
        table.switch(&lists(&[], &["run"])).unwrap();
        process.expect_running();
    }
}

#[test]
fn processes_are_at_rest_as_soon_as_the_engine_says_so() {
    let process = Process::with_threads(2);
    assert_at_rest_at_once(signalled(&[("run", &[&process])]), &process);
}

#[test]
fn cgroups_are_at_rest_as_soon_as_the_engine_says_so() {
    let Some(group) = Cgroup::make("cgroups_are_at_rest") else {
        return;
    };
    let mut process = Process::with_threads(2);
    cgroup::move_process(process.pid(), group.path()).unwrap();
    let frozen = TaskGroup::open(group.path()).unwrap();
    let control = FrozenGroup::new(name("run"), frozen, Duration::from_secs(20));
    let mut table = TaskTable::new();
    table.add(name("run"), Box::new(control)).unwrap();
    assert_at_rest_at_once(table, &process);
    process.kill();
}

#[test]
fn hello_tells_which_tasks_are_started() {
    let (runs, stands) = (Process::busy(), Process::busy());
    stands.watched.stop().unwrap();
    stage::eventually("it has stopped", || stands.is_stopped());
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("a", &[&runs]), ("b", &[&stands])]));
    let (_, hello) = host.accept();
    let AgentMessage::Hello {
        domain,
        tasks,
        started,
        change,
        mode,
        ..
    } = hello
    else {
        panic!("{hello:?}");
    };
    assert_eq!((domain, change, mode), (name("camera"), 0, None));
    assert_eq!(tasks, [name("a"), name("b")]);
    assert_eq!(started, [name("a")]);
}

#[test]
fn what_was_stopped_goes_on_where_something_else_cannot_start() {
    let process = Process::busy();
    let mut table = signalled(&[("run", &[&process])]);
    let refuses = SwitchedByCall::new(name("bad"), false, |started| match started {
        true => Err("has no camera".to_owned()),
        false => Ok(()),
    });
    table.add(name("bad"), Box::new(refuses)).unwrap();
    let host = Host::listen();
    let _agent = Running::start(&host, table);
    let mut peer = host.welcome(0);
    let failing = change(1, "calibrate", &["run"], &["bad"]);
    let answer = peer.ask(&failing);
    let AgentMessage::Failed {
        change: 1,
        reason,
        rolled_back: true,
    } = &answer
    else {
        panic!("{answer:?}");
    };
    assert!(reason.as_str().contains("has no camera"), "{reason}");
    process.expect_running();
    assert_eq!(peer.ask(&failing), answer);
    peer.expect_done(&HostMessage::Withdraw { change: 1 });
    process.expect_running();
}

#[test]
fn tasks_that_ended_stop_and_do_not_start() {
    let mut process = Process::busy();
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("run", &[&process])]));
    let mut peer = host.welcome(0);
    process.kill();
    peer.expect_done(&change(1, "idle", &["run"], &[]));
    let answer = peer.ask(&change(2, "run", &[], &["run"]));
    let AgentMessage::Failed { reason, .. } = &answer else {
        panic!("{answer:?}");
    };
    assert!(reason.as_str().contains("has ended"), "{reason}");
}

#[test]
fn a_task_that_nobody_knows_changes_nothing() {
    let process = Process::busy();
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("run", &[&process])]));
    let mut peer = host.welcome(0);
    let answer = peer.ask(&change(1, "idle", &["run", "walk"], &[]));
    assert!(
        matches!(
            answer,
            AgentMessage::Failed {
                rolled_back: true,
                ..
            }
        ),
        "{answer:?}"
    );
    process.expect_running();
}

/// A cgroup that is removed with this value, after the processes in it were.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make(test: &str) -> Option<Self> {
        let hierarchies = cgroup::hierarchies().unwrap();
        let made = hierarchies
            .iter()
            .filter(|one| one.unified)
            .find_map(|one| {
                let directory = one.root.join(format!("{test}-{}", std::process::id()));
                fs::create_dir(&directory).ok().map(|()| Self(directory))
            });
        let made = made.filter(|made| made.0.join("cgroup.freeze").is_file());
        if made.is_none() {
            eprintln!("SKIP {test}: needs cgroup-v2-freezer");
        }
        made
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _thawed = fs::write(self.0.join("cgroup.freeze"), "0");
        stage::eventually("the cgroup is removed", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn cgroups_freeze_with_all_their_processes() {
    let Some(group) = Cgroup::make("cgroups_freeze_with_all_their_processes") else {
        return;
    };
    let (mut one, mut two) = (Process::busy(), Process::with_threads(8));
    for process in [&one, &two] {
        cgroup::move_process(process.pid(), group.path()).unwrap();
    }
    let control = FrozenGroup::new(
        name("log"),
        TaskGroup::open(group.path()).unwrap(),
        Duration::from_secs(20),
    );
    let mut table = TaskTable::new();
    table.add(name("log"), Box::new(control)).unwrap();
    let host = Host::listen();
    let _agent = Running::start(&host, table);
    let mut peer = host.welcome(0);
    for round in 0..20 {
        peer.expect_done(&change(2 * round + 1, "idle", &["log"], &[]));
        one.assert_at_rest();
        two.assert_at_rest();
        peer.expect_done(&change(2 * round + 2, "run", &[], &["log"]));
        one.expect_running();
        two.expect_running();
    }
    one.kill();
    two.kill();
}

#[test]
fn a_process_that_a_reservation_has_frozen_counts_as_stopped_at_once() {
    let Some(group) = Cgroup::make("a_process_that_a_reservation_has_frozen") else {
        return;
    };
    let mut process = Process::busy();
    cgroup::move_process(process.pid(), group.path()).unwrap();
    let reservation = TaskGroup::open(group.path()).unwrap();
    reservation.set_frozen(true).unwrap();
    assert!(reservation.wait_frozen(Duration::from_secs(20)).unwrap());
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("run", &[&process])]));
    let mut peer = host.welcome(0);
    // The answer does not wait for the thaw, and after that the process stays where it is.
    peer.expect_done(&change(1, "idle", &["run"], &[]));
    reservation.set_frozen(false).unwrap();
    process.assert_at_rest();
    stage::eventually("it is stopped", || process.is_stopped());
    process.kill();
}

/// A `systemctl` whose units are files, and which fails for the unit "bad" and waits for "slow".
fn units_in(folder: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\n\
         test \"$2\" = -- || exit 9\n\
         echo \"$1 $3\" >> {0}/calls\n\
         case \"$1 $3\" in\n\
         'start bad') exit 5;;\n\
         'start slow') exec sleep 60;;\n\
         'is-active '*) test -e {0}/\"$3\";;\n\
         'start '*) touch {0}/\"$3\";;\n\
         'stop '*) rm {0}/\"$3\";;\n\
         esac\n",
        folder.display()
    );
    let path = folder.join("systemctl");
    // By another process: what this one has open for writing is so in a child of another test as well, until
    // that is another program, and cannot be executed meanwhile.
    let write = format!("cat > {0} && chmod 700 {0}", path.display());
    let mut writer = Command::new("sh")
        .args(["-c", &write])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success());
    path
}

#[test]
fn units_are_stopped_and_started_and_put_back() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web"), "").unwrap();
    let systemctl = units_in(folder.path());
    let within = |limit| UnitRunner::start(systemctl.clone(), Duration::from_secs(limit)).unwrap();
    let (runner, impatient) = (within(50), within(2));
    let mut table = TaskTable::new();
    for unit in ["web", "db", "bad", "slow"] {
        let runner = if unit == "slow" { &impatient } else { &runner };
        let control = SystemdUnit::new(name(unit), unit.to_owned(), runner.clone());
        table.add(name(unit), Box::new(control)).unwrap();
    }
    let is_active = |unit: &str| folder.path().join(unit).exists();
    let host = Host::listen();
    let _agent = Running::start(&host, table);
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "a", &["web"], &["db"]));
    assert!(!is_active("web") && is_active("db"));
    for (number, culprit) in [(2, "bad"), (3, "slow")] {
        let answer = peer.ask(&change(number, "b", &["db"], &["web", culprit]));
        // "stop bad" fails as well, for there is nothing to stop: so it says.
        assert!(matches!(answer, AgentMessage::Failed { .. }), "{answer:?}");
        assert!(!is_active("web") && is_active("db"), "after {culprit}");
    }
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.contains("stop db\nstart web\nstart bad\n"), "{calls}");
}

#[test]
fn an_application_can_switch_itself() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let refuses = Arc::new(AtomicBool::new(false));
    let (record, no) = (Arc::clone(&seen), Arc::clone(&refuses));
    let engine = DomainCallback::new(
        [(name("run"), true), (name("calibrate"), false)],
        move |lists: &TaskLists| {
            record.lock().unwrap().push(lists.clone());
            match no.load(Ordering::Relaxed) {
                true => Err(SwitchError::rolled_back(TaskError::Refused {
                    task: name("run"),
                    message: "busy".to_owned(),
                })),
                false => Ok(()),
            }
        },
    );
    let host = Host::listen();
    let _agent = Running::start(&host, engine);
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "calibrate", &["run"], &["calibrate"]));
    refuses.store(true, Ordering::Relaxed);
    let answer = peer.ask(&change(2, "run", &["calibrate"], &["run"]));
    assert!(
        matches!(
            answer,
            AgentMessage::Failed {
                rolled_back: true,
                ..
            }
        ),
        "{answer:?}"
    );
    refuses.store(false, Ordering::Relaxed);
    peer.expect_done(&change(3, "run", &["calibrate"], &["run"]));
    assert!(matches!(
        peer.ask(&change(4, "x", &["run"], &["run"])),
        AgentMessage::Failed {
            rolled_back: true,
            ..
        }
    ));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].stop, [name("run")]);
    assert_eq!(seen[0].start, [name("calibrate")]);
}

#[test]
fn one_change_switches_tasks_of_several_kinds() {
    let Some(group) = Cgroup::make("one_change_switches_tasks_of_several_kinds") else {
        return;
    };
    let (process, mut grouped) = (Process::busy(), Process::busy());
    cgroup::move_process(grouped.pid(), group.path()).unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&called);
    let mut table = TaskTable::new();
    add_signalled(&mut table, "a", &[&process]);
    let frozen = TaskGroup::open(group.path()).unwrap();
    let frozen = FrozenGroup::new(name("b"), frozen, Duration::from_secs(20));
    table.add(name("b"), Box::new(frozen)).unwrap();
    let own = SwitchedByCall::new(name("c"), false, move |started| {
        seen.store(started, Ordering::Relaxed);
        Ok(())
    });
    table.add(name("c"), Box::new(own)).unwrap();
    let host = Host::listen();
    let _agent = Running::start(&host, table);
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "other", &["a", "b"], &["c"]));
    process.assert_at_rest();
    grouped.assert_at_rest();
    assert!(called.load(Ordering::Relaxed));
    peer.expect_done(&HostMessage::Withdraw { change: 1 });
    process.expect_running();
    grouped.expect_running();
    assert!(!called.load(Ordering::Relaxed));
    grouped.kill();
}
