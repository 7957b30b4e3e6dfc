//! `nice`: a nice value for a domain's ordinary threads.

use tailbound_model::{BackendKind, NiceValue};

use super::TargetMembers;
use crate::change::cpu_list;
use crate::error::EnforcementError;
use crate::{Backend, Inheritance, Plan, ReservationRequest, SchedulingSetting, Site};

/// A larger or smaller share of the time that ordinary threads have. Real-time threads of the domain stay what they
/// are.
pub struct Nice;

impl Backend for Nice {
    fn kind(&self) -> BackendKind {
        BackendKind::Nice
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let cpus = &request.interface.cpus;
        let NiceValue(nice) = request.options.nice.unwrap_or(NiceValue::FIRST);
        let setting = SchedulingSetting::Other { nice };
        let is_ordinary = |tid: u32| {
            let now = view.scheduling(tid);
            now.is_ok_and(|now| matches!(now, SchedulingSetting::Other { .. }))
        };
        let mut changes: Vec<_> = members.affinity_changes(cpus).collect();
        changes.extend(members.policy_changes_where(setting, is_ordinary));
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: vec![format!(
                "nice value {nice} on CPUs {}; no guarantee and no cap, and with sched_autogroup_enabled it counts \
                 among the threads of one session only",
                cpu_list(cpus)
            )],
            inheritance: Inheritance {
                cgroups: members.cgroup.iter().cloned().collect(),
                pids: members.heirs(request),
                scheduling: Some(setting),
                affinity: Some(cpus.clone()),
            },
        })
    }
}
