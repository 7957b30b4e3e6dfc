//! `dedicated`: CPUs of its own, the baseline of a full CPU.

use tailbound_linux::scheduling::format_cpu_list;
use tailbound_model::BackendKind;

use super::Members;
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
        let members = Members::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let cpus = &request.interface.cpus;
        let changes = members.affinity_changes(cpus);
        let single = request.target.single_threads().is_some();
        Ok(Plan {
            request: request.clone(),
            changes: changes.collect(),
            managers: Vec::new(),
            mapping: vec![format!(
                "CPUs of its own -> affinity {{{}}}; budget and period are not enforced; others \
                 are not kept off",
                format_cpu_list(cpus.iter().map(|cpu| cpu.0))
            )],
            inheritance: Inheritance {
                pids: if single {
                    Vec::new()
                } else {
                    members.processes
                },
                cgroups: members.cgroup.into_iter().collect(),
                scheduling: None,
                affinity: Some(cpus.clone()),
            },
        })
    }
}
