//! `cfs-quota`: a cap on the CPU time of SCHED_OTHER, in whichever cgroup hierarchy has the cpu
//! controller. It guarantees nothing.

use std::path::{Path, PathBuf};

use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;

use super::target::not_supported;
use super::{Members, check_range, lacking, legacy_group, own_group, whole_microseconds};
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, Site};

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
        let v2_root = host.cgroup_v2_root.as_deref();
        let members = Members::with_descendants(request, v2_root, view)?;
        let interface = &request.interface;
        let limit = Limit::of(request)?;
        let v1_root = host.cgroup_v1_roots.get("cpu");
        let v1_root = v1_root.filter(|_| host.has(Feature::QuotaV1));
        let (mut changes, directory) = match (v1_root, v2_root) {
            (Some(root), _) => in_v1(request, root, &members, &limit, view)?,
            (None, Some(root)) => in_v2(request, root, &members, &limit, view)?,
            (None, None) => {
                return Err(not_supported(
                    request,
                    "finds no cgroup hierarchy with the cpu controller",
                    "see tailbound doctor",
                )
                .into());
            }
        };
        changes.extend(members.affinity_changes(&interface.cpus));
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping: limit.mapping(request, v1_root.is_some()),
            inheritance: Inheritance {
                pids: members.heirs(request),
                cgroups: vec![directory],
                scheduling: None,
                affinity: Some(interface.cpus.clone()),
            },
        })
    }
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
        let cpus = interface.cpus.len() as u64;
        let pool = |each| {
            let each_us = whole_microseconds(request, each);
            each_us.map(|each_us| each_us.saturating_mul(cpus))
        };
        Ok(Self {
            quota_us: pool(interface.budget)?,
            period_us: whole_microseconds(request, interface.period)?,
            burst_us: request.options.burst.map(pool).transpose()?,
        })
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
        let mut mapping = vec![format!(
            "budget {} every {} on {cpus} CPUs -> {file}: a cap for all of them together, no \
             guarantee; the priority is not used",
            interface.budget, interface.period
        )];
        if let (Some(burst), Some(burst_us)) = (request.options.burst, self.burst_us) {
            let file = burst_file(legacy);
            mapping.push(format!(
                "burst {burst} on {cpus} CPUs -> {file} {burst_us}: what is not used is saved up to that"
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

fn in_v1(
    request: &ReservationRequest,
    root: &Path,
    members: &Members,
    limit: &Limit,
    view: &dyn KernelView,
) -> Result<(Vec<Change>, PathBuf), PlanError> {
    let single = request.target.single_threads().is_some();
    if !single {
        members.check_unsplit(request, root, view)?;
    }
    let directory = legacy_group(root, &request.domain);
    let mut changes = vec![Change::mkdir(&directory)];
    changes.extend(limit.writes(&directory, true));
    changes.extend(members.moves(single, &directory));
    Ok((changes, directory))
}

fn in_v2(
    request: &ReservationRequest,
    root: &Path,
    members: &Members,
    limit: &Limit,
    view: &dyn KernelView,
) -> Result<(Vec<Change>, PathBuf), PlanError> {
    if let Some(cgroup) = members.cgroup.clone() {
        let mut changes = Vec::new();
        // A burst of the container's own may not exceed the new quota.
        let burst = view.read_file(&cgroup.join("cpu.max.burst"));
        let burst_us = burst.ok().and_then(|text| text.trim().parse().ok());
        if burst_us.is_some_and(|burst_us: u64| burst_us > limit.quota_us) {
            changes.push(Change::write(&cgroup, "cpu.max.burst", "0"));
        }
        changes.extend(limit.writes(&cgroup, false));
        return Ok((changes, cgroup));
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
        Change::write(root, "cgroup.subtree_control", "+cpu"),
        Change::mkdir(&parent),
        Change::write(&parent, "cgroup.subtree_control", "+cpu"),
        Change::mkdir(&directory),
    ];
    changes.extend(limit.writes(&directory, false));
    changes.extend(members.moves(false, &directory));
    Ok((changes, directory))
}
