//! What is refused, and what a dry run says.

use std::path::Path;

use super::fake_kernel::{CPU_ROOT, FakeManagers};
use tailbound_enforcement::{EnforcementError, Enforcer, PlanError, ReservationRequest, Target};
use tailbound_linux::capabilities::Feature;
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::stage::*;

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
fn a_group_that_takes_long_to_stop_needs_a_long_period() {
    let (kernel, directory) = (host(), state_directory());
    let threads: Vec<u32> = (5_000..6_500).collect();
    kernel.add_process(5_000, 1, &threads);
    let enforcer = enforcer(&kernel, directory.path());
    let plan = |period_ms| {
        let target = Target::Processes(vec![5_000]);
        let interface = interface(5, period_ms, 50, &[1]);
        enforcer.plan(&[request("x", target, interface, BackendKind::DsFreeze)])
    };
    let refused = plan(59).unwrap_err().to_string();
    let threads = threads.len();
    assert!(refused.contains(&format!("{threads} threads")), "{refused}");
    assert!(refused.contains("a period of 60ms or more"), "{refused}");
    assert!(plan(60).is_ok());
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
        (BackendKind::Hcbs, Feature::RtMaxV2, "cpu.rt.max"),
        (BackendKind::Hcbs, Feature::CpuV2, "cpu.rt.max"),
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
        "sched_setattr(102, {policy=SCHED_FIFO priority=80 flags=RESET_ON_FORK})",
        "echo 1 > /cpuset/tailbound-domain-one/cpuset.cpus",
        "echo 100 > /cpuset/tailbound-domain-one/cgroup.procs",
    ] {
        assert!(freeze.contains(words), "{words} in\n{freeze}");
    }
    let group = lines(BackendKind::Hcbs);
    for words in [
        "echo +cpu > /v2/tailbound/cgroup.subtree_control",
        "echo 20000 100000 > /v2/tailbound/one/cpu.rt.max",
        "echo 100 > /v2/tailbound/one/cgroup.procs",
        "sched_setattr(102, {policy=SCHED_FIFO priority=80 flags=RESET_ON_FORK})",
        "echo 1 > /cpuset/tailbound-domain-one/cpuset.cpus",
    ] {
        assert!(group.contains(words), "{words} in\n{group}");
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
