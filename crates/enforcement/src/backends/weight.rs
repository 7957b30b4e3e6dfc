//! `weight`: a domain's share of the time that ordinary threads have, against the groups beside it.

use std::path::Path;

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, CpuWeight};

use super::cpu_group::CpuGroup;
use super::{TargetMembers, lacking};
use crate::change::cpu_list;
use crate::error::EnforcementError;
use crate::{Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, Site};

/// The default weight, as cgroup v1 counts it.
const DEFAULT_SHARES: u32 = 1_024;

/// A weight, or what runs only while nothing else wants the CPU.
pub struct Weight;

impl Backend for Weight {
    fn kind(&self) -> BackendKind {
        BackendKind::Weight
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        CpuGroup::missing(host)
    }

    fn missing_for(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Vec<MissingRequirement> {
        let mut missing = self.missing(host);
        if GroupShare::of(request) == GroupShare::Idle {
            let needed = "groups that run only while nothing else does (cpu.idle)";
            missing.extend(lacking(host, Feature::IdleGroups, needed));
        }
        missing
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let cpus = &request.interface.cpus;
        let group = CpuGroup::of(request, &members, site)?;
        let share = GroupShare::of(request);
        let mut changes = group.changes;
        changes.push(share.write(&group.directory, group.legacy));
        changes.extend(group.moves);
        changes.extend(members.affinity_changes(cpus));
        let (file, value) = share.file(group.legacy);
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: vec![format!(
                "{share} on CPUs {} -> {file} {value}; no guarantee and no cap: its share depends on what runs \
                 beside it",
                cpu_list(cpus)
            )],
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: vec![group.directory],
                scheduling: None,
                affinity: Some(cpus.clone()),
            },
        })
    }
}

/// The setting of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupShare {
    Weight(CpuWeight),
    Idle,
}

impl GroupShare {
    fn of(request: &ReservationRequest) -> Self {
        match request.options.idle {
            Some(true) => Self::Idle,
            _ => Self::Weight(request.options.weight.unwrap_or(CpuWeight::MOST)),
        }
    }

    /// The control file, and what is written to it.
    fn file(self, legacy: bool) -> (&'static str, u32) {
        match (self, legacy) {
            (Self::Idle, _) => ("cpu.idle", 1),
            (Self::Weight(CpuWeight(weight)), false) => ("cpu.weight", weight),
            // Weight 1 is 10.24 shares; the kernel takes 2 at least.
            (Self::Weight(CpuWeight(weight)), true) => {
                let shares = weight * DEFAULT_SHARES / CpuWeight::DEFAULT.0;
                ("cpu.shares", shares)
            }
        }
    }

    fn write(self, directory: &Path, legacy: bool) -> Change {
        let (file, value) = self.file(legacy);
        Change::write(directory, file, value.to_string())
    }
}

impl std::fmt::Display for GroupShare {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Weight(CpuWeight(weight)) => write!(out, "weight {weight} (100 by default)"),
            Self::Idle => write!(out, "only while nothing else wants the CPU"),
        }
    }
}
