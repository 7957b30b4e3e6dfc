//! Nobody leaves a reservation: escapes on the host, under `ds-freeze` and `rt-group`, each with the kernel that
//! we run on.
//!
//! These need root, a writable cgroup v2 and two CPUs, and say so when they cannot run. They assert shares
//! and settings, never times.

mod program;

use std::collections::BTreeSet;
use std::path::Path;

use program::{Program, Role};
use tailbound_enforcement::audit::AuditSummary;
use tailbound_enforcement::{Enforcer, ReservationRequest, Target, backends};
use tailbound_linux::capabilities::Feature;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::process::{children_of, started, threads_of};
use tailbound_linux::scheduling::{SchedulingSetting, affinity_of, scheduling_of, set_affinity};
use tailbound_linux::{HostCapabilities, cgroup};
use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_time::{Clock, Duration};

const DOMAIN: &str = "escape";
const BUDGET: Duration = Duration::from_millis(2);
const PERIOD: Duration = Duration::from_millis(10);
const PRIORITY: u8 = 50;
/// Longer than any test; programs end by themselves.
const AT_MOST: Duration = Duration::from_secs(60);

/// What the host can do under `ds-freeze`, or a loud skip.
fn host_for(test: &str, hidden: &[Feature]) -> Option<HostCapabilities> {
    host_with(test, BackendKind::DsFreeze, hidden)
}

/// What the host can do under a back end, or a loud skip.
fn host_with(test: &str, kind: BackendKind, hidden: &[Feature]) -> Option<HostCapabilities> {
    let host = HostCapabilities::probe().without(hidden);
    let missing = backends::backend(kind).missing(&host);
    let needed = match missing.first() {
        Some(missing) => missing.needed.clone(),
        None if host.uid != 0 => "root".into(),
        None if host.online_cpus.len() < 2 => "two CPUs".into(),
        None => return Some(host),
    };
    eprintln!("SKIP {test}: needs {needed}");
    None
}

/// Whether the host has a cpuset controller, or says loudly which one it lacks.
fn has_one_of(test: &str, host: &HostCapabilities, controllers: &[Feature]) -> bool {
    let has = controllers.iter().any(|feature| host.has(*feature));
    if !has {
        let lacking = controllers.iter();
        let lacking =
            lacking.map(|feature| format!("{feature} ({})", host.finding(*feature).state));
        eprintln!(
            "SKIP {test}: needs {}",
            Vec::from_iter(lacking).join(" or ")
        );
    }
    has
}

/// A domain of 20% on the first CPU.
struct Stage {
    enforcer: Enforcer,
    _directory: tempfile::TempDir,
}

impl Stage {
    fn reserve(host: &HostCapabilities, pid: u32) -> Self {
        Self::reserve_by(BackendKind::DsFreeze, host, pid)
    }

    fn reserve_by(backend: BackendKind, host: &HostCapabilities, pid: u32) -> Self {
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
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            },
            backend,
            options: BackendOptions::default(),
            interference: Default::default(),
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
    fifo_priority(tid) == Some(wanted)
}

fn fifo_priority(tid: u32) -> Option<u8> {
    match scheduling_of(tid) {
        Ok(SchedulingSetting::Fifo { priority, .. }) => Some(priority),
        _ => None,
    }
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

/// What became of a process of an unprivileged user that goes to the other CPU whenever it runs, beside
/// ordinary programs there.
struct Attempt {
    share: f64,
    audit: AuditSummary,
    /// All CPUs that it was seen to be allowed.
    allowed: BTreeSet<u32>,
    /// What the kernel said to root, who asked for the other CPU in its stead.
    by_root: std::io::Result<()>,
}

impl Attempt {
    fn under(backend: BackendKind, host: &HostCapabilities) -> Self {
        let other = elsewhere(host);
        let end = Monotonic.now() + AT_MOST;
        let beside: Vec<Program> = (0..3)
            .map(|_| Program::start(Role::Spin { cpu: other }, end, None))
            .collect();
        let leaving = Program::start(Role::Leave { cpu: other }, end, Some(65_534));
        let stage = Stage::reserve_by(backend, host, leaving.pid());
        leaving.go();
        let mut allowed = BTreeSet::new();
        for _ in 0..500 {
            allowed.extend(affinity_of(leaving.pid()).unwrap());
            pause(Duration::from_millis(1));
        }
        let share = share(leaving.pid());
        let audit = stage.audit();
        let by_root = set_affinity(leaving.pid(), &[other].into());
        drop(beside);
        Self {
            share,
            audit,
            allowed,
            by_root,
        }
    }

    /// The kernel itself kept it on its CPU, whoever asked for another one.
    #[track_caller]
    fn assert_confined(&self, host: &HostCapabilities) {
        let Self { share, audit, .. } = self;
        assert!(*share < 0.4, "share {share} of 0.2; {audit:?}");
        assert!(audit.cpuset, "{audit:?}");
        assert_eq!(audit.brought_back, 0, "{audit:?}");
        assert_eq!(self.allowed, [home(host)].into());
        let refusal = self.by_root.as_ref().unwrap_err();
        assert_eq!(
            refusal.kind(),
            std::io::ErrorKind::InvalidInput,
            "{refusal}"
        );
    }
}

#[test]
fn a_cpuset_keeps_an_unprivileged_process_on_its_cpu() {
    let test = "a_cpuset_keeps_an_unprivileged_process_on_its_cpu";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[]) else {
        return;
    };
    if has_one_of(test, &host, &[Feature::CpusetV1, Feature::CpusetV2]) {
        Attempt::under(BackendKind::DsFreeze, &host).assert_confined(&host);
    }
}

#[test]
fn a_cpuset_of_cgroup_v2_keeps_a_domain_on_its_cpu_and_is_taken_back() {
    let test = "a_cpuset_of_cgroup_v2_keeps_a_domain_on_its_cpu_and_is_taken_back";
    let _alone = crate::alone();
    // Where both have the controller, the back end prefers cgroup v1.
    let Some(host) = host_for(test, &[Feature::CpusetV1]) else {
        return;
    };
    if !has_one_of(test, &host, &[Feature::CpusetV2]) {
        return;
    }
    let root = host.cgroup_v2_root.clone().unwrap();
    let controllers = || cgroup::read_control(&root.join("cgroup.subtree_control")).unwrap();
    let before = controllers();
    Attempt::under(BackendKind::DsFreeze, &host).assert_confined(&host);
    assert!(!stage_group(&host).exists(), "the group is gone");
    assert_eq!(controllers(), before);
}

#[test]
fn a_cpuset_keeps_a_real_time_group_on_its_cpu() {
    let test = "a_cpuset_keeps_a_real_time_group_on_its_cpu";
    let _alone = crate::alone();
    let Some(host) = host_with(test, BackendKind::RtGroup, &[]) else {
        return;
    };
    if has_one_of(test, &host, &[Feature::CpusetV1]) {
        Attempt::under(BackendKind::RtGroup, &host).assert_confined(&host);
    }
}

#[test]
fn without_a_cpuset_who_keeps_leaving_loses_the_priority() {
    let test = "without_a_cpuset_who_keeps_leaving_loses_the_priority";
    let _alone = crate::alone();
    let Some(host) = host_for(test, &[Feature::CpusetV1, Feature::CpusetV2]) else {
        return;
    };
    let Attempt { share, audit, .. } = Attempt::under(BackendKind::DsFreeze, &host);
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
    let priorities = || threads.iter().filter_map(|&tid| fifo_priority(tid));
    // It comes before the other threads of its domain, and before nobody else.
    eventually("it is set back", || {
        priorities().count() == threads.len() && priorities().max() == Some(PRIORITY)
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
