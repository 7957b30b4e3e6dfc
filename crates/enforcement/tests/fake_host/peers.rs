//! The kernel's own means: `fifo`, `nice` and `weight`.

use std::path::Path;

use super::fake_kernel::{CPU_ROOT, FakeKernel, V2_ROOT};
use tailbound_enforcement::{ReservationRequest, SchedulingSetting, Target};
use tailbound_linux::capabilities::Feature;
use tailbound_model::{BackendKind, BackendOptions, CpuWeight, NiceValue};

use super::stage::*;

fn with(kind: BackendKind, target: Target, options: BackendOptions) -> ReservationRequest {
    ReservationRequest {
        options,
        ..request("one", target, interface(20, 100, 80, &[1]), kind)
    }
}

fn process() -> Target {
    Target::Processes(vec![100])
}

fn policy(kernel: &FakeKernel, tid: u32) -> SchedulingSetting {
    kernel.snapshot().threads[&tid].scheduling
}

fn file(kernel: &FakeKernel, group: &Path, name: &str) -> String {
    kernel.snapshot().cgroups[group][name].clone()
}

#[test]
fn a_nice_value_is_for_ordinary_threads_and_is_taken_back() {
    let (kernel, directory) = (host(), state_directory());
    let real_time = SchedulingSetting::RoundRobin {
        priority: 40,
        reset_on_fork: false,
    };
    kernel.alter(|state| state.threads.get_mut(&102).unwrap().scheduling = real_time);
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    for (asked, given) in [(None, -20), (Some(NiceValue(7)), 7)] {
        let options = BackendOptions {
            nice: asked,
            ..BackendOptions::default()
        };
        enforcer
            .apply(&[with(BackendKind::Nice, process(), options)])
            .unwrap();
        assert_eq!(
            policy(&kernel, 100),
            SchedulingSetting::Other { nice: given }
        );
        assert_eq!(policy(&kernel, 101), SchedulingSetting::Batch { nice: 5 });
        assert_eq!(policy(&kernel, 102), real_time);
        enforcer.revert("one").unwrap();
        assert_eq!(kernel.snapshot(), before);
    }
}

#[test]
fn a_weight_is_written_as_the_hierarchy_counts_it() {
    let weight = |weight| BackendOptions {
        weight: Some(CpuWeight(weight)),
        ..BackendOptions::default()
    };
    let idle = BackendOptions {
        idle: Some(true),
        ..BackendOptions::default()
    };
    let cases = [
        (
            BackendOptions::default(),
            ("cpu.shares", "102400"),
            ("cpu.weight", "10000"),
        ),
        (weight(1), ("cpu.shares", "10"), ("cpu.weight", "1")),
        (weight(200), ("cpu.shares", "2048"), ("cpu.weight", "200")),
        (idle, ("cpu.idle", "1"), ("cpu.idle", "1")),
    ];
    for (options, in_v1, in_v2) in cases {
        let groups = [
            (Path::new(CPU_ROOT).join("tailbound-one"), in_v1, vec![]),
            (
                Path::new(V2_ROOT).join("tailbound/one"),
                in_v2,
                vec![Feature::QuotaV1],
            ),
        ];
        for (group, (name, value), hidden) in groups {
            let (kernel, directory) = (host(), state_directory());
            let before = kernel.snapshot();
            let seen = kernel.host().without(&hidden);
            let mut enforcer = enforcer_on(&kernel, seen, directory.path());
            enforcer
                .apply(&[with(BackendKind::Weight, process(), options)])
                .unwrap();
            assert_eq!(file(&kernel, &group, name), value, "{}", group.display());
            enforcer.revert("one").unwrap();
            assert_eq!(kernel.snapshot(), before);
        }
    }
}

#[test]
fn a_container_gets_its_own_weight_back() {
    let (kernel, directory) = (host(), state_directory());
    let container = Path::new(V2_ROOT).join(CONTAINER);
    kernel.alter(|state| {
        let files = state.cgroups.get_mut(&container).unwrap();
        files.insert("cpu.weight".into(), "39".into());
    });
    let before = kernel.snapshot();
    let seen = kernel.host().without(&[Feature::QuotaV1]);
    let mut enforcer = enforcer_on(&kernel, seen, directory.path());
    let target = Target::Cgroup(CONTAINER.into());
    enforcer
        .apply(&[with(BackendKind::Weight, target, BackendOptions::default())])
        .unwrap();
    assert_eq!(file(&kernel, &container, "cpu.weight"), "10000");
    enforcer.revert("one").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn groups_that_only_idle_need_a_kernel_that_has_them() {
    let (kernel, directory) = (host(), state_directory());
    let old = kernel.host().without(&[Feature::IdleGroups]);
    let old = enforcer_on(&kernel, old, directory.path());
    let idle = BackendOptions {
        idle: Some(true),
        ..BackendOptions::default()
    };
    let missing = old.plan(&[with(BackendKind::Weight, process(), idle)]);
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("cpu.idle"), "{missing}");
    assert!(old.plan(&[one(BackendKind::Weight)]).is_ok());
}

/// A runaway without a budget takes the time of those below it, and makes the kernel throttle those above it.
#[test]
fn a_priority_without_a_budget_shares_no_cpu_with_a_reservation() {
    for reserved in [BackendKind::DsFreeze, BackendKind::RtGroup] {
        for priority in [30, 90] {
            let unbounded = request(
                "unbounded",
                Target::Processes(vec![200]),
                interface(100, 100, priority, &[1]),
                BackendKind::Fifo,
            );
            for together in [
                [one(reserved), unbounded.clone()],
                [unbounded.clone(), one(reserved)],
            ] {
                let (kernel, directory) = (host(), state_directory());
                let mut enforcer = enforcer(&kernel, directory.path());
                let refused = enforcer.apply(&together).unwrap_err().to_string();
                assert!(refused.contains("without a budget"), "{refused}");
            }
        }
    }
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let mut elsewhere = one(BackendKind::Fifo);
    elsewhere.domain = "elsewhere".into();
    elsewhere.target = Target::Processes(vec![200]);
    elsewhere.interface.cpus = interface(20, 100, 80, &[2]).cpus;
    enforcer
        .apply(&[one(BackendKind::DsFreeze), elsewhere])
        .unwrap();
}
