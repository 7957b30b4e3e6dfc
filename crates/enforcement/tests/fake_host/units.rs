//! Processes of a service manager's unit, over a kernel in memory.

use std::path::{Path, PathBuf};

use tailbound_enforcement::KernelView;
use tailbound_linux::capabilities::Feature;
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::fake_kernel::{FakeKernel, V2_ROOT};
use super::stage::*;

const UNIT: &str = "/v2/system.slice/one.service";

/// A host on which process 100 is in a unit.
fn host_with_unit() -> FakeKernel {
    let kernel = host();
    kernel.alter(|state| {
        let files = state.cgroups[&Path::new(V2_ROOT).join(CONTAINER)].clone();
        for group in ["/v2/system.slice", UNIT] {
            state.cgroups.insert(group.into(), files.clone());
        }
        for tid in [100, 101, 102] {
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(V2_ROOT.into(), UNIT.into());
        }
    });
    kernel
}

fn group_of(kernel: &FakeKernel, tid: u32) -> PathBuf {
    kernel.cgroup_of(tid, Path::new(V2_ROOT)).unwrap()
}

#[test]
fn reserved_processes_stay_in_their_unit() {
    let (kernel, directory) = (host_with_unit(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let request = one(BackendKind::DsFreeze);
    enforcer.apply(std::slice::from_ref(&request)).unwrap();
    let group = Path::new(UNIT).join("tailbound/one");
    assert_eq!(group_of(&kernel, 102), group);
    // A change of all that lies in the kernel finds it there.
    let mut interface = request.interface;
    interface.priority.0 -= 10;
    interface.budget += Duration::from_micros(100);
    enforcer.change("one", &interface).unwrap();
    assert_eq!(group_of(&kernel, 102), group);
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn processes_of_several_units_share_a_group_at_the_root() {
    let (kernel, directory) = (host_with_unit(), state_directory());
    kernel.add_process(110, 100, &[110]);
    kernel.alter(|state| {
        let thread = state.threads.get_mut(&110).unwrap();
        thread
            .cgroups
            .insert(V2_ROOT.into(), Path::new(V2_ROOT).join(CONTAINER));
    });
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let mut request = one(BackendKind::DsFreeze);
    request.target = tailbound_enforcement::Target::Processes(vec![100, 110]);
    enforcer.apply(&[request]).unwrap();
    for tid in [100, 110] {
        assert_eq!(group_of(&kernel, tid), Path::new("/v2/tailbound/one"));
    }
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn a_unit_is_given_no_controllers() {
    let (kernel, directory) = (host_with_unit(), state_directory());
    let before = kernel.snapshot();
    let host = kernel.host().without(&[Feature::CpusetV1]);
    let mut enforcer = enforcer_on(&kernel, host, directory.path());
    let plans = enforcer.apply(&[one(BackendKind::DsFreeze)]).unwrap();
    let mapping = plans[0].mapping.join("\n");
    assert!(mapping.contains("no cpuset"), "{mapping}");
    let files = &kernel.snapshot().cgroups;
    for group in [Path::new(V2_ROOT), Path::new(UNIT)] {
        let now = files[group].get("cgroup.subtree_control");
        assert_eq!(now, before.cgroups[group].get("cgroup.subtree_control"));
    }
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}
