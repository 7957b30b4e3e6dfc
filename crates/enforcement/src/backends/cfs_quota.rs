//! `cfs-quota`: a cap on the CPU time of SCHED_OTHER, in whichever cgroup hierarchy has the cpu
//! controller. It guarantees nothing.

use std::path::Path;

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, BudgetScope};

use super::cpu_group::CpuGroup;
use super::{TargetMembers, check_range, lacking, whole_microseconds};
use crate::error::{AdmissionError, EnforcementError};
use crate::kernel::KernelView;
use crate::{Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, Site};

/// A cap.
pub struct CfsQuota;

impl Backend for CfsQuota {
    fn kind(&self) -> BackendKind {
        BackendKind::CfsQuota
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
        if request.options.burst.is_some() {
            let needed = "quotas that are saved up for bursts (cpu.max.burst, cpu.cfs_burst_us)";
            missing.extend(lacking(host, Feature::QuotaBurst, needed));
        }
        missing
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        let budget = request.interface.budget;
        whole_microseconds(request, budget)?;
        whole_microseconds(request, request.interface.period)?;
        if let Some(burst) = request.options.burst {
            whole_microseconds(request, burst)?;
            if burst > budget {
                return Err(AdmissionError::TooLong {
                    domain: request.domain.clone(),
                    backend: request.backend,
                    what: "a burst",
                    asked: burst,
                    most: budget,
                    reason: "the kernel lets no group save more than its quota".into(),
                });
            }
        }
        check_range(request, "the kernel takes no other quota")
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members =
            TargetMembers::with_descendants(request, host.cgroup_v2_root.as_deref(), view)?;
        let interface = &request.interface;
        let limit = Limit::of(request)?;
        let group = CpuGroup::of(request, &members, site)?;
        let mut changes = group.changes;
        if group.is_their_own {
            changes.extend(limit.own_burst_away(&group.directory, view));
        }
        changes.extend(limit.writes(&group.directory, group.legacy));
        changes.extend(group.moves);
        changes.extend(members.affinity_changes(&interface.cpus));
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: limit.mapping(request, group.legacy),
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: vec![group.directory],
                scheduling: None,
                affinity: Some(interface.cpus.clone()),
            },
        })
    }

    /// The quota alone: the group is where it was, and so are its members.
    fn plan_budget(
        &self,
        request: &ReservationRequest,
        inheritance: &Inheritance,
        standing: &[&Change],
    ) -> Result<Option<Plan>, EnforcementError> {
        let Some((directory, legacy)) = group_of_quota(standing) else {
            return Ok(None);
        };
        let limit = Limit::of(request)?;
        Ok(Some(Plan {
            request: request.clone(),
            changes: limit.writes(directory, legacy),
            managers: Vec::new(),
            mapping: limit.mapping(request, legacy),
            inheritance: inheritance.clone(),
        }))
    }
}

/// The group that a reservation's quota was written to, and whether it is in cgroup v1.
fn group_of_quota<'a>(standing: &[&'a Change]) -> Option<(&'a Path, bool)> {
    standing.iter().rev().find_map(|change| {
        let Change::WriteFile { file, .. } = change else {
            return None;
        };
        let legacy = match file.file_name()?.to_str()? {
            "cpu.cfs_quota_us" => true,
            "cpu.max" => false,
            _ => return None,
        };
        Some((file.parent()?, legacy))
    })
}

/// A cap in the kernel's microseconds: one pool for all CPUs.
struct Limit {
    quota_us: u64,
    period_us: u64,
    burst_us: Option<u64>,
}

impl Limit {
    fn of(request: &ReservationRequest) -> Result<Self, AdmissionError> {
        let interface = &request.interface;
        let budgets = match interface.budget_scope {
            BudgetScope::EachCpu => interface.cpus.len() as u64,
            BudgetScope::AllCpus => 1,
        };
        let pool = |each| {
            let each_us = whole_microseconds(request, each);
            each_us.map(|each_us| each_us.saturating_mul(budgets))
        };
        Ok(Self {
            quota_us: pool(interface.budget)?,
            period_us: whole_microseconds(request, interface.period)?,
            burst_us: request.options.burst.map(pool).transpose()?,
        })
    }

    /// The change without which the kernel may refuse the quota: a burst of the container's own may not exceed it.
    fn own_burst_away(&self, cgroup: &Path, view: &dyn KernelView) -> Option<Change> {
        let burst = view.read_file(&cgroup.join("cpu.max.burst")).ok()?;
        let burst_us: u64 = burst.trim().parse().ok()?;
        (burst_us > self.quota_us).then(|| Change::write(cgroup, "cpu.max.burst", "0"))
    }

    /// The changes that set it, the burst last: a quota may not fall below its burst.
    fn writes(&self, directory: &Path, legacy: bool) -> Vec<Change> {
        let (quota_us, period_us) = (self.quota_us, self.period_us);
        let mut files = match legacy {
            true => vec![
                ("cpu.cfs_period_us", period_us.to_string()),
                ("cpu.cfs_quota_us", quota_us.to_string()),
            ],
            false => vec![("cpu.max", format!("{quota_us} {period_us}"))],
        };
        let burst = self.burst_us.map(|burst_us| burst_us.to_string());
        files.extend(burst.map(|burst| (burst_file(legacy), burst)));
        let files = files.into_iter();
        let writes = files.map(|(file, value)| Change::write(directory, file, value));
        writes.collect()
    }

    /// What it is in the kernel's words.
    fn mapping(&self, request: &ReservationRequest, legacy: bool) -> Vec<String> {
        let interface = &request.interface;
        let cpus = interface.cpus.len();
        let (quota_us, period_us) = (self.quota_us, self.period_us);
        let file = match legacy {
            true => format!("cpu.cfs_quota_us {quota_us}, cpu.cfs_period_us {period_us}"),
            false => format!("cpu.max \"{quota_us} {period_us}\""),
        };
        let together = match interface.shares_budget() {
            true => " together",
            false => "",
        };
        let mut mapping = vec![format!(
            "budget {} every {} on {cpus} CPUs{together} -> {file}: a cap for all of them together, no \
             guarantee; the priority is not used",
            interface.budget, interface.period
        )];
        if let (Some(burst), Some(burst_us)) = (request.options.burst, self.burst_us) {
            let file = burst_file(legacy);
            mapping.push(format!(
                "burst {burst} on {cpus} CPUs{together} -> {file} {burst_us}: what is not used is saved up to that"
            ));
        }
        mapping
    }
}

const fn burst_file(legacy: bool) -> &'static str {
    match legacy {
        true => "cpu.cfs_burst_us",
        false => "cpu.max.burst",
    }
}
