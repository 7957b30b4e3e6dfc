//! Groups with bandwidths that the kernel books on every CPU, `hcbs` and `rt-group`, over a kernel in memory that has both.

use std::path::Path;

use tailbound_enforcement::{AdmissionError, SchedulingSetting};
use tailbound_enforcement::{AdmissionRefusal, EnforcementError, ReservationRequest, Target};
use tailbound_model::BackendKind;

use super::fake_kernel::{FakeKernel, V2_ROOT};
use super::stage::*;

fn on_cpu(domain: &str, pid: u32, budget_ms: u64, cpu: u32) -> ReservationRequest {
    let target = Target::Processes(vec![pid]);
    let interface = interface(budget_ms, 100, 50, &[cpu]);
    request(domain, target, interface, BackendKind::Hcbs)
}

fn bandwidth(kernel: &FakeKernel, group: &str) -> String {
    kernel.snapshot().cgroups[Path::new(group)]["cpu.rt.max"].clone()
}

fn container(kernel: &FakeKernel) -> ReservationRequest {
    kernel.alter(|state| {
        let thread = state.threads.get_mut(&300).unwrap();
        thread.scheduling = SchedulingSetting::Other { nice: 0 };
    });
    let target = Target::Cgroup(CONTAINER.into());
    request(
        "container",
        target,
        interface(20, 100, 50, &[1]),
        BackendKind::Hcbs,
    )
}

#[test]
fn the_kernel_s_root_group_keeps_its_bandwidth() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let requests = [on_cpu("a", 100, 20, 1), on_cpu("b", 200, 30, 2)];
    enforcer.apply(&requests).unwrap();
    assert_eq!(bandwidth(&kernel, V2_ROOT), "700000 1000000");
    assert_eq!(bandwidth(&kernel, "/v2/tailbound/b"), "30000 100000");
    enforcer.revert("a").unwrap();
    enforcer.revert("b").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn bandwidths_on_different_cpus_have_one_bound() {
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[on_cpu("a", 100, 40, 1)]).unwrap();
    let refused = enforcer.plan(&[on_cpu("b", 200, 31, 2)]).unwrap_err();
    let text = refused.to_string();
    let EnforcementError::Refused(AdmissionError::NoRoom(AdmissionRefusal::TooMuch {
        fits, ..
    })) = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(fits, interface(30, 100, 50, &[2]).budget);
    assert!(text.contains("700000 of 1000000"), "{text}");
    enforcer.apply(&[on_cpu("b", 200, 30, 2)]).unwrap();
    // A change grows into what is left of the bound, on whichever CPU.
    let grown = interface(41, 100, 50, &[1]);
    assert!(enforcer.change("a", &grown).is_err());
}

/// Admission knows the reservations of ours only; the kernel knows all groups.
#[test]
fn groups_of_others_make_the_kernel_refuse_and_nothing_is_left() {
    let (kernel, directory) = (host(), state_directory());
    kernel.alter(|state| {
        let files = state.cgroups[&Path::new(V2_ROOT).join(CONTAINER)].clone();
        let theirs = Path::new("/v2/theirs").to_owned();
        state.cgroups.insert(theirs.clone(), files);
        let files = state.cgroups.get_mut(&theirs).unwrap();
        files.insert("cpu.rt.max".into(), "55000 100000".into());
    });
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let refused = enforcer.apply(&[on_cpu("a", 100, 20, 1)]).unwrap_err();
    assert!(refused.to_string().contains("cpu.rt.max"), "{refused}");
    assert_eq!(kernel.snapshot(), before);
    enforcer.apply(&[on_cpu("a", 100, 15, 1)]).unwrap();
}

#[test]
fn a_container_s_own_group_gets_the_server_and_loses_it_again() {
    let (kernel, directory) = (host(), state_directory());
    let request = container(&kernel);
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[request]).unwrap();
    let group = format!("{V2_ROOT}/{CONTAINER}");
    assert_eq!(bandwidth(&kernel, &group), "20000 100000");
    enforcer
        .change("container", &interface(30, 60, 70, &[1]))
        .unwrap();
    assert_eq!(bandwidth(&kernel, &group), "30000 60000");
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn a_container_with_real_time_threads_of_its_own_is_refused() {
    let (kernel, directory) = (host(), state_directory());
    let request = container(&kernel);
    kernel.alter(|state| {
        let own = SchedulingSetting::RoundRobin {
            priority: 3,
            reset_on_fork: false,
        };
        state.threads.get_mut(&301).unwrap().scheduling = own;
    });
    let enforcer = enforcer(&kernel, directory.path());
    let refused = enforcer.plan(&[request]).unwrap_err().to_string();
    assert!(
        refused.contains("real-time thread is there: 301"),
        "{refused}"
    );
}

/// The kernel books the groups of cgroup v1 on every CPU as well, and admission refuses before it would.
#[test]
fn legacy_groups_on_different_cpus_have_one_bound() {
    let of_group = |domain: &str, pid: u32, budget_ms: u64, cpu: u32| {
        let mut request = on_cpu(domain, pid, budget_ms, cpu);
        request.backend = BackendKind::RtGroup;
        request
    };
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    enforcer.apply(&[of_group("a", 100, 60, 1)]).unwrap();
    let writes = kernel.writes();
    let refused = enforcer.apply(&[of_group("b", 200, 36, 2)]).unwrap_err();
    let text = refused.to_string();
    assert!(
        matches!(refused, EnforcementError::Refused(AdmissionError::NoRoom(AdmissionRefusal::TooMuch { fits, .. }))
            if fits == interface(35, 100, 50, &[2]).budget),
        "{text}"
    );
    assert!(
        text.contains("for the groups of all CPUs together"),
        "{text}"
    );
    assert_eq!(kernel.writes(), writes, "the kernel is not asked");
    enforcer.apply(&[of_group("b", 200, 35, 2)]).unwrap();
    enforcer.revert_all().unwrap();
    assert_eq!(kernel.snapshot(), before);
}
