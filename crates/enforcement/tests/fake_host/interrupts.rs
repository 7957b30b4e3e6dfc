//! Interrupts of devices: planned in two parts, as the threads come to be with the device's change, and taken back.

use std::path::{Path, PathBuf};

use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{
    Change, EnforcementError, InterruptTarget, KernelView, PlanError, ReservationRequest,
    SchedulingSetting, Target,
};
use tailbound_model::{BackendKind, ReceiveContext};

use super::fake_kernel::{FakeKernel, FakeManagers, V2_ROOT};
use super::stage::*;

/// The directory of the files of the device, and of its interrupt line.
const DEVICE: &str = "/device";
/// The thread that the device gets in threaded mode.
const THREAD: u32 = 900;

/// A host with a network device "eth0" of one interrupt line, in softirqs.
fn host_with_device() -> FakeKernel {
    let kernel = host();
    kernel.alter(|state| {
        let files = [
            ("threaded", "0"),
            ("smp_affinity_list", "0-3"),
            ("rps_cpus", "0"),
        ];
        let files = files.map(|(name, value)| (name.to_owned(), value.to_owned()));
        state.cgroups.insert(PathBuf::from(DEVICE), files.into());
    });
    kernel
}

fn flooded(receive: ReceiveContext, backend: BackendKind) -> ReservationRequest {
    let target = Target::Interrupts(InterruptTarget {
        source: "eth0".into(),
        receive,
        threads: Vec::new(),
    });
    request(
        "edge.interrupts.eth0",
        target,
        interface(2, 10, 50, &[1]),
        backend,
    )
}

fn device_file(kernel: &FakeKernel, name: &str) -> String {
    kernel.read_file(&Path::new(DEVICE).join(name)).unwrap()
}

fn is_fifo(kernel: &FakeKernel, priority: u8) -> bool {
    let setting = SchedulingSetting::Fifo {
        priority,
        reset_on_fork: true,
    };
    kernel.scheduling(THREAD).unwrap() == setting
}

#[test]
fn threads_that_come_with_the_device_get_the_budget() {
    for backend in [
        BackendKind::DsFreeze,
        BackendKind::RtGroup,
        BackendKind::Fifo,
        BackendKind::None,
    ] {
        let (kernel, directory) = (host_with_device(), state_directory());
        let before = kernel.snapshot();
        let managers = FakeManagers::default();
        let mut enforcer = enforcer_with(&kernel, managers.clone(), directory.path());
        enforcer
            .apply(&[flooded(ReceiveContext::Thread, backend)])
            .unwrap();
        assert_eq!(device_file(&kernel, "threaded"), "1");
        assert_eq!(device_file(&kernel, "smp_affinity_list"), "1");
        assert_eq!(is_fifo(&kernel, 50), backend.enforces(), "{backend}");
        assert_eq!(
            kernel.affinity(THREAD).unwrap(),
            [tailbound_model::Cpu(1)].into()
        );
        assert_eq!(enforcer.status().domains[0].threads, 1, "{backend}");
        let serving = managers.serving();
        assert_eq!(
            serving.len(),
            usize::from(backend.has_manager()),
            "{backend}"
        );
        for plan in serving.values() {
            assert_eq!(plan.managers[0].demoted, [THREAD]);
            assert!(
                !plan.changes.iter().any(is_freeze),
                "the kernel's threads are not frozen"
            );
        }
        enforcer.revert("edge.interrupts.eth0").unwrap();
        assert!(managers.serving().is_empty());
        assert_eq!(kernel.snapshot(), before, "{backend}");
    }
}

fn is_freeze(change: &Change) -> bool {
    matches!(change, Change::WriteFile { file, .. } if file.ends_with("cgroup.freeze"))
}

#[test]
fn softirqs_get_cpus_and_nothing_else() {
    let (kernel, directory) = (host_with_device(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer
        .apply(&[flooded(ReceiveContext::Softirq, BackendKind::None)])
        .unwrap();
    assert_eq!(device_file(&kernel, "threaded"), "0");
    assert_eq!(device_file(&kernel, "smp_affinity_list"), "1");
    assert_eq!(device_file(&kernel, "rps_cpus"), "2");
    drop(enforcer);
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn a_death_at_any_change_leaves_nothing_behind() {
    let applied = |kernel: &FakeKernel, directory: &Path| {
        let mut enforcer = enforcer(kernel, directory);
        let outcome = enforcer.apply(&[flooded(ReceiveContext::Thread, BackendKind::DsFreeze)]);
        // The process has died: nothing of it runs any more.
        std::mem::forget(enforcer);
        outcome.map(drop)
    };
    let (kernel, directory) = (host_with_device(), state_directory());
    applied(&kernel, directory.path()).unwrap();
    let changes = kernel.writes();
    assert!(changes > 6, "{changes}");
    for last in 0..=changes {
        let (kernel, directory) = (host_with_device(), state_directory());
        let before = kernel.snapshot();
        kernel.stop_at(Some(last));
        let outcome = applied(&kernel, directory.path());
        assert_eq!(outcome.is_ok(), last >= changes, "{last}");
        kernel.stop_at(None);
        kernel.become_process(99);
        kernel.end_process(1);
        kernel.add_process(99, 0, &[99]);
        recover_with(directory.path(), &mut kernel.clone()).unwrap();
        let mut after = kernel.snapshot();
        after.threads.remove(&99);
        let mut before = before;
        before.threads.remove(&1);
        assert_eq!(after, before, "died before change {last}");
    }
}

#[test]
fn what_the_host_does_not_have_is_refused_by_name() {
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let request = flooded(ReceiveContext::Thread, BackendKind::DsFreeze);
    let error = enforcer.apply(std::slice::from_ref(&request)).unwrap_err();
    assert!(error.to_string().contains("\"eth0\""), "{error}");
    // An interrupt without a thread, on a device that has no file for them.
    let kernel = host_with_device();
    kernel.alter(|state| {
        state
            .cgroups
            .get_mut(Path::new(DEVICE))
            .unwrap()
            .remove("threaded");
    });
    let mut enforcer = super::stage::enforcer(&kernel, directory.path());
    let error = enforcer.apply(&[request]).unwrap_err();
    let is_named = matches!(
        error,
        EnforcementError::Unplannable(PlanError::NoInterruptThread { .. })
    );
    assert!(is_named, "{error}");
    assert!(!kernel.has_directory(&Path::new(V2_ROOT).join("tailbound")));
}
