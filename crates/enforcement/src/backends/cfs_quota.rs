//! `cfs-quota`: a cap on the CPU time of SCHED_OTHER, in whichever cgroup hierarchy has the cpu
//! controller. It guarantees nothing.

use std::path::{Path, PathBuf};

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;

use super::rt_group::moves;
use super::target::not_supported;
use super::{Members, check_range, lacking, legacy_group, own_group, whole_microseconds, write};
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest};

/// A cap.
pub struct CfsQuota;

impl Backend for CfsQuota {
    fn kind(&self) -> BackendKind {
        BackendKind::CfsQuota
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        if host.has(Feature::CpuV2) {
            return Vec::new();
        }
        let needed = "the cpu controller in cgroup v1 or v2";
        lacking(host, Feature::QuotaV1, needed)
            .into_iter()
            .collect()
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        whole_microseconds(request, request.interface.budget)?;
        whole_microseconds(request, request.interface.period)?;
        check_range(request, "the kernel takes no other quota")
    }

    fn plan(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
        view: &dyn KernelView,
    ) -> Result<Plan, EnforcementError> {
        let v2_root = host.cgroup_v2_root.as_deref();
        let members = Members::with_descendants(request, v2_root, view)?;
        let interface = &request.interface;
        // A quota is one pool for all CPUs.
        let cpus = interface.cpus.len() as u64;
        let quota_us = whole_microseconds(request, interface.budget)?.saturating_mul(cpus);
        let period_us = whole_microseconds(request, interface.period)?;
        let v1_root = host.cgroup_v1_roots.get("cpu");
        let v1_root = v1_root.filter(|_| host.has(Feature::QuotaV1));
        let (mut changes, directory) = match (v1_root, v2_root) {
            (Some(root), _) => in_v1(request, root, &members, (quota_us, period_us), view)?,
            (None, Some(root)) => in_v2(request, root, &members, (quota_us, period_us), view)?,
            (None, None) => {
                return Err(not_supported(
                    request,
                    "finds no cgroup hierarchy with the cpu controller",
                    "see tailbound doctor",
                )
                .into());
            }
        };
        changes.extend(members.threads.iter().map(|&tid| Change::SetAffinity {
            tid,
            cpus: interface.cpus.clone(),
        }));
        let single = request.target.single_threads().is_some();
        let file = match v1_root {
            Some(_) => format!("cpu.cfs_quota_us {quota_us}, cpu.cfs_period_us {period_us}"),
            None => format!("cpu.max \"{quota_us} {period_us}\""),
        };
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: vec![format!(
                "budget {} every {} on {cpus} CPUs -> {file}: a cap for all of them together, no \
                 guarantee; the priority is not used",
                interface.budget, interface.period
            )],
            inheritance: Inheritance {
                pids: if single {
                    Vec::new()
                } else {
                    members.processes
                },
                cgroups: vec![directory],
                scheduling: None,
                affinity: Some(interface.cpus.clone()),
            },
        })
    }
}

fn in_v1(
    request: &ReservationRequest,
    root: &Path,
    members: &Members,
    (quota_us, period_us): (u64, u64),
    view: &dyn KernelView,
) -> Result<(Vec<Change>, PathBuf), PlanError> {
    let single = request.target.single_threads().is_some();
    if !single {
        members.check_unsplit(request, root, view)?;
    }
    let directory = legacy_group(root, &request.domain);
    let mut changes = vec![
        Change::MakeCgroup {
            directory: directory.clone(),
        },
        write(&directory, "cpu.cfs_period_us", period_us.to_string()),
        write(&directory, "cpu.cfs_quota_us", quota_us.to_string()),
    ];
    changes.extend(moves(members, single, &directory));
    Ok((changes, directory))
}

fn in_v2(
    request: &ReservationRequest,
    root: &Path,
    members: &Members,
    (quota_us, period_us): (u64, u64),
    view: &dyn KernelView,
) -> Result<(Vec<Change>, PathBuf), PlanError> {
    let limit = format!("{quota_us} {period_us}");
    if let Some(cgroup) = members.cgroup.clone() {
        return Ok((vec![write(&cgroup, "cpu.max", limit)], cgroup));
    }
    if request.target.single_threads().is_some() {
        return Err(not_supported(
            request,
            "limits whole processes in cgroup v2",
            "name the process, or use ds-freeze",
        ));
    }
    members.check_unsplit(request, root, view)?;
    let parent = own_group(root);
    let directory = parent.join(&request.domain);
    let mut changes = vec![
        write(root, "cgroup.subtree_control", "+cpu"),
        Change::MakeCgroup {
            directory: parent.clone(),
        },
        write(&parent, "cgroup.subtree_control", "+cpu"),
        Change::MakeCgroup {
            directory: directory.clone(),
        },
        write(&directory, "cpu.max", limit),
    ];
    changes.extend(moves(members, false, &directory));
    Ok((changes, directory))
}
