//! `hcbs`: a hierarchical constant-bandwidth server, `cpu.rt.max` of a cgroup v2.
//!
//! The interface is that of the sixth version of the proposal (Andriaccio, Abeni and others, "Hierarchical Constant
//! Bandwidth Server", RFC PATCH v6, linux-kernel, June 2026), which is in no release of the kernel. A group with a
//! budget has a server of SCHED_DEADLINE on each CPU, which runs the group's SCHED_FIFO and SCHED_RR threads in the
//! order of their priorities (Abeni, Balsini and Cucinotta 2019). The bandwidths of groups below one another sum to that
//! of the group above at most, and those of all groups to `cpu.rt.max` of the root, which is 0 until root sets it. The
//! root's value is the host's policy and stays as it is.

use std::path::Path;

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;

use super::cpu_group::CpuGroup;
use super::deadline::check_resolution;
use super::target::not_supported;
use super::{TargetMembers, all_lacking, whole_microseconds};
use crate::audit::is_real_time;
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{
    Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, SchedulingSetting,
    Site,
};

/// The control file of a group's bandwidth.
const BANDWIDTH: &str = "cpu.rt.max";

/// A real-time group behind a constant-bandwidth server.
pub struct Hcbs;

impl Backend for Hcbs {
    fn kind(&self) -> BackendKind {
        BackendKind::Hcbs
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        let needs = [
            (
                Feature::RtMaxV2,
                "real-time budgets of cgroup v2 groups (cpu.rt.max)",
            ),
            (Feature::SchedFifo, "SCHED_FIFO for the domain"),
        ];
        all_lacking(host, &needs)
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        whole_microseconds(request, request.interface.budget)?;
        whole_microseconds(request, request.interface.period)?;
        check_resolution(request, host)
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let root = host.cgroup_v2_root.as_deref();
        let members = TargetMembers::with_descendants(request, root, view)?;
        let root =
            root.ok_or_else(|| not_supported(request, "finds no cgroup v2", "use ds-freeze"))?;
        let group = CpuGroup::in_v2(request, root, &members, site)?;
        if group.is_their_own {
            check_policies(request, &group.directory, &members, view)?;
        }
        let interface = &request.interface;
        let budget_us = whole_microseconds(request, interface.budget)?;
        let period_us = whole_microseconds(request, interface.period)?;
        let bandwidth = format!("{budget_us} {period_us}");
        let setting = SchedulingSetting::Fifo {
            priority: interface.priority.0,
            reset_on_fork: true,
        };
        let mapping = vec![
            format!(
                "budget {} every {} -> {BANDWIDTH} \"{bandwidth}\", set aside on every CPU",
                interface.budget, interface.period
            ),
            format!(
                "priority {0} -> SCHED_FIFO {0} within the group; between groups the earlier end of a period comes first",
                interface.priority.0
            ),
        ];
        // The bandwidth before the members: the kernel takes no real-time thread into a group without any.
        let mut changes = group.changes;
        changes.push(Change::write(&group.directory, BANDWIDTH, bandwidth));
        changes.extend(group.moves);
        changes.extend(members.affinity_changes(&interface.cpus));
        changes.extend(members.policy_changes(setting));
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping,
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: vec![group.directory],
                scheduling: Some(setting),
                affinity: Some(interface.cpus.clone()),
            },
        })
    }
}

/// Refuses a container with real-time threads of its own: the kernel gives a group no server of its own, and takes none
/// away, while such threads run in it.
fn check_policies(
    request: &ReservationRequest,
    cgroup: &Path,
    members: &TargetMembers,
    view: &dyn KernelView,
) -> Result<(), PlanError> {
    let bandwidth = view.read_file(&cgroup.join(BANDWIDTH));
    let has_none = bandwidth.is_ok_and(|bandwidth| bandwidth.starts_with("max"));
    let real_time = |tid: &u32| view.scheduling(*tid).is_ok_and(is_real_time);
    let threads = &members.threads;
    match threads.iter().copied().find(real_time) {
        Some(tid) if has_none => Err(not_supported(
            request,
            format!(
                "sets {BANDWIDTH} of {}, which the kernel refuses while a real-time thread is there: {tid}",
                cgroup.display()
            ),
            format!("chrt -o -p 0 {tid} meanwhile, or use ds-freeze"),
        )),
        _ => Ok(()),
    }
}
