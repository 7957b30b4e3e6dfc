//! `none`: the kernel's default, for comparison.

use tailbound_linux::HostCapabilities;
use tailbound_model::BackendKind;

use super::Members;
use crate::error::{AdmissionError, EnforcementError};
use crate::kernel::KernelView;
use crate::{Backend, Inheritance, MissingRequirement, Plan, ReservationRequest};

/// Changes nothing.
pub struct Unreserved;

impl Backend for Unreserved {
    fn kind(&self) -> BackendKind {
        BackendKind::None
    }

    fn missing(&self, _: &HostCapabilities) -> Vec<MissingRequirement> {
        Vec::new()
    }

    fn check_interface(
        &self,
        _: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        Ok(())
    }

    fn plan(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
        view: &dyn KernelView,
    ) -> Result<Plan, EnforcementError> {
        let members = Members::of(request, host.cgroup_v2_root.as_deref(), view)?;
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
