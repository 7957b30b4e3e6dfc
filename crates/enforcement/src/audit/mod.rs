//! The audit of a domain's members: who is in it, and whether each runs as the reservation says.
//!
//! Members of a domain do not pass a real-time policy on (SCHED_RESET_ON_FORK); the audit adopts what they
//! start, and what a runtime starts in a container beside them. It brings back threads that left the domain's CPUs, sets back those that rose above the domain's
//! priority, and takes the priority from those that somebody moved out of the domain's groups, or that
//! leave its CPUs again and again. A thread
//! that lowers itself stays as it is, and so do agents.
//!
//! [`rules`] decides about one thread and knows no kernel, [`order`] about the threads of a domain among each other;
//! [`DomainAudit`] keeps what is known of each
//! member; [`Auditor`] is the thread that looks, once a period of each domain and with at most half a
//! percent of a CPU for all of them, less where no member has a priority of ours; [`record`] is what recovery reads if the process dies.

mod auditor;
mod domain_audit;
pub mod order;
pub mod record;
pub mod rules;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_model::{BackendKind, CpuSet};
use tailbound_time::Duration;

pub use auditor::{Auditor, Bell, Notice};
pub use domain_audit::DomainAudit;
pub use order::Band;
pub use rules::{Rules, is_real_time};

use crate::confinement::is_of_cpuset;
use crate::journal::{HeldDomain, Previous};
use crate::{Change, Inheritance, Plan, SchedulingSetting, Target};

/// What audits of one domain found since its reservation began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSummary {
    /// Whether a cpuset confines the domain, so that the kernel itself keeps its threads on their CPUs.
    pub cpuset: bool,
    /// How often its members were looked at.
    pub passes: u64,
    /// Processes that a runtime put into the container later, and that were taken in.
    #[serde(default)]
    pub entered: u64,
    /// Threads that came later and got the domain's policy.
    pub adopted: u64,
    /// Threads that were brought back to the domain's CPUs.
    pub brought_back: u64,
    /// Threads above the domain's priority, or ready to pass theirs on, that were set back.
    pub set_back: u64,
    /// Threads that left the domain's groups, or its CPUs again and again, and lost its priority.
    pub demoted: u64,
    /// Threads that gave up the domain's policy by themselves.
    pub lowered: u64,
    /// Corrections that the kernel, or the record of adoptions, refused.
    pub failures: u64,
    /// The CPU time that the latest look took.
    pub cost: Duration,
    /// The time between two looks, as it is now.
    pub interval: Duration,
}

impl AuditSummary {
    /// How often threads tried to be where, or what, they must not be.
    pub fn escapes(&self) -> u64 {
        self.brought_back + self.set_back + self.demoted
    }
}

/// A domain whose members are audited.
#[derive(Clone, Debug)]
pub struct AuditedDomain {
    /// Its name.
    pub domain: String,
    /// Groups all of whose threads are its members, with the CPUs of each.
    pub groups: Vec<(PathBuf, CpuSet)>,
    /// Where processes that enter a container are put by its runtime, and the group of its members.
    pub entrance: Option<(PathBuf, PathBuf)>,
    /// How members are found where there are no groups, with their CPUs.
    pub found_by: Option<(Inheritance, CpuSet)>,
    /// The real-time policy of its members, if the reservation sets one.
    pub scheduling: Option<SchedulingSetting>,
    /// The priorities among which its members keep their order, if the reservation sets one.
    pub band: Option<Band>,
    /// Its budget.
    pub budget: Duration,
    /// Its period.
    pub period: Duration,
    /// Members of which the journal tells what they had before.
    pub journaled: Vec<JournaledMember>,
    /// Where adoptions are recorded.
    pub record: PathBuf,
    /// Whether a cpuset confines it.
    pub cpuset: bool,
}

/// A member of which the journal tells what it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournaledMember {
    /// The thread.
    pub tid: u32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// Its policy before.
    pub had: SchedulingSetting,
}

impl AuditedDomain {
    /// The domain of a plan that was carried out, as `held` says, if its back end leaves something to be
    /// audited: SCHED_DEADLINE threads cannot leave their exclusive cpusets, nor pass their policy on.
    pub fn of(plan: &Plan, held: &HeldDomain, journal: &std::path::Path) -> Option<Self> {
        let audited = !matches!(
            plan.request.backend,
            BackendKind::Deadline | BackendKind::XenRtds | BackendKind::None
        );
        let interface = &plan.request.interface;
        let cpus = interface.cpus.clone();
        let inheritance = &plan.inheritance;
        let groups: Vec<(PathBuf, CpuSet)> = match plan.managers.is_empty() {
            true => {
                let groups = inheritance.cgroups.iter();
                groups.map(|group| (group.clone(), cpus.clone())).collect()
            }
            false => {
                let managers = plan.managers.iter();
                managers
                    .map(|manager| (manager.cgroup.clone(), manager.cpus()))
                    .collect()
            }
        };
        let found_by = (groups.is_empty() && !inheritance.pids.is_empty())
            .then(|| (inheritance.clone(), cpus));
        let journaled =
            held.entries
                .iter()
                .filter_map(|entry| match (&entry.change, &entry.previous) {
                    (Change::SetScheduling { tid, .. }, Previous::Scheduling { setting }) => {
                        Some(JournaledMember {
                            tid: *tid,
                            started: entry.started?,
                            had: *setting,
                        })
                    }
                    _ => None,
                });
        // Threads of the kernel start none and leave no CPU, and their priority is their manager's.
        let audited = audited && !matches!(plan.request.target, Target::Interrupts(_));
        (audited && !(groups.is_empty() && found_by.is_none())).then(|| Self {
            domain: plan.request.domain.clone(),
            entrance: entrance(plan),
            groups,
            found_by,
            scheduling: inheritance
                .scheduling
                .filter(|setting| is_real_time(*setting)),
            band: None,
            budget: interface.budget,
            period: interface.period,
            journaled: journaled.collect(),
            record: record::beside(journal),
            cpuset: held.entries.iter().any(|entry| is_of_cpuset(&entry.change)),
        })
    }
}

/// Where others put processes that belong to the domain, and where they are to be.
fn entrance(plan: &Plan) -> Option<(PathBuf, PathBuf)> {
    match (plan.request.target.cgroup(), plan.managers.as_slice()) {
        (Some(_), [manager]) => {
            let above = manager.cgroup.parent()?;
            Some((above.to_owned(), manager.cgroup.clone()))
        }
        _ => None,
    }
}
