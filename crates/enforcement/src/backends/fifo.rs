//! `fifo`: a real-time priority without a budget, which is what `chrt -f` gives.

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;

use super::{TargetMembers, lacking, leave_real_time_groups};
use crate::change::{cpu_list, is_of_agent};
use crate::error::EnforcementError;
use crate::{
    Backend, Inheritance, MissingRequirement, Plan, ReservationRequest, SchedulingSetting, Site,
};

/// A priority above all ordinary threads. Nothing but the kernel's real-time throttling limits the domain.
pub struct Fifo;

impl Backend for Fifo {
    fn kind(&self) -> BackendKind {
        BackendKind::Fifo
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        lacking(host, Feature::SchedFifo, "SCHED_FIFO for the domain")
            .into_iter()
            .collect()
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let interface = &request.interface;
        let setting = SchedulingSetting::Fifo {
            priority: interface.priority.0,
            reset_on_fork: true,
        };
        let mut changes = leave_real_time_groups(host, &members.threads, view);
        changes.extend(members.affinity_changes(&interface.cpus));
        let is_agent = |tid: u32| view.scheduling(tid).is_ok_and(is_of_agent);
        changes.extend(members.policy_changes_where(setting, |tid| !is_agent(tid)));
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: vec![format!(
                "priority {0} -> SCHED_FIFO {0} on CPUs {1}; no budget: real-time throttling alone keeps it from \
                 taking them whole",
                interface.priority.0,
                cpu_list(&interface.cpus)
            )],
            inheritance: Inheritance {
                cgroups: members.cgroup.iter().cloned().collect(),
                pids: members.heirs(request),
                scheduling: Some(setting),
                affinity: Some(interface.cpus.clone()),
            },
        })
    }
}
