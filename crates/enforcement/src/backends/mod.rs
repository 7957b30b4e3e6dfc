//! The back ends: pure planners, one file each.

mod cfs_quota;
mod cpu_group;
pub(crate) mod deadline;
mod dedicated;
mod ds_freeze;
mod fifo;
mod hcbs;
mod nice;
mod none;
mod rt_group;
mod target;
mod time_partitions;
mod weight;
mod xen_rtds;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tailbound_linux::kernel_thread_trial::KernelThreadTrial;
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

pub use cfs_quota::CfsQuota;
pub use deadline::Deadline;
pub use dedicated::Dedicated;
pub use ds_freeze::DsFreeze;
pub use fifo::Fifo;
pub use hcbs::Hcbs;
pub use nice::Nice;
pub use none::Unreserved;
pub use rt_group::RtGroup;
pub(crate) use target::{TargetMembers, descendants, descendants_that};
pub use time_partitions::TimePartitions;
pub use weight::Weight;
pub use xen_rtds::XenRtds;
pub(crate) use xen_rtds::admit_vcpus;

use crate::error::AdmissionError;
use crate::kernel::KernelView;
use crate::{Backend, Change, MissingRequirement, ReservationRequest};

/// The names of the groups that hold a process whose single threads are reserved start with this;
/// domain names do not start with a dot.
pub(crate) const THREADED_ROOT_PREFIX: &str = ".threads-";

/// All back ends, the default first.
pub const ALL: [&dyn Backend; 12] = [
    &DsFreeze,
    &TimePartitions,
    &Deadline,
    &RtGroup,
    &Hcbs,
    &CfsQuota,
    &Fifo,
    &Nice,
    &Weight,
    &Dedicated,
    &Unreserved,
    &XenRtds,
];

/// The back end of that kind.
pub fn backend(kind: BackendKind) -> &'static dyn Backend {
    match kind {
        BackendKind::DsFreeze => &DsFreeze,
        BackendKind::TimePartitions => &TimePartitions,
        BackendKind::Deadline => &Deadline,
        BackendKind::RtGroup => &RtGroup,
        BackendKind::Hcbs => &Hcbs,
        BackendKind::CfsQuota => &CfsQuota,
        BackendKind::Fifo => &Fifo,
        BackendKind::Nice => &Nice,
        BackendKind::Weight => &Weight,
        BackendKind::Dedicated => &Dedicated,
        BackendKind::None => &Unreserved,
        BackendKind::XenRtds => &XenRtds,
    }
}

/// What a back end does on a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackendFitness {
    /// The back end.
    pub backend: BackendKind,
    /// Whether it works there.
    pub works: bool,
    /// Whether it guarantees the budget to the domain.
    pub guarantees_budget: bool,
    /// Whether it keeps the domain from more than the budget.
    pub enforces_budget: bool,
    /// Whether threads of the kernel, such as those that receive packets, can have its budgets there.
    pub kernel_threads: bool,
    /// What the host lacks for it.
    pub missing: Vec<MissingRequirement>,
}

/// What every back end does on `host`, threads of the kernel as far as `trial` allowed it.
pub fn fitness(host: &HostCapabilities, trial: &KernelThreadTrial) -> Vec<BackendFitness> {
    let all = ALL.iter().map(|backend| {
        let (backend, missing) = (backend.kind(), backend.missing(host));
        BackendFitness {
            backend,
            works: missing.is_empty(),
            guarantees_budget: backend.guarantees_budget(),
            enforces_budget: backend.has_budget(),
            kernel_threads: missing.is_empty()
                && backend.guarantees_budget()
                && backend.traits().kernel_threads
                && host.has(Feature::ReceiveThreads)
                && allows_threads(trial, backend),
            missing,
        }
    });
    all.collect()
}

/// Whether a trial allowed what a back end does with threads of the kernel.
fn allows_threads(trial: &KernelThreadTrial, backend: BackendKind) -> bool {
    let group = match backend {
        BackendKind::DsFreeze => &trial.unified_group,
        BackendKind::RtGroup => &trial.cpu_group,
        _ => &None,
    };
    trial.allows_scheduling() && group.is_none()
}

/// The requirement, if `host` lacks the feature.
fn lacking(host: &HostCapabilities, feature: Feature, needed: &str) -> Option<MissingRequirement> {
    if host.has(feature) {
        return None;
    }
    let finding = host.finding(feature);
    Some(MissingRequirement {
        needed: needed.into(),
        state: finding.state,
        remedy: finding.remedy,
    })
}

/// The requirements whose features `host` lacks.
fn all_lacking(host: &HostCapabilities, needs: &[(Feature, &str)]) -> Vec<MissingRequirement> {
    let missing = needs.iter();
    missing
        .filter_map(|(feature, needed)| lacking(host, *feature, needed))
        .collect()
}

/// Our own directory in cgroup v2.
fn own_group(v2_root: &Path) -> PathBuf {
    v2_root.join("tailbound")
}

/// A domain's directory in a v1 hierarchy: flat, so that no parent's limits hold it.
fn legacy_group(root: &Path, domain: &str) -> PathBuf {
    root.join(format!("tailbound-{domain}"))
}

/// Threads in a v1 cpu cgroup without real-time budget cannot be SCHED_FIFO: they go to its root.
pub(crate) fn leave_real_time_groups(
    host: &HostCapabilities,
    threads: &[u32],
    view: &dyn KernelView,
) -> Vec<Change> {
    let Some(cpu) = host
        .cgroup_v1_roots
        .get("cpu")
        .filter(|_| host.rt_group_sched)
    else {
        return Vec::new();
    };
    let elsewhere = threads.iter().filter(|&&tid| {
        let group = view.cgroup_of(tid, cpu);
        group.is_ok_and(|group| group != *cpu)
    });
    let moves = elsewhere.map(|&tid| Change::MoveThread {
        tid,
        directory: cpu.clone(),
        legacy: true,
    });
    moves.collect()
}

/// A length in the whole microseconds that control files count in.
fn whole_microseconds(
    request: &ReservationRequest,
    length: Duration,
) -> Result<u64, AdmissionError> {
    let nanoseconds = length.as_nanos();
    if !nanoseconds.is_multiple_of(1_000) {
        return Err(AdmissionError::NotWholeMicroseconds {
            domain: request.domain.clone(),
            backend: request.backend,
            asked: length,
        });
    }
    Ok(nanoseconds / 1_000)
}

/// Refuses what lies outside of the lengths that the back end takes, for this reason.
fn check_range(request: &ReservationRequest, reason: &str) -> Result<(), AdmissionError> {
    check_range_from(request, Duration::ZERO, reason)
}

/// The same where this host takes no budget below `least_budget` either.
fn check_range_from(
    request: &ReservationRequest,
    least_budget: Duration,
    reason: &str,
) -> Result<(), AdmissionError> {
    let interface = &request.interface;
    let traits = request.backend.traits();
    let least_budget = traits.smallest_budget.max(least_budget);
    let most = traits.longest_period;
    let at_once = match interface.shares_budget() {
        true => interface.cpus.len() as u64,
        false => 1,
    };
    let most_budget = most.checked_mul(at_once).unwrap_or(Duration::MAX);
    let lengths = [
        ("a budget", interface.budget, least_budget, most_budget),
        ("a period", interface.period, traits.shortest_period, most),
    ];
    for (what, asked, least, most) in lengths {
        let (domain, backend) = (request.domain.clone(), request.backend);
        let reason = reason.to_owned();
        if asked < least {
            return Err(AdmissionError::TooShort {
                domain,
                backend,
                what,
                asked,
                least,
                reason,
            });
        }
        if asked > most {
            return Err(AdmissionError::TooLong {
                domain,
                backend,
                what,
                asked,
                most,
                reason,
            });
        }
    }
    Ok(())
}
