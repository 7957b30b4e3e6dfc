//! Reservations whose members end, and come back.

use std::path::{Path, PathBuf};

use super::fake_kernel::{FakeKernel, V2_ROOT};
use tailbound_enforcement::{
    CgroupName, Enforcer, NamedCgroup, ReservationRequest, SchedulingSetting, Sight, Target,
};
use tailbound_model::BackendKind;

use super::stage::*;

const KINDS_FOR_CONTAINERS: [BackendKind; 2] = [BackendKind::DsFreeze, BackendKind::CfsQuota];

fn container(kind: BackendKind) -> ReservationRequest {
    request(
        "container",
        Target::Cgroup(CONTAINER.into()),
        interface(70, 100, 50, &[1]),
        kind,
    )
}

fn sight(enforcer: &Enforcer, kernel: &FakeKernel) -> Sight {
    enforcer.probes()[0].look(kernel)
}

/// Ends the container's processes.
fn end_container(kernel: &FakeKernel) {
    kernel.end_process(300);
    kernel.end_process(400);
}

/// A process in the container's cgroup, as its runtime starts one.
fn start_in_container(kernel: &FakeKernel, pid: u32) {
    kernel.add_process(pid, 50, &[pid]);
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let files = state.cgroups[v2].clone();
        state.cgroups.entry(v2.join(CONTAINER)).or_insert(files);
        let thread = state.threads.get_mut(&pid).unwrap();
        thread.cgroups.insert(v2.into(), v2.join(CONTAINER));
    });
}

/// Moves a process of the container to a group below its own.
fn move_below_container(kernel: &FakeKernel, pids: &[u32], name: &str) -> PathBuf {
    let (v2, below) = (
        Path::new(V2_ROOT),
        Path::new(V2_ROOT).join(CONTAINER).join(name),
    );
    kernel.alter(|state| {
        let files = state.cgroups[v2].clone();
        state.cgroups.insert(below.clone(), files);
        for pid in pids {
            let thread = state.threads.get_mut(pid).unwrap();
            thread.cgroups.insert(v2.into(), below.clone());
        }
    });
    below
}

fn remove_container(kernel: &FakeKernel) {
    kernel.alter(|state| {
        let path: PathBuf = Path::new(V2_ROOT).join(CONTAINER);
        state.cgroups.remove(&path);
    });
}

#[test]
fn processes_that_ended_are_seen_and_their_numbers_are_not_enough() {
    for kind in KINDS {
        if kind == BackendKind::None {
            continue;
        }
        let (kernel, directory) = (host(), state_directory());
        let mut enforcer = enforcer(&kernel, directory.path());
        enforcer.apply(&[one(kind)]).unwrap();
        assert_eq!(sight(&enforcer, &kernel), Sight::Members, "{kind:?}");
        let pid = if kind == BackendKind::Deadline {
            200
        } else {
            100
        };
        kernel.end_process(pid);
        assert_eq!(sight(&enforcer, &kernel), Sight::Nobody, "{kind:?}");
        // A stranger of the same number, started later, outside.
        kernel.add_process(pid, 50, &[pid]);
        kernel.alter(|state| state.threads.get_mut(&pid).unwrap().started += 1);
        assert_eq!(sight(&enforcer, &kernel), Sight::Nobody, "{kind:?}");
        enforcer.revert_all().unwrap();
    }
}

#[test]
fn a_container_that_is_started_anew_gets_its_reservation_anew() {
    for kind in KINDS_FOR_CONTAINERS {
        for vanishes in [false, true] {
            let (kernel, directory) = (host(), state_directory());
            let mut enforcer = enforcer(&kernel, directory.path());
            enforcer.apply(&[container(kind)]).unwrap();
            assert_eq!(sight(&enforcer, &kernel), Sight::Members);
            end_container(&kernel);
            assert_eq!(sight(&enforcer, &kernel), Sight::Nobody);
            if vanishes {
                remove_container(&kernel);
            }
            let empty = kernel.snapshot();
            enforcer.detach("container").unwrap();
            // Nothing of ours is left, but the budget is booked.
            let left = kernel.snapshot();
            assert_eq!(left.threads, empty.threads);
            let freeze = left.cgroups.get(&Path::new(V2_ROOT).join(CONTAINER));
            assert_eq!(freeze.is_none(), vanishes);
            assert!(freeze.is_none_or(|files| files["cgroup.freeze"] == "0"));
            let more = interface(70, 100, 50, &[1]);
            let other = request("other", Target::Processes(vec![200]), more, kind);
            let refusal = enforcer.plan(std::slice::from_ref(&other)).unwrap_err();
            assert!(refusal.to_string().contains("container"), "{refusal}");
            assert_eq!(sight(&enforcer, &kernel), Sight::Nobody);

            start_in_container(&kernel, 500);
            let fresh = kernel.snapshot();
            assert_eq!(sight(&enforcer, &kernel), Sight::Strangers, "{kind:?}");
            enforcer.bind("container").unwrap();
            assert_eq!(sight(&enforcer, &kernel), Sight::Members, "{kind:?}");
            if kind == BackendKind::DsFreeze {
                let fifo = SchedulingSetting::Fifo {
                    priority: 50,
                    reset_on_fork: true,
                };
                assert_eq!(kernel.snapshot().threads[&500].scheduling, fifo);
            }
            enforcer.revert_all().unwrap();
            assert_eq!(kernel.snapshot(), fresh, "{kind:?} {vanishes}");
        }
    }
}

#[test]
fn binding_that_fails_anywhere_keeps_the_budget_booked() {
    for kind in KINDS_FOR_CONTAINERS {
        for refused in 0.. {
            let (kernel, directory) = (host(), state_directory());
            let mut enforcer = enforcer(&kernel, directory.path());
            enforcer.apply(&[container(kind)]).unwrap();
            end_container(&kernel);
            enforcer.detach("container").unwrap();
            start_in_container(&kernel, 500);
            let fresh = kernel.snapshot();
            kernel.refuse_at(Some(refused));
            let outcome = enforcer.bind("container");
            let done = kernel.writes() <= refused;
            kernel.refuse_at(None);
            if done {
                outcome.unwrap();
                enforcer.revert_all().unwrap();
                break;
            }
            outcome.unwrap_err();
            assert_eq!(kernel.snapshot(), fresh, "{kind:?} {refused}");
            assert_eq!(enforcer.status().domains.len(), 1);
            enforcer.bind("container").unwrap();
            assert_eq!(sight(&enforcer, &kernel), Sight::Members);
        }
    }
}

#[test]
fn a_container_with_processes_in_several_groups_is_refused() {
    let (kernel, directory) = (host(), state_directory());
    move_below_container(&kernel, &[400], "inner");
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let refusal = enforcer
        .apply(&[container(BackendKind::DsFreeze)])
        .unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("name the cgroup of one of them") && text.contains("inner"),
        "{text}"
    );
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn the_group_that_a_container_s_processes_are_in_is_not_stopped_itself() {
    for name in ["inner", "tailbound"] {
        let (kernel, directory) = (host(), state_directory());
        let home = move_below_container(&kernel, &[300, 301, 400], name);
        let before = kernel.snapshot();
        let mut enforcer = enforcer(&kernel, directory.path());
        let mut request = container(BackendKind::DsFreeze);
        request.target = Target::Cgroup(format!("{CONTAINER}/{name}").into());
        let plans = enforcer.apply(&[request]).unwrap();
        assert_eq!(plans[0].managers[0].cgroup, home.join("tailbound"));
        assert_eq!(kernel.snapshot().cgroups[&home], before.cgroups[&home]);
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), before, "{name}");
    }
}

/// Has a name belong to a cgroup below the root, with a process in it.
fn start_named(kernel: &FakeKernel, name: &CgroupName, cgroup: &str, pid: u32) {
    kernel.add_process(pid, 50, &[pid]);
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let (files, directory) = (state.cgroups[v2].clone(), v2.join(cgroup));
        state.cgroups.insert(directory.clone(), files);
        let thread = state.threads.get_mut(&pid).unwrap();
        thread.cgroups.insert(v2.into(), directory.clone());
        state.names.insert(name.clone(), directory);
    });
}

/// Has nothing run under a name any more.
fn end_named(kernel: &FakeKernel, name: &CgroupName, pid: u32) {
    kernel.end_process(pid);
    kernel.alter(|state| {
        state.names.remove(name);
    });
}

#[test]
fn a_named_container_is_found_in_the_cgroup_of_its_name() {
    for kind in KINDS_FOR_CONTAINERS {
        let (kernel, directory) = (host(), state_directory());
        let name = CgroupName::Container("redis".into());
        let mut enforcer = enforcer(&kernel, directory.path());
        let mut request = container(kind);
        // Whoever asks may have looked the name up too early.
        request.target = Target::NamedCgroup(NamedCgroup {
            name: name.clone(),
            cgroup: "machine/before".into(),
        });
        let refusal = enforcer.apply(std::slice::from_ref(&request)).unwrap_err();
        assert!(refusal.to_string().contains("redis"), "{refusal}");
        start_named(&kernel, &name, "machine/first", 500);
        let before = kernel.snapshot();
        let plans = enforcer.apply(&[request]).unwrap();
        let cgroup = plans[0].request.target.cgroup();
        assert_eq!(cgroup, Some(Path::new("machine/first")));
        assert_eq!(sight(&enforcer, &kernel), Sight::Members);
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), before, "{kind:?}");
    }
}

#[test]
fn a_named_container_that_is_started_anew_elsewhere_gets_its_reservation_anew() {
    for kind in KINDS_FOR_CONTAINERS {
        let (kernel, directory) = (host(), state_directory());
        let name = CgroupName::Container("redis".into());
        start_named(&kernel, &name, "machine/first", 500);
        let mut enforcer = enforcer(&kernel, directory.path());
        let mut request = container(kind);
        request.target = Target::NamedCgroup(NamedCgroup {
            name: name.clone(),
            cgroup: "machine/first".into(),
        });
        enforcer.apply(&[request]).unwrap();
        end_named(&kernel, &name, 500);
        assert_eq!(sight(&enforcer, &kernel), Sight::Nobody);
        enforcer.detach("container").unwrap();
        assert_eq!(sight(&enforcer, &kernel), Sight::Nobody);
        // There is nothing to be bound to: the budget stays booked.
        enforcer.bind("container").unwrap_err();
        assert_eq!(sight(&enforcer, &kernel), Sight::Nobody);

        start_named(&kernel, &name, "machine/second", 600);
        let fresh = kernel.snapshot();
        assert_eq!(sight(&enforcer, &kernel), Sight::Strangers, "{kind:?}");
        let plan = enforcer.bind("container").unwrap();
        let cgroup = plan.request.target.cgroup();
        assert_eq!(cgroup, Some(Path::new("machine/second")));
        assert_eq!(sight(&enforcer, &kernel), Sight::Members, "{kind:?}");
        enforcer.revert_all().unwrap();
        assert_eq!(kernel.snapshot(), fresh, "{kind:?}");
    }
}
