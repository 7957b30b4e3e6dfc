//! Caps that let a domain save up for bursts.

use std::path::Path;

use super::fake_kernel::{CPU_ROOT, FakeKernel, V2_ROOT};
use tailbound_enforcement::{Enforcer, ReservationRequest, Target};
use tailbound_linux::capabilities::Feature;
use tailbound_model::{BackendKind, BackendOptions};
use tailbound_time::Duration;

use super::stage::*;

/// 20 of 100 ms on each of these CPUs, and so much saved up.
fn bursting(target: Target, cpus: &[u32], burst_ms: u64) -> ReservationRequest {
    let options = BackendOptions {
        burst: Some(Duration::from_millis(burst_ms)),
        ..BackendOptions::default()
    };
    ReservationRequest {
        options,
        ..request(
            "one",
            target,
            interface(20, 100, 80, cpus),
            BackendKind::CfsQuota,
        )
    }
}

fn process() -> Target {
    Target::Processes(vec![100])
}

fn on_v2(kernel: &FakeKernel, directory: &Path) -> Enforcer {
    let host = kernel.host().without(&[Feature::QuotaV1]);
    enforcer_on(kernel, host, directory)
}

fn file(kernel: &FakeKernel, group: &Path, name: &str) -> String {
    kernel.snapshot().cgroups[group][name].clone()
}

#[test]
fn a_burst_is_set_for_all_cpus_together_and_taken_back() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let plans = enforcer.apply(&[bursting(process(), &[1, 2], 15)]).unwrap();
    let group = Path::new(CPU_ROOT).join("tailbound-one");
    assert_eq!(file(&kernel, &group, "cpu.cfs_quota_us"), "40000");
    assert_eq!(file(&kernel, &group, "cpu.cfs_burst_us"), "30000");
    let printed = plans[0].dry_run().join("\n");
    for words in [
        "burst 15ms on 2 CPUs -> cpu.cfs_burst_us 30000",
        "echo 30000 > /cpu/tailbound-one/cpu.cfs_burst_us",
    ] {
        assert!(printed.contains(words), "{words} in\n{printed}");
    }
    enforcer
        .change("one", &interface(16, 100, 80, &[1, 2]))
        .unwrap();
    assert_eq!(file(&kernel, &group, "cpu.cfs_quota_us"), "32000");
    assert_eq!(file(&kernel, &group, "cpu.cfs_burst_us"), "30000");
    enforcer.revert("one").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn a_container_gets_its_own_burst_back() {
    let (kernel, directory) = (host(), state_directory());
    let container = Path::new(V2_ROOT).join(CONTAINER);
    kernel.alter(|state| {
        let files = state.cgroups.get_mut(&container).unwrap();
        files.insert("cpu.max".into(), "90000 100000".into());
        files.insert("cpu.max.burst".into(), "70000".into());
    });
    let before = kernel.snapshot();
    let mut enforcer = on_v2(&kernel, directory.path());
    let target = || Target::Cgroup(CONTAINER.into());
    let plans = enforcer.apply(&[bursting(target(), &[1], 15)]).unwrap();
    let lines = plans[0].dry_run();
    // The kernel takes no quota below the burst that there is.
    let line = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
    let quota = line("20000 100000 > ");
    assert!(
        line("echo 0 > /v2/machine/one/cpu.max.burst") < quota,
        "{lines:#?}"
    );
    assert!(quota < line("echo 15000 > "), "{lines:#?}");
    assert_eq!(file(&kernel, &container, "cpu.max.burst"), "15000");
    enforcer
        .change("one", &interface(30, 100, 80, &[1]))
        .unwrap();
    assert_eq!(file(&kernel, &container, "cpu.max.burst"), "15000");
    enforcer.revert("one").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn what_the_kernel_does_not_take_is_refused_before() {
    let (kernel, directory) = (host(), state_directory());
    let mut able = enforcer(&kernel, directory.path());
    let refused = able.plan(&[bursting(process(), &[1], 21)]).unwrap_err();
    assert!(refused.to_string().contains("quota"), "{refused}");
    able.apply(&[bursting(process(), &[1], 15)]).unwrap();
    let refused = able
        .change("one", &interface(10, 100, 80, &[1]))
        .unwrap_err();
    assert!(refused.to_string().contains("quota"), "{refused}");
    able.revert("one").unwrap();
    drop(able);
    let old = kernel.host().without(&[Feature::QuotaBurst]);
    let old = enforcer_on(&kernel, old, directory.path());
    let missing = old.plan(&[bursting(process(), &[1], 15)]).unwrap_err();
    assert!(missing.to_string().contains("cpu.max.burst"), "{missing}");
    assert!(old.plan(&[one(BackendKind::CfsQuota)]).is_ok());
}
