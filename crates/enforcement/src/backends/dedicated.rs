//! `dedicated`: CPUs of its own, the baseline of a full CPU.

use tailbound_model::BackendKind;

use super::TargetMembers;
use crate::change::cpu_list;
use crate::error::EnforcementError;
use crate::{Backend, Inheritance, Plan, ReservationRequest, Site};

/// Sets the affinity, and leaves it to the caller to keep others off those CPUs.
pub struct Dedicated;

impl Backend for Dedicated {
    fn kind(&self) -> BackendKind {
        BackendKind::Dedicated
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let cpus = &request.interface.cpus;
        let changes = members.affinity_changes(cpus);
        Ok(Plan {
            request: request.clone(),
            changes: changes.collect(),
            managers: Vec::new(),
            mapping: vec![format!(
                "CPUs of its own -> affinity {{{}}}; budget and period are not enforced; others \
                 are not kept off",
                cpu_list(cpus)
            )],
            inheritance: Inheritance {
                cgroups: members.cgroup.iter().cloned().collect(),
                pids: members.heirs(request),
                scheduling: None,
                affinity: Some(cpus.clone()),
            },
        })
    }
}
