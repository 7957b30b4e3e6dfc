//! Enforcement over a kernel in memory: what is applied is taken back, whatever happens between.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use proptest::prelude::*;
use tailbound_enforcement::fake_kernel::{
    CPU_ROOT, CPUSET_ROOT, FakeKernel, FakeManagers, V2_ROOT,
};
use tailbound_enforcement::journal::History;
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{
    AdmissionError, EnforcementError, Enforcer, KernelView, PlanError, ReservationRequest,
    SchedulingSetting, Target,
};
use tailbound_linux::capabilities::Feature;
use tailbound_model::{BackendKind, Cpu, Priority, ResourceInterface};
use tailbound_time::Duration;

/// The processes of [`host`], with their threads.
const PROCESSES: [(u32, &[u32]); 4] = [
    (100, &[100, 101, 102]),
    (200, &[200]),
    (300, &[300, 301]),
    (400, &[400]),
];
const CONTAINER: &str = "machine/one";

/// A host with some processes, two of them in a container's cgroup.
fn host() -> FakeKernel {
    let kernel = FakeKernel::new();
    for (pid, threads) in PROCESSES {
        kernel.add_process(pid, 50, threads);
    }
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let files = state.cgroups[v2].clone();
        for path in [v2.join("machine"), v2.join(CONTAINER)] {
            state.cgroups.insert(path, files.clone());
        }
        for tid in [300, 301, 400] {
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(v2.into(), v2.join(CONTAINER));
        }
        let niced = SchedulingSetting::Batch { nice: 5 };
        state.threads.get_mut(&101).unwrap().scheduling = niced;
        state.threads.get_mut(&200).unwrap().affinity = [Cpu(0), Cpu(2)].into();
    });
    kernel
}

/// A directory for journals, in memory where possible: they are synced line by line.
fn state_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn enforcer(kernel: &FakeKernel, directory: &Path) -> Enforcer {
    enforcer_with(kernel, FakeManagers::default(), directory)
}

fn enforcer_with(kernel: &FakeKernel, managers: FakeManagers, directory: &Path) -> Enforcer {
    let host = kernel.host();
    let (kernel, managers) = (Box::new(kernel.clone()), Box::new(managers));
    Enforcer::with_parts(host, kernel, managers, directory.into()).unwrap()
}

fn interface(budget_ms: u64, period_ms: u64, priority: u8, cpus: &[u32]) -> ResourceInterface {
    ResourceInterface {
        budget: Duration::from_millis(budget_ms),
        period: Duration::from_millis(period_ms),
        priority: Priority(priority),
        cpus: cpus.iter().copied().map(Cpu).collect(),
    }
}

fn request(
    domain: &str,
    target: Target,
    interface: ResourceInterface,
    backend: BackendKind,
) -> ReservationRequest {
    ReservationRequest {
        domain: domain.into(),
        target,
        interface,
        backend,
    }
}

const KINDS: [BackendKind; 6] = [
    BackendKind::DsFreeze,
    BackendKind::Deadline,
    BackendKind::RtGroup,
    BackendKind::CfsQuota,
    BackendKind::Dedicated,
    BackendKind::None,
];

/// One request per back end, on whichever target it takes.
fn one(kind: BackendKind) -> ReservationRequest {
    let pid = if kind == BackendKind::Deadline {
        200
    } else {
        100
    };
    request(
        "one",
        Target::Processes(vec![pid]),
        interface(20, 100, 80, &[1]),
        kind,
    )
}

#[test]
fn every_back_end_leaves_the_host_as_it_was() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        let plans = enforcer.plan(&[one(kind)]).unwrap();
        assert_eq!(
            kernel.snapshot(),
            before,
            "{kind:?}: planning changed something"
        );
        assert_eq!(enforcer.apply(&[one(kind)]).unwrap(), plans, "{kind:?}");
        let changed = kernel.snapshot() != before;
        assert_eq!(changed, kind != BackendKind::None, "{kind:?}");
        let status = enforcer.status();
        assert_eq!(status.domains.len(), 1, "{kind:?}");
        assert!(status.domains[0].threads >= 1, "{kind:?}");
        enforcer.revert("one").unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind:?}");
        assert!(enforcer.status().domains.is_empty());
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "only the lock is left: {left:?}");
    }
}

#[test]
fn dropping_reverts() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let managers = FakeManagers::default();
    let mut enforcer = enforcer_with(&kernel, managers.clone(), directory.path());
    enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap();
    assert_eq!(managers.serving().len(), 1);
    drop(enforcer);
    assert_eq!(kernel.snapshot(), before);
    assert!(managers.serving().is_empty());
}

#[test]
fn what_the_domain_starts_later_is_put_back_too() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        let request = one(kind);
        enforcer.apply(&[request]).unwrap();
        let parent = if kind == BackendKind::Deadline {
            200
        } else {
            100
        };
        let forked = kernel.clone();
        forked.fork(parent, 150, false);
        forked.fork(150, 160, true);
        forked.fork(160, 161, false);
        if kind == BackendKind::Deadline {
            // RESET_ON_FORK.
            forked.alter(|state| {
                for tid in [150, 160, 161] {
                    let other = SchedulingSetting::Other { nice: 0 };
                    state.threads.get_mut(&tid).unwrap().scheduling = other;
                }
            });
        }
        enforcer.revert_all().unwrap();
        let after = kernel.snapshot();
        for tid in [150, 160, 161] {
            let thread = &after.threads[&tid];
            let other = SchedulingSetting::Other { nice: 0 };
            assert_eq!(thread.scheduling, other, "{kind:?} {tid}");
            for (root, at) in &thread.cgroups {
                assert_eq!(root, at, "{kind:?} {tid}");
            }
            if kind != BackendKind::Deadline {
                let parent = &after.threads[&parent];
                assert_eq!(thread.affinity, parent.affinity, "{kind:?} {tid}");
            }
        }
    }
}

#[test]
fn processes_that_have_gone_do_no_harm() {
    for kind in KINDS {
        let (kernel, directory) = (host(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        let request = one(kind);
        enforcer.apply(&[request]).unwrap();
        kernel.end_process(100);
        kernel.end_process(200);
        // The number is used again by somebody who is none of our business.
        kernel.add_process(100, 50, &[100]);
        kernel.alter(|state| state.threads.get_mut(&100).unwrap().started = 999_999);
        let stranger = kernel.snapshot().threads[&100].clone();
        enforcer.revert_all().unwrap();
        let after = kernel.snapshot();
        assert_eq!(after.threads[&100], stranger, "{kind:?}");
        let ours = after
            .cgroups
            .keys()
            .any(|path| path.display().to_string().contains("tailbound"));
        assert!(!ours, "{kind:?}: {:?}", after.cgroups.keys());
        assert_eq!(
            after.cgroups[Path::new(CPUSET_ROOT)]["cpuset.sched_load_balance"],
            "1"
        );
    }
}

#[test]
fn all_or_nothing_whichever_change_is_refused() {
    for kind in KINDS {
        let requests = [
            request(
                "first",
                Target::Processes(vec![300]),
                interface(10, 100, 90, &[2]),
                BackendKind::DsFreeze,
            ),
            one(kind),
        ];
        for refused in 0.. {
            let (kernel, directory) = (host(), state_directory());
            let before = kernel.snapshot();
            let mut enforcer = enforcer(&kernel, directory.path());
            kernel.refuse_at(Some(refused));
            let outcome = enforcer.apply(&requests);
            if kernel.writes() <= refused {
                outcome.unwrap();
                break;
            }
            assert!(outcome.is_err(), "{kind:?} {refused}");
            assert_eq!(kernel.snapshot(), before, "{kind:?} {refused}");
            assert!(enforcer.status().domains.is_empty());
        }
    }
}

#[test]
fn a_manager_that_does_not_start_takes_everything_back() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let managers = FakeManagers::default();
    managers.refuse(true);
    let mut enforcer = enforcer_with(&kernel, managers, directory.path());
    let error = enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap_err();
    assert!(matches!(error, EnforcementError::Manager { .. }), "{error}");
    assert_eq!(kernel.snapshot(), before);
}

/// Requests that fit together, on targets of all kinds.
fn several() -> Vec<ReservationRequest> {
    vec![
        request(
            "web",
            Target::Processes(vec![100]),
            interface(4, 10, 90, &[1]),
            BackendKind::DsFreeze,
        ),
        request(
            "db",
            Target::Processes(vec![200]),
            interface(40, 100, 80, &[2]),
            BackendKind::Deadline,
        ),
        request(
            "vcpu0",
            Target::Threads(vec![300]),
            interface(20, 100, 50, &[1]),
            BackendKind::DsFreeze,
        ),
        request(
            "vcpu1",
            Target::Threads(vec![301]),
            interface(20, 100, 50, &[3]),
            BackendKind::RtGroup,
        ),
        request(
            "batch",
            Target::Cgroup(CONTAINER.into()),
            interface(20, 100, 50, &[0]),
            BackendKind::CfsQuota,
        ),
    ]
}

#[test]
fn an_owner_that_dies_at_any_point_is_cleaned_up_after() {
    // The cgroup target shares threads with the others; leave it to its own test.
    let requests = &several()[..4];
    for stop in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        kernel.stop_at(Some(stop));
        let outcome = owner.apply(requests);
        let done = outcome.is_ok();
        // It dies: nothing of it runs any more, Drop included.
        std::mem::forget(owner);
        kernel.stop_at(None);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        let mut survivor = kernel.clone();
        let recovery = recover_with(directory.path(), &mut survivor).unwrap();
        assert!(recovery.failures.is_empty(), "{stop}: {recovery:?}");
        let mut after = kernel.snapshot();
        let own = after.threads.remove(&2);
        assert!(own.is_some());
        let mut expected = before;
        expected.threads.remove(&1);
        assert_eq!(after, expected, "died before change {stop}");
        let again = recover_with(directory.path(), &mut survivor).unwrap();
        assert_eq!(again, Default::default(), "{stop}");
        if done {
            assert!(stop > 20, "{stop} changes are few for so much");
            break;
        }
    }
}

#[test]
fn recovering_that_dies_is_recovered_from() {
    let requests = &several()[..4];
    for stop in 0.. {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut owner = enforcer(&kernel, directory.path());
        owner.apply(requests).unwrap();
        std::mem::forget(owner);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        kernel.stop_at(Some(stop));
        let mut survivor = kernel.clone();
        let first = recover_with(directory.path(), &mut survivor).unwrap();
        kernel.stop_at(None);
        let second = recover_with(directory.path(), &mut survivor).unwrap();
        assert!(second.failures.is_empty(), "{stop}: {second:?}");
        let mut after = kernel.snapshot();
        after.threads.remove(&2);
        let mut expected = before;
        expected.threads.remove(&1);
        assert_eq!(after, expected, "recovery died before change {stop}");
        if first.failures.is_empty() {
            break;
        }
    }
}

#[test]
fn a_living_owner_is_left_alone_and_its_reservations_count() {
    let (kernel, directory) = (host(), state_directory());
    let mut owner = enforcer(&kernel, directory.path());
    let big = request(
        "big",
        Target::Processes(vec![100]),
        interface(60, 100, 90, &[1]),
        BackendKind::DsFreeze,
    );
    owner.apply(std::slice::from_ref(&big)).unwrap();
    let applied = kernel.snapshot();
    let mut survivor = kernel.clone();
    let recovery = recover_with(directory.path(), &mut survivor).unwrap();
    assert_eq!(recovery.alive.len(), 1);
    assert_eq!(kernel.snapshot(), applied);
    let other = enforcer(&kernel, directory.path());
    let mut second = request(
        "second",
        Target::Processes(vec![200]),
        interface(40, 100, 80, &[1]),
        BackendKind::DsFreeze,
    );
    let refused = other.plan(std::slice::from_ref(&second)).unwrap_err();
    let EnforcementError::Refused(AdmissionError::TooMuch { fits, .. }) = refused else {
        panic!("{refused}");
    };
    assert_eq!(fits, Duration::from_millis(35));
    second.interface.budget = fits;
    other.plan(std::slice::from_ref(&second)).unwrap();
    assert!(matches!(
        other.plan(&[big]).unwrap_err(),
        EnforcementError::Refused(AdmissionError::DuplicateDomain(_))
    ));
}

#[test]
fn shared_groups_survive_whichever_domain_ends_first() {
    let vcpu = |name: &str, tid: u32, cpu: u32| {
        request(
            name,
            Target::Threads(vec![tid]),
            interface(20, 100, 50, &[cpu]),
            BackendKind::DsFreeze,
        )
    };
    for order in [["a", "b"], ["b", "a"]] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer.apply(&[vcpu("a", 300, 1)]).unwrap();
        enforcer.apply(&[vcpu("b", 301, 2)]).unwrap();
        enforcer.revert(order[0]).unwrap();
        let (left, group) = match order[1] {
            "a" => (300, "/v2/tailbound/.threads-300/a"),
            _ => (301, "/v2/tailbound/.threads-300/b"),
        };
        let at = kernel.cgroup_of(left, Path::new(V2_ROOT)).unwrap();
        assert_eq!(at, Path::new(group), "{order:?}");
        enforcer.revert(order[1]).unwrap();
        assert_eq!(kernel.snapshot(), before, "{order:?}");
    }
}

#[test]
fn cpus_of_several_deadline_domains_are_released_in_any_order() {
    let domain = |name: &str, pid: u32, cpu: u32| {
        request(
            name,
            Target::Processes(vec![pid]),
            interface(20, 100, 50, &[cpu]),
            BackendKind::Deadline,
        )
    };
    for order in [["a", "b"], ["b", "a"]] {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer
            .apply(&[domain("a", 200, 1), domain("b", 400, 2)])
            .unwrap();
        for name in order {
            let files = kernel.snapshot().cgroups[Path::new(CPUSET_ROOT)].clone();
            assert_eq!(files["cpuset.sched_load_balance"], "0");
            enforcer.revert(name).unwrap();
        }
        assert_eq!(kernel.snapshot(), before, "{order:?}");
    }
}

#[test]
fn a_container_s_cgroup_is_frozen_in_place() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let container = request(
        "container",
        Target::Cgroup(CONTAINER.into()),
        interface(20, 100, 50, &[1]),
        BackendKind::DsFreeze,
    );
    let plans = enforcer.apply(&[container]).unwrap();
    assert_eq!(
        plans[0].managers[0].cgroup,
        Path::new(V2_ROOT).join(CONTAINER)
    );
    let after = kernel.snapshot();
    assert_eq!(after.cgroups.len(), before.cgroups.len());
    for tid in [300, 301, 400] {
        let fifo = SchedulingSetting::Fifo {
            priority: 50,
            reset_on_fork: false,
        };
        assert_eq!(after.threads[&tid].scheduling, fifo);
    }
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn an_interface_changes_in_place_or_not_at_all() {
    for kind in [
        BackendKind::DsFreeze,
        BackendKind::Deadline,
        BackendKind::RtGroup,
        BackendKind::CfsQuota,
    ] {
        for refused in 0.. {
            let (kernel, directory) = (host(), state_directory());
            let before = kernel.snapshot();
            let mut enforcer = enforcer(&kernel, directory.path());
            enforcer.apply(&[one(kind)]).unwrap();
            let applied = kernel.snapshot();
            kernel.refuse_at(Some(refused));
            let outcome = enforcer.change("one", &interface(30, 60, 70, &[1]));
            let done = kernel.writes() <= refused;
            if done {
                outcome.unwrap();
                let now = &enforcer.status().domains[0].interface;
                assert_eq!(now.budget, Duration::from_millis(30));
            } else {
                outcome.unwrap_err();
                assert_eq!(kernel.snapshot(), applied, "{kind:?} {refused}");
                let now = &enforcer.status().domains[0].interface;
                assert_eq!(now.budget, Duration::from_millis(20));
            }
            kernel.refuse_at(None);
            enforcer.revert_all().unwrap();
            assert_eq!(kernel.snapshot(), before, "{kind:?} {refused}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    let plan = |request: ReservationRequest| enforcer.plan(&[request]).unwrap_err();
    let on = |target, backend| request("x", target, interface(20, 100, 50, &[1]), backend);
    let processes = |pids: &[u32]| Target::Processes(pids.into());
    let two = plan(on(processes(&[100, 200]), BackendKind::Deadline)).to_string();
    assert!(
        two.contains("one thread (or process, for its main thread) per CPU"),
        "{two}"
    );
    let gone = plan(on(processes(&[999]), BackendKind::DsFreeze));
    assert!(matches!(
        gone,
        EnforcementError::Unplannable(PlanError::Gone { id: 999, .. })
    ));
    let own = plan(on(processes(&[1]), BackendKind::DsFreeze));
    assert!(matches!(
        own,
        EnforcementError::Unplannable(PlanError::Ourselves { .. })
    ));
    let empty = plan(on(processes(&[]), BackendKind::Dedicated));
    assert!(matches!(
        empty,
        EnforcementError::Unplannable(PlanError::EmptyTarget(_))
    ));
    for path in ["", "/", "../x", "machine/../.."] {
        let root = plan(on(Target::Cgroup(path.into()), BackendKind::DsFreeze));
        let unsupported = matches!(
            root,
            EnforcementError::Unplannable(PlanError::TargetNotSupported { .. })
        );
        assert!(unsupported, "{path}: {root}");
    }
    let mut short = on(processes(&[200]), BackendKind::Deadline);
    short.interface.budget = Duration::from_millis(4);
    let short = plan(short).to_string();
    assert!(
        short.contains("12ms") && short.contains("HRTICK_DL"),
        "{short}"
    );
    let mut split = on(processes(&[100]), BackendKind::RtGroup);
    kernel.alter(|state| {
        let cpu = Path::new(CPU_ROOT);
        state.cgroups.insert(cpu.join("else"), Default::default());
        let thread = state.threads.get_mut(&102).unwrap();
        thread.cgroups.insert(cpu.into(), cpu.join("else"));
    });
    split.domain = "split".into();
    let split = plan(split);
    assert!(matches!(
        split,
        EnforcementError::Unplannable(PlanError::SplitProcess { .. })
    ));
}

#[test]
fn a_thread_belongs_to_one_reservation() {
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let requests = several();
    enforcer.apply(&requests[..3]).unwrap();
    let container = request(
        "container",
        Target::Cgroup(CONTAINER.into()),
        interface(5, 100, 50, &[3]),
        BackendKind::DsFreeze,
    );
    // Process 300 has left the container's cgroup, so it can be reserved as well.
    enforcer.plan(std::slice::from_ref(&container)).unwrap();
    let mut again = requests[0].clone();
    again.domain = "again".into();
    again.interface = interface(5, 100, 50, &[3]);
    let error = enforcer.plan(&[again]).unwrap_err();
    assert!(
        matches!(
            error,
            EnforcementError::Unplannable(PlanError::ReservedAlready { .. })
        ),
        "{error}"
    );
}

#[test]
fn kernels_that_lack_something_are_told_so() {
    let kernel = host();
    let cases = [
        (BackendKind::DsFreeze, Feature::FreezerV2, "freezer"),
        (BackendKind::DsFreeze, Feature::CgroupV2, "cgroup v2"),
        (
            BackendKind::Deadline,
            Feature::SchedDeadline,
            "SCHED_DEADLINE",
        ),
        (BackendKind::Deadline, Feature::CpusetV1, "root domain"),
        (BackendKind::RtGroup, Feature::RtRuntimeV1, "rt_runtime_us"),
    ];
    for (kind, feature, word) in cases {
        let directory = state_directory();
        let host = kernel.host().without(&[feature]);
        let (fake, managers) = (Box::new(kernel.clone()), Box::new(FakeManagers::default()));
        let enforcer = Enforcer::with_parts(host, fake, managers, directory.path().into()).unwrap();
        let error = enforcer.plan(&[one(kind)]).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, EnforcementError::Missing { .. }), "{text}");
        assert!(text.contains(word) && text.contains("hidden"), "{text}");
    }
    // Quotas go to whichever hierarchy has the controller.
    let directory = state_directory();
    let before = kernel.snapshot();
    let host = kernel.host().without(&[Feature::QuotaV1]);
    let (fake, managers) = (Box::new(kernel.clone()), Box::new(FakeManagers::default()));
    let mut enforcer = Enforcer::with_parts(host, fake, managers, directory.path().into()).unwrap();
    enforcer.apply(&[one(BackendKind::CfsQuota)]).unwrap();
    let files = &kernel.snapshot().cgroups[Path::new("/v2/tailbound/one")];
    assert_eq!(files["cpu.max"], "20000 100000");
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn the_dry_run_speaks_the_kernel_s_words() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer(&kernel, directory.path());
    let lines = |kind| enforcer.plan(&[one(kind)]).unwrap()[0].dry_run().join("\n");
    let freeze = lines(BackendKind::DsFreeze);
    for words in [
        "mkdir /v2/tailbound/one",
        "echo 1 > /v2/tailbound/one/cgroup.freeze",
        "echo 100 > /v2/tailbound/one/cgroup.procs",
        "sched_setaffinity(101, {1})",
        "sched_setattr(102, {policy=SCHED_FIFO priority=80})",
    ] {
        assert!(freeze.contains(words), "{words} in\n{freeze}");
    }
    let deadline = lines(BackendKind::Deadline);
    for words in [
        "echo 0 > /cpuset/cpuset.sched_load_balance",
        "echo 200 > /cpuset/tailbound-cpu1/tasks",
        "runtime=20000000 deadline=100000000 period=100000000 flags=RESET_ON_FORK",
    ] {
        assert!(deadline.contains(words), "{words} in\n{deadline}");
    }
}

/// The journal of an enforcer that has applied [`several`].
fn journal_of(kernel: &FakeKernel, directory: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let mut owner = enforcer(kernel, directory);
    owner.apply(&several()[..4]).unwrap();
    std::mem::forget(owner);
    kernel.end_process(1);
    kernel.add_process(2, 0, &[2]);
    kernel.become_process(2);
    let path = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "journal"))
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_a_journal_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _history = History::read(&bytes);
    }

    #[test]
    fn a_damaged_journal_never_panics_and_never_touches_strangers(
        cut in 0.0_f64..=1.0,
        flips in proptest::collection::vec((0.0_f64..1.0, any::<u8>()), 0..6),
    ) {
        let (kernel, directory) = (host(), state_directory());
        let stranger = kernel.snapshot().threads[&400].clone();
        let (path, mut bytes) = journal_of(&kernel, directory.path());
        bytes.truncate((bytes.len() as f64 * cut) as usize);
        for (at, byte) in flips {
            let at = (bytes.len() as f64 * at) as usize;
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut survivor = kernel.clone();
        let _outcome = recover_with(directory.path(), &mut survivor);
        let thread = &kernel.snapshot().threads[&400];
        prop_assert_eq!(thread.pid, stranger.pid);
    }

    #[test]
    fn any_order_of_applying_and_reverting_ends_where_it_began(
        steps in proptest::collection::vec((0_usize..4, any::<bool>()), 1..24),
    ) {
        let (kernel, directory) = (host(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        let requests = several();
        for (index, apply) in steps {
            let active = enforcer.status().domains;
            let held = active.iter().any(|held| held.domain == requests[index].domain);
            let outcome = match apply {
                true => enforcer.apply(std::slice::from_ref(&requests[index])).map(drop),
                false => enforcer.revert(&requests[index].domain),
            };
            prop_assert_eq!(outcome.is_ok(), apply != held, "{:?}", outcome);
        }
        enforcer.revert_all().unwrap();
        prop_assert_eq!(kernel.snapshot(), before);
    }
}
