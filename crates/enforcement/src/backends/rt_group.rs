//! `rt-group`: a cgroup v1 real-time group, `cpu.rt_runtime_us` in every `cpu.rt_period_us`.

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;

use super::target::not_supported;
use super::{TargetMembers, all_lacking, check_range, legacy_group, whole_microseconds};
use crate::error::{AdmissionError, EnforcementError};
use crate::{
    Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, SchedulingSetting,
    Site,
};

/// A real-time group.
pub struct RtGroup;

impl Backend for RtGroup {
    fn kind(&self) -> BackendKind {
        BackendKind::RtGroup
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        let needs = [
            (
                Feature::RtRuntimeV1,
                "real-time budgets of cgroup v1 cpu groups (cpu.rt_runtime_us)",
            ),
            (Feature::SchedFifo, "SCHED_FIFO for the domain"),
        ];
        all_lacking(host, &needs)
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        whole_microseconds(request, request.interface.budget)?;
        whole_microseconds(request, request.interface.period)?;
        check_range(request, "the kernel enforces group budgets at ticks")
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let root = host.cgroup_v1_roots.get("cpu").ok_or_else(|| {
            not_supported(request, "finds no cgroup v1 cpu hierarchy", "use ds-freeze")
        })?;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let interface = &request.interface;
        let budget_us = whole_microseconds(request, interface.budget)?;
        let period_us = whole_microseconds(request, interface.period)?;
        let directory = legacy_group(root, &request.domain);
        let setting = SchedulingSetting::Fifo {
            priority: interface.priority.0,
            reset_on_fork: true,
        };
        // The period first: with no budget yet, any period is consistent with the parent's.
        let mut changes = vec![
            Change::mkdir(&directory),
            Change::write(&directory, "cpu.rt_period_us", period_us.to_string()),
            Change::write(&directory, "cpu.rt_runtime_us", budget_us.to_string()),
        ];
        let single = request.target.single_threads().is_some();
        changes.extend(members.affinity_changes(&interface.cpus));
        changes.extend(members.moves(single, &directory));
        changes.extend(members.policy_changes(setting));
        if !single {
            members.check_unsplit(request, root, view)?;
        }
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: vec![
                format!(
                    "budget {} every {} -> cpu.rt_runtime_us {budget_us}, cpu.rt_period_us \
                     {period_us}, on each CPU",
                    interface.budget, interface.period
                ),
                format!("priority {0} -> SCHED_FIFO {0}", interface.priority.0),
            ],
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: vec![directory],
                scheduling: Some(setting),
                affinity: Some(interface.cpus.clone()),
            },
        })
    }
}
