//! Processes of a service manager's unit, over a kernel in memory.

use std::path::{Path, PathBuf};

use tailbound_enforcement::{Enforcer, KernelView};
use tailbound_linux::capabilities::Feature;
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::fake_kernel::{DELEGATION_MARK, FakeKernel, V2_ROOT};
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

/// The back ends that rule a group by the cpu controller.
const OF_GROUPS: [BackendKind; 3] = [
    BackendKind::CfsQuota,
    BackendKind::Weight,
    BackendKind::Hcbs,
];

/// An enforcer of a host that has cgroup v2 alone.
fn enforcer_of_v2(kernel: &FakeKernel, directory: &Path) -> Enforcer {
    let legacy = [Feature::QuotaV1, Feature::CpusetV1, Feature::RtRuntimeV1];
    let mut host = kernel.host().without(&legacy);
    host.cgroup_v1_roots.clear();
    enforcer_on(kernel, host, directory)
}

/// Has the manager leave the groups below the unit's to the unit.
fn delegate(kernel: &FakeKernel) {
    kernel.alter(|state| {
        let files = state.cgroups.get_mut(Path::new(UNIT)).unwrap();
        files.insert(DELEGATION_MARK.into(), "1".into());
    });
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

#[test]
fn no_back_end_takes_processes_out_of_their_unit() {
    for kind in OF_GROUPS {
        let (kernel, directory) = (host_with_unit(), state_directory());
        let before = kernel.snapshot();
        let mut enforcer = enforcer_of_v2(&kernel, directory.path());
        let refused = enforcer.apply(&[one(kind)]).unwrap_err().to_string();
        let named = refused.contains("out of one.service")
            && refused.contains("tailbound apply --unit one.service");
        assert!(named, "{kind}: {refused}");
        assert_eq!(kernel.snapshot(), before, "{kind}");
    }
}

#[test]
fn a_unit_that_has_its_groups_to_itself_gets_one_below_its_own() {
    for kind in OF_GROUPS {
        let (kernel, directory) = (host_with_unit(), state_directory());
        delegate(&kernel);
        let before = kernel.snapshot();
        let mut enforcer = enforcer_of_v2(&kernel, directory.path());
        let request = one(kind);
        enforcer.apply(std::slice::from_ref(&request)).unwrap();
        let group = Path::new(UNIT).join("tailbound/one");
        assert_eq!(group_of(&kernel, 102), group, "{kind}");
        if kind.has_budget() {
            let mut interface = request.interface;
            interface.budget += Duration::from_micros(100);
            enforcer.change("one", &interface).unwrap();
            assert_eq!(group_of(&kernel, 102), group, "{kind}");
        }
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind}");
    }
}

#[test]
fn a_unit_with_other_processes_or_groups_keeps_all_of_its_own() {
    let other_process = |kernel: &FakeKernel| {
        kernel.add_process(110, 50, &[110]);
        kernel.alter(|state| {
            let thread = state.threads.get_mut(&110).unwrap();
            thread.cgroups.insert(V2_ROOT.into(), UNIT.into());
        });
    };
    let other_group = |kernel: &FakeKernel| {
        kernel.alter(|state| {
            let files = state.cgroups[Path::new(UNIT)].clone();
            state.cgroups.insert(Path::new(UNIT).join("own"), files);
        });
    };
    for add in [&other_process as &dyn Fn(&FakeKernel), &other_group] {
        let (kernel, directory) = (host_with_unit(), state_directory());
        delegate(&kernel);
        add(&kernel);
        let enforcer = enforcer_of_v2(&kernel, directory.path());
        let refused = enforcer.plan(&[one(BackendKind::Weight)]).unwrap_err();
        assert!(refused.to_string().contains("one.service"), "{refused}");
    }
}

#[test]
fn processes_of_a_container_are_not_taken_out_of_it() {
    let (kernel, directory) = (host(), state_directory());
    let enforcer = enforcer_of_v2(&kernel, directory.path());
    let mut request = one(BackendKind::CfsQuota);
    request.target = tailbound_enforcement::Target::Processes(vec![400]);
    let refused = enforcer.plan(&[request]).unwrap_err().to_string();
    assert!(
        refused.contains("cgroup = \"machine/one\" in place of the processes"),
        "{refused}"
    );
}

#[test]
fn processes_of_a_login_session_may_leave_it() {
    let (kernel, directory) = (host_with_unit(), state_directory());
    let session = Path::new("/v2/system.slice/session-3.scope");
    kernel.alter(|state| {
        let files = state.cgroups[Path::new(UNIT)].clone();
        state.cgroups.insert(session.into(), files);
        for tid in [100, 101, 102] {
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(V2_ROOT.into(), session.into());
        }
    });
    let before = kernel.snapshot();
    let mut enforcer = enforcer_of_v2(&kernel, directory.path());
    enforcer.apply(&[one(BackendKind::CfsQuota)]).unwrap();
    assert_eq!(group_of(&kernel, 102), Path::new("/v2/tailbound/one"));
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}
