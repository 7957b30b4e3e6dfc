//! Real-time groups of cgroup v1 on this host.

use std::path::PathBuf;

use tailbound_enforcement::admission::{Standing, admit};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::{HostCapabilities, capabilities::Feature, cgroup};
use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_time::Duration;

use crate::alone;

/// A group that goes with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = cgroup::remove(&self.0);
    }
}

/// Half of CPU `cpu`.
fn half(cpu: u32) -> Standing {
    Standing::from_start(ReservationRequest {
        domain: format!("half-{cpu}"),
        target: Target::Processes(vec![1]),
        interface: ResourceInterface {
            budget: Duration::from_millis(500),
            period: Duration::from_secs(1),
            priority: Priority(50),
            cpus: [Cpu(cpu)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        backend: BackendKind::RtGroup,
        options: BackendOptions::default(),
        interference: Default::default(),
    })
}

#[test]
fn admission_refuses_on_two_cpus_what_the_kernel_refuses() {
    let _alone = alone();
    let host = HostCapabilities::probe();
    let root = host.cgroup_v1_roots.get("cpu");
    let root = root.filter(|_| host.has(Feature::RtRuntimeV1) && host.rt_share().is_some());
    let Some(root) = root else {
        eprintln!(
            "SKIP admission_refuses_on_two_cpus_what_the_kernel_refuses: needs cpu.rt_runtime_us of cgroup v1"
        );
        return;
    };
    let groups = [0, 1].map(|number| {
        let name = format!("tailbound-test-half-{number}-{}", std::process::id());
        Group(root.join(name))
    });
    let written = groups.each_ref().map(|Group(directory)| {
        cgroup::make(directory).unwrap();
        cgroup::write_control(&directory.join("cpu.rt_runtime_us"), "500000")
    });
    assert!(written[0].is_ok() && written[1].is_err(), "{written:?}");
    assert!(admit(&[], &[half(0)], &host).is_ok());
    assert!(admit(&[], &[half(0), half(1)], &host).is_err());
}
