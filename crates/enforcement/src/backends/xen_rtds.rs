//! `xen-rtds`: Xen's RTDS scheduler, a budget and a period for each virtual CPU of a Xen domain.
//!
//! RTDS runs the virtual CPU whose period ends first, on any CPU of the pool; each is a deferrable
//! server. It is set from the control domain (dom0) by `xl sched-rtds`.

use std::collections::BTreeMap;

use tailbound_linux::xen::{Pool, Vcpu, VcpuSetting};
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::{Range, lacking, whole_microseconds};
use crate::admission::Fraction;
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{
    Backend, Capabilities, Change, Inheritance, MissingRequirement, Plan, ReservationRequest,
    Target,
};

/// What RTDS takes, from its source: periods and budgets from 10 us on; `xl` counts in an int.
const RANGE: Range = Range {
    budget: (Duration::from_micros(10), Duration::from_secs(2_000)),
    period: (Duration::from_micros(10), Duration::from_secs(2_000)),
    reason: "RTDS takes no less than 10us, and xl no more",
};

/// Budgets of virtual CPUs.
pub struct XenRtds;

impl Backend for XenRtds {
    fn kind(&self) -> BackendKind {
        BackendKind::XenRtds
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            guarantees_budget: true,
            enforces_budget: true,
            fixed_grid: false,
            process_groups: false,
            thread_groups: false,
            shortest_period: RANGE.period.0,
            smallest_budget: RANGE.budget.0,
        }
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        let needed = "the control domain of a Xen host whose scheduler is RTDS, with xl";
        lacking(host, Feature::XenRtds, needed)
            .into_iter()
            .collect()
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        RANGE.check(request)?;
        whole_microseconds(request, request.interface.budget)?;
        whole_microseconds(request, request.interface.period).map(drop)
    }

    fn plan(
        &self,
        request: &ReservationRequest,
        _: &HostCapabilities,
        view: &dyn KernelView,
    ) -> Result<Plan, EnforcementError> {
        let Target::XenDomain(domain) = &request.target else {
            return Err(not_supported(
                request,
                "takes Xen domains, and this is none".into(),
                "set kind = \"xen-vm\", or choose another back end",
            )
            .into());
        };
        let setting = VcpuSetting {
            period_us: whole_microseconds(request, request.interface.period)?,
            budget_us: whole_microseconds(request, request.interface.budget)?,
            extratime: false,
        };
        let vcpus = look(request, "virtual CPUs", view.xen_vcpus())?;
        let own: Vec<&Vcpu> = vcpus.iter().filter(|one| one.domain == *domain).collect();
        if own.is_empty() {
            return Err(not_supported(
                request,
                format!("finds no Xen domain \"{domain}\" under RTDS"),
                "start it, and name the domain here as `xl list` does",
            )
            .into());
        }
        let changes = own.iter().map(|one| Change::SetXenVcpu {
            domain: one.id,
            vcpu: one.vcpu,
            setting,
        });
        Ok(Plan {
            request: request.clone(),
            changes: changes.collect(),
            managers: Vec::new(),
            mapping: vec![format!(
                "{} virtual CPUs of Xen domain {domain}: budget {} -> -b {}, period {} -> -p {}, \
                 nothing beyond the budget -> -e 0; RTDS runs them on all CPUs of the pool, the \
                 earliest end of a period first; the priority says nothing",
                own.len(),
                request.interface.budget,
                setting.budget_us,
                request.interface.period,
                setting.period_us,
            )],
            inheritance: Inheritance::default(),
        })
    }
}

fn not_supported(request: &ReservationRequest, reason: String, remedy: &str) -> PlanError {
    PlanError::TargetNotSupported {
        domain: request.domain.clone(),
        backend: request.backend,
        reason,
        remedy: remedy.into(),
    }
}

fn look<T>(
    request: &ReservationRequest,
    what: &str,
    looked: std::io::Result<T>,
) -> Result<T, PlanError> {
    looked.map_err(|error| PlanError::Unreadable {
        domain: request.domain.clone(),
        what: format!("Xen's {what}"),
        reason: error.to_string(),
    })
}

/// Whether the virtual CPUs of each pool have no more than its CPUs after `plans`, those of others
/// included: all that are scheduled there count, whoever set them.
///
/// # Errors
/// The first pool that would be too full; or what `xl` says.
pub(crate) fn admit_vcpus(plans: &[Plan], view: &dyn KernelView) -> Result<(), EnforcementError> {
    let ours = |plan: &&Plan| plan.request.backend == BackendKind::XenRtds;
    let Some(last) = plans.iter().rfind(ours) else {
        return Ok(());
    };
    let vcpus = look(&last.request, "virtual CPUs", view.xen_vcpus())?;
    let pools = look(&last.request, "pools of CPUs", view.xen_pools())?;
    let planned: BTreeMap<(u32, u32), VcpuSetting> = plans
        .iter()
        .flat_map(|plan| &plan.changes)
        .filter_map(|change| match change {
            Change::SetXenVcpu {
                domain,
                vcpu,
                setting,
            } => Some(((*domain, *vcpu), *setting)),
            _ => None,
        })
        .collect();
    for pool in &pools {
        let inside = vcpus.iter().filter(|one| one.pool == pool.name);
        let shares: Vec<(&Vcpu, Fraction)> = inside
            .map(|one| {
                let planned = planned.get(&(one.id, one.vcpu));
                (one, share(planned.unwrap_or(&one.setting)))
            })
            .collect();
        let touched = shares
            .iter()
            .any(|(one, _)| planned.contains_key(&(one.id, one.vcpu)));
        if touched {
            check_pool(&last.request, pool, &shares)?;
        }
    }
    Ok(())
}

fn share(setting: &VcpuSetting) -> Fraction {
    Fraction::new(setting.budget_us, setting.period_us.max(1))
}

fn check_pool(
    request: &ReservationRequest,
    pool: &Pool,
    shares: &[(&Vcpu, Fraction)],
) -> Result<(), AdmissionError> {
    let sum = shares
        .iter()
        .fold(Fraction::new(0, 1), |sum, (_, share)| sum + *share);
    if sum <= Fraction::new(u64::from(pool.cpus), 1) {
        return Ok(());
    }
    let holders = shares
        .iter()
        .map(|(one, share)| format!("{}.{} {share}", one.domain, one.vcpu));
    Err(AdmissionError::PoolTooFull {
        domain: request.domain.clone(),
        pool: pool.name.clone(),
        cpus: pool.cpus,
        sum_percent: sum.to_string(),
        holders: holders.collect::<Vec<_>>().join(", "),
    })
}
