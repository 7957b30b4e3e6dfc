//! Nobody leaves a reservation: escapes on the host, under `ds-freeze`, each with the kernel that we run on.
//!
//! These need root, a writable cgroup v2 and two CPUs, and say so when they cannot run. They assert shares
//! and settings, never times.

mod program;

use std::path::Path;

use program::{Program, Role};
use tailbound_enforcement::audit::AuditSummary;
use tailbound_enforcement::{Backend, Enforcer, ReservationRequest, Target, backends};
use tailbound_linux::capabilities::Feature;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::process::{children_of, started, threads_of};
use tailbound_linux::scheduling::{SchedulingSetting, affinity_of, scheduling_of};
use tailbound_linux::{HostCapabilities, cgroup};
use tailbound_model::{BackendKind, BackendOptions, Cpu, Priority, ResourceInterface};
use tailbound_time::{Clock, Duration};

const DOMAIN: &str = "escape";
const BUDGET: Duration = Duration::from_millis(2);
const PERIOD: Duration = Duration::from_millis(10);
const PRIORITY: u8 = 50;
/// Longer than any test; programs end by themselves.
const AT_MOST: Duration = Duration::from_secs(60);

/// What the host can do, or a loud skip.
fn host_for(test: &str, hidden: &[Feature]) -> Option<HostCapabilities> {
    let host = HostCapabilities::probe().without(hidden);
    let missing = backends::DsFreeze.missing(&host);
    let needed = match missing.first() {
        Some(missing) => missing.needed.clone(),
        None if host.uid != 0 => "root".into(),
        None if host.online_cpus.len() < 2 => "two CPUs".into(),
        None => return Some(host),
    };
    eprintln!("SKIP {test}: needs {needed}");
    None
}

/// A domain of 20% on the first CPU.
struct Stage {
    enforcer: Enforcer,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn reserve(host: &HostCapabilities, pid: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::with_host(host.clone(), directory.path().into()).unwrap();
        let request = ReservationRequest {
            domain: DOMAIN.into(),
            target: Target::Processes(vec![pid]),
            interface: ResourceInterface {
                budget: BUDGET,
                period: PERIOD,
                priority: Priority(PRIORITY),
                cpus: [Cpu(home(host))].into(),
            },
            backend: BackendKind::DsFreeze,
            options: BackendOptions::default(),
        };
        enforcer.apply(&[request]).unwrap();
        let _directory = directory;
        Self {
            enforcer,
            _directory,
        }
    }

    fn audit(&self) -> AuditSummary {
        self.enforcer.status().domains[0].audit.clone().unwrap()
    }
}

fn home(host: &HostCapabilities) -> u32 {
    host.online_cpus.first().copied().unwrap()
}

fn elsewhere(host: &HostCapabilities) -> u32 {
    host.online_cpus.last().copied().unwrap()
}

fn pause(length: Duration) {
    sleep_until(Monotonic.now() + length).unwrap();
}

/// Waits for what comes in its own time, however slow the host is.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Monotonic.now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Monotonic.now() < give_up, "{what}");
        pause(Duration::from_millis(2));
    }
}

fn is_fifo(tid: u32, wanted: u8) -> bool {
    matches!(scheduling_of(tid), Ok(SchedulingSetting::Fifo { priority, .. }) if priority == wanted)
}

fn is_ordinary(tid: u32) -> bool {
    matches!(scheduling_of(tid), Ok(SchedulingSetting::Other { .. }))
}

/// The least share of a CPU that a process had in a few looks: a stall of the host makes it larger at times.
fn share(pid: u32) -> f64 {
    let look = || {
        let (begun, before) = (Monotonic.now(), cpu_time_of_process(pid).unwrap());
        pause(PERIOD * 100);
        let used = cpu_time_of_process(pid).unwrap() - before;
        used.as_secs_f64() / Monotonic.now().saturating_since(begun).as_secs_f64()
    };
    (0..3).map(|_| look()).fold(f64::INFINITY, f64::min)
}

/// The share of a process of an unprivileged user that goes to the other CPU whenever it runs, beside
/// ordinary programs there.
fn share_of_one_that_leaves(host: &HostCapabilities) -> (f64, AuditSummary, u32) {
    let other = elsewhere(host);
    let end = Monotonic.now() + AT_MOST;
    let beside: Vec<Program> = (0..3)
        .map(|_| Program::start(Role::Spin { cpu: other }, end, None))
        .collect();
    let leaving = Program::start(Role::Leave { cpu: other }, end, Some(65_534));
    let stage = Stage::reserve(host, leaving.pid());
    leaving.go();
    pause(PERIOD * 50);
    let share = share(leaving.pid());
    let audit = stage.audit();
    drop(beside);
    (share, audit, leaving.pid())
}

#[test]
fn a_cpuset_keeps_an_unprivileged_process_on_its_cpu() {
    let test = "a_cpuset_keeps_an_unprivileged_process_on_its_cpu";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[]) else {
        return;
    };
    if !host.has(Feature::CpusetV1) && !host.has(Feature::CpusetV2) {
        eprintln!("SKIP {test}: needs a cpuset controller");
        return;
    }
    let (share, audit, _) = share_of_one_that_leaves(&host);
    assert!(share < 0.4, "share {share} of 0.2; {audit:?}");
    assert!(audit.cpuset, "{audit:?}");
    assert_eq!(audit.brought_back, 0, "{audit:?}");
}

#[test]
fn without_a_cpuset_who_keeps_leaving_loses_the_priority() {
    let test = "without_a_cpuset_who_keeps_leaving_loses_the_priority";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[Feature::CpusetV1, Feature::CpusetV2]) else {
        return;
    };
    let (share, audit, _) = share_of_one_that_leaves(&host);
    assert!(share < 0.5, "share {share} of 0.2; {audit:?}");
    assert!(!audit.cpuset && audit.brought_back > 0, "{audit:?}");
    assert_eq!(audit.demoted, 1, "{audit:?}");
}

#[test]
fn a_thread_that_raises_its_priority_is_set_back() {
    let test = "a_thread_that_raises_its_priority_is_set_back";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[]) else {
        return;
    };
    let end = Monotonic.now() + AT_MOST;
    let raising = Program::start(Role::Raise { priority: 85 }, end, None);
    let stage = Stage::reserve(&host, raising.pid());
    raising.go();
    eventually("it was found", || stage.audit().set_back > 0);
    let threads = threads_of(raising.pid()).unwrap();
    eventually("it is set back", || {
        threads.iter().all(|&tid| is_fifo(tid, PRIORITY))
    });
}

/// Moves a process to the roots of the hierarchies in which it may be in groups of ours.
fn move_out(host: &HostCapabilities, pid: u32) {
    let roots = [
        host.cgroup_v2_root.as_deref(),
        host.cgroup_v1_roots
            .get("cpuset")
            .map(|root| root.as_path()),
    ];
    for root in roots.into_iter().flatten() {
        cgroup::move_process(pid, root).unwrap();
    }
}

#[test]
fn a_member_that_is_moved_out_loses_the_priority() {
    let test = "a_member_that_is_moved_out_loses_the_priority";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[]) else {
        return;
    };
    let end = Monotonic.now() + AT_MOST;
    let moved = Program::start(Role::Spin { cpu: home(&host) }, end, None);
    let stage = Stage::reserve(&host, moved.pid());
    eventually("it has the priority", || is_fifo(moved.pid(), PRIORITY));
    move_out(&host, moved.pid());
    eventually("it lost the priority", || is_ordinary(moved.pid()));
    eventually("it was counted", || stage.audit().demoted > 0);
    let root = host.cgroup_v2_root.clone().unwrap();
    let inside = cgroup::processes_in(&root.join("tailbound").join(DOMAIN)).unwrap();
    assert!(inside.is_empty(), "it was pulled back: {inside:?}");
}

#[test]
fn children_that_exist_are_taken_in_and_later_ones_adopted() {
    let test = "children_that_exist_are_taken_in_and_later_ones_adopted";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[]) else {
        return;
    };
    let end = Monotonic.now() + AT_MOST;
    let parent = Program::start(Role::Fork, end, None);
    let children = || children_of(parent.pid()).unwrap();
    eventually("it has a child", || children().len() == 1);
    let early = children()[0];
    let stage = Stage::reserve(&host, parent.pid());
    let group = stage_group(&host);
    assert!(cgroup::processes_in(&group).unwrap().contains(&early));
    assert!(is_fifo(early, PRIORITY));
    let cpus = [home(&host)].into();
    assert_eq!(affinity_of(early).unwrap(), cpus);
    parent.go();
    eventually("it has another", || children().len() == 2);
    let late = children()
        .into_iter()
        .find(|child| *child != early)
        .unwrap();
    eventually("that is adopted", || is_fifo(late, PRIORITY));
    // A policy that can be inherited would outlive the domain's groups.
    let flagged = |tid| {
        matches!(
            scheduling_of(tid),
            Ok(SchedulingSetting::Fifo {
                reset_on_fork: true,
                ..
            })
        )
    };
    assert!(flagged(parent.pid()) && flagged(early) && flagged(late));
    let begun = started(late).unwrap();
    // Its parent dies, somebody else is its parent from now on and moves it out.
    drop(parent);
    move_out(&host, late);
    eventually("the orphan lost the priority", || is_ordinary(late));
    assert_eq!(started(late).unwrap(), begun);
    drop(stage);
    let _ended = tailbound_linux::process::send_signal(late, 9);
    let _ended = tailbound_linux::process::send_signal(early, 9);
    eventually("all is gone", || !Path::new(&group).exists());
}

fn stage_group(host: &HostCapabilities) -> std::path::PathBuf {
    let root = host.cgroup_v2_root.clone().unwrap();
    root.join("tailbound").join(DOMAIN)
}
