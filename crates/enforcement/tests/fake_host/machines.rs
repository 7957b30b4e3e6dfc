//! Virtual machines whose threads libvirt keeps in cgroups of its own.

use std::path::Path;

use super::fake_kernel::{CPU_ROOT, FakeKernel, V2_ROOT};
use tailbound_enforcement::{KernelView, MachineThreads, SchedulingSetting, Target};
use tailbound_model::{BackendKind, Cpu, ResourceInterface};

use super::stage::*;

/// Process 300 as a machine whose only virtual CPU is thread 301, as libvirt keeps it: each kind of thread in
/// a cgroup of its own, in every hierarchy.
fn machine_of_libvirt(kernel: &FakeKernel) -> Target {
    kernel.alter(|state| {
        for root in [V2_ROOT, CPU_ROOT].map(Path::new) {
            let files = state.cgroups[root].clone();
            let machine = root.join("machine");
            let groups = [
                (300, machine.join("emulator")),
                (301, machine.join("vcpu0")),
            ];
            state.cgroups.insert(machine, files.clone());
            for (tid, group) in groups {
                state.cgroups.insert(group.clone(), files.clone());
                let thread = state.threads.get_mut(&tid).unwrap();
                thread.cgroups.insert(root.into(), group);
            }
        }
    });
    Target::Machine(MachineThreads {
        vcpus: vec![301],
        emulator: vec![300],
        emulator_cpus: [Cpu(0)].into(),
    })
}

#[test]
fn a_machine_of_libvirt_stays_in_its_groups_and_is_left_as_it_was() {
    let (kernel, directory) = (host(), state_directory());
    let target = machine_of_libvirt(&kernel);
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let reserved = interface(20, 100, 50, &[1]);
    let arm = request("arm", target, reserved, BackendKind::DsFreeze);
    enforcer.apply(&[arm]).unwrap();
    let at = |tid: u32, root: &str| kernel.cgroup_of(tid, Path::new(root)).unwrap();
    // Where libvirt put them, but for groups without real-time budget.
    assert_eq!(at(301, V2_ROOT), Path::new("/v2/machine/vcpu0"));
    assert_eq!(at(300, V2_ROOT), Path::new("/v2/machine/emulator"));
    assert_eq!(at(300, CPU_ROOT), Path::new(CPU_ROOT));
    assert_eq!(at(301, CPU_ROOT), Path::new(CPU_ROOT));
    let fifo = |tid| matches!(kernel.scheduling(tid), Ok(SchedulingSetting::Fifo { .. }));
    assert!(fifo(300) && fifo(301));
    enforcer
        .change("arm", &interface(10, 100, 50, &[1]))
        .unwrap();
    assert_eq!(at(301, V2_ROOT), Path::new("/v2/machine/vcpu0"));
    enforcer.revert("arm").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

#[test]
fn virtual_cpus_in_groups_of_libvirt_need_a_cpu_each() {
    let (kernel, directory) = (host(), state_directory());
    let target = machine_of_libvirt(&kernel);
    let two = interface(20, 100, 50, &[1, 2]);
    let enforcer = enforcer(&kernel, directory.path());
    // More CPUs than virtual CPUs, and fewer.
    let refused = |target: &Target, interface: &ResourceInterface| {
        let arm = request(
            "arm",
            target.clone(),
            interface.clone(),
            BackendKind::DsFreeze,
        );
        enforcer.plan(&[arm]).unwrap_err().to_string()
    };
    let refusal = refused(&target, &two);
    assert!(
        refusal.contains("cannot divide 1 threads among 2 CPUs"),
        "{refusal}"
    );
    kernel.add_process(500, 50, &[500, 501, 502]);
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let files = state.cgroups[v2].clone();
        for tid in [501, 502] {
            let group = v2.join("machine").join(tid.to_string());
            state.cgroups.insert(group.clone(), files.clone());
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(v2.into(), group);
        }
    });
    let target = Target::Machine(MachineThreads {
        vcpus: vec![501, 502],
        emulator: vec![500],
        emulator_cpus: [Cpu(0)].into(),
    });
    let refusal = refused(&target, &interface(20, 100, 50, &[1]));
    assert!(refusal.contains("each on a CPU of its own"), "{refusal}");
    let arm = request("arm", target, two, BackendKind::DsFreeze);
    let plans = enforcer.plan(&[arm]).unwrap();
    let groups: Vec<_> = plans[0].managers.iter().map(|one| &one.cgroup).collect();
    assert_eq!(
        groups,
        [Path::new("/v2/machine/501"), Path::new("/v2/machine/502")]
    );
}
