//! `none`: the kernel's default, for comparison.

use tailbound_model::BackendKind;

use super::TargetMembers;
use crate::error::EnforcementError;
use crate::{Backend, Inheritance, Plan, ReservationRequest, Site};

/// Changes nothing.
pub struct Unreserved;

impl Backend for Unreserved {
    fn kind(&self) -> BackendKind {
        BackendKind::None
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members = TargetMembers::of(request, host.cgroup_v2_root.as_deref(), view)?;
        Ok(Plan {
            request: request.clone(),
            changes: Vec::new(),
            managers: Vec::new(),
            mapping: vec!["no reservation: nothing is changed".into()],
            inheritance: Inheritance {
                pids: members.processes,
                ..Inheritance::default()
            },
        })
    }
}
