//! A host in memory, with processes to reserve for.

use std::path::Path;

use super::fake_kernel::{FakeKernel, FakeManagers, V2_ROOT};
use tailbound_enforcement::{Enforcer, ReservationRequest, SchedulingSetting, Target};
use tailbound_linux::HostCapabilities;
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface, Window,
};
use tailbound_time::Duration;

/// The processes of [`host`], with their threads.
pub const PROCESSES: [(u32, &[u32]); 4] = [
    (100, &[100, 101, 102]),
    (200, &[200]),
    (300, &[300, 301]),
    (400, &[400]),
];
pub const CONTAINER: &str = "machine/one";

/// A host with some processes, two of them in a container's cgroup.
pub fn host() -> FakeKernel {
    let kernel = FakeKernel::new();
    for (pid, threads) in PROCESSES {
        kernel.add_process(pid, 50, threads);
    }
    kernel.alter(|state| {
        let v2 = Path::new(V2_ROOT);
        let mut files = state.cgroups[v2].clone();
        files.insert("cpu.rt.max".into(), "max 0".into());
        for path in [v2.join("machine"), v2.join(CONTAINER)] {
            state.cgroups.insert(path, files.clone());
        }
        for tid in [300, 301, 400] {
            let thread = state.threads.get_mut(&tid).unwrap();
            thread.cgroups.insert(v2.into(), v2.join(CONTAINER));
        }
        let niced = SchedulingSetting::Batch { nice: 5 };
        state.threads.get_mut(&101).unwrap().scheduling = niced;
        state.threads.get_mut(&200).unwrap().affinity = [Cpu(0), Cpu(2)].into();
    });
    kernel
}

/// A directory for journals, in memory where possible.
pub fn state_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub fn enforcer(kernel: &FakeKernel, directory: &Path) -> Enforcer {
    enforcer_with(kernel, FakeManagers::default(), directory)
}

pub fn enforcer_with(kernel: &FakeKernel, managers: FakeManagers, directory: &Path) -> Enforcer {
    let host = kernel.host();
    let (kernel, managers) = (Box::new(kernel.clone()), Box::new(managers));
    Enforcer::with_parts(host, kernel, managers, directory.into()).unwrap()
}

/// An enforcer where some features are hidden.
pub fn enforcer_on(kernel: &FakeKernel, host: HostCapabilities, directory: &Path) -> Enforcer {
    let (kernel, managers) = (Box::new(kernel.clone()), Box::new(FakeManagers::default()));
    Enforcer::with_parts(host, kernel, managers, directory.into()).unwrap()
}

pub fn window(offset: Duration, length: Duration) -> Window {
    Window { offset, length }
}

pub fn interface(budget_ms: u64, period_ms: u64, priority: u8, cpus: &[u32]) -> ResourceInterface {
    ResourceInterface {
        budget: Duration::from_millis(budget_ms),
        period: Duration::from_millis(period_ms),
        priority: Priority(priority),
        cpus: cpus.iter().copied().map(Cpu).collect(),
        budget_scope: BudgetScope::EachCpu,
        windows: Vec::new(),
        slack: Vec::new(),
    }
}

/// The request for an interface, whose budget a time partition has in one window at the begin of the frame.
pub fn request(
    domain: &str,
    target: Target,
    mut interface: ResourceInterface,
    backend: BackendKind,
) -> ReservationRequest {
    if backend.has_windows() {
        interface.windows = vec![window(Duration::ZERO, interface.budget)];
    }
    ReservationRequest {
        domain: domain.into(),
        target,
        interface,
        backend,
        options: BackendOptions::default(),
        interference: Default::default(),
    }
}

pub const KINDS: [BackendKind; 10] = [
    BackendKind::DsFreeze,
    BackendKind::Deadline,
    BackendKind::RtGroup,
    BackendKind::Hcbs,
    BackendKind::CfsQuota,
    BackendKind::Fifo,
    BackendKind::Nice,
    BackendKind::Weight,
    BackendKind::Dedicated,
    BackendKind::None,
];

/// One request per back end, on whichever target it takes.
pub fn one(kind: BackendKind) -> ReservationRequest {
    let pid = if kind == BackendKind::Deadline {
        200
    } else {
        100
    };
    request(
        "one",
        Target::Processes(vec![pid]),
        interface(20, 100, 80, &[1]),
        kind,
    )
}

/// Requests that fit together, on targets of all kinds.
pub fn several() -> Vec<ReservationRequest> {
    vec![
        request(
            "web",
            Target::Processes(vec![100]),
            interface(4, 10, 90, &[1]),
            BackendKind::DsFreeze,
        ),
        request(
            "db",
            Target::Processes(vec![200]),
            interface(40, 100, 80, &[2]),
            BackendKind::Deadline,
        ),
        request(
            "vcpu0",
            Target::Threads(vec![300]),
            interface(20, 100, 50, &[1]),
            BackendKind::DsFreeze,
        ),
        request(
            "vcpu1",
            Target::Threads(vec![301]),
            interface(20, 100, 50, &[3]),
            BackendKind::RtGroup,
        ),
        request(
            "batch",
            Target::Cgroup(CONTAINER.into()),
            interface(20, 100, 50, &[0]),
            BackendKind::CfsQuota,
        ),
    ]
}
