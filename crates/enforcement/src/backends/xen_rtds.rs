//! `xen-rtds`: Xen's RTDS scheduler, a budget and a period for each virtual CPU of a Xen domain.
//!
//! RTDS runs the virtual CPU whose period ends first, on any CPU of the pool; each is a deferrable
//! server. It is set from the control domain (dom0) by `xl sched-rtds`.

use std::collections::BTreeMap;

use tailbound_analysis::admission::pool::{Misfit, fit};
use tailbound_linux::xen::{Vcpu, VcpuSetting, XenPool};
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, Precedence};
use tailbound_time::{Duration, Fraction};

use super::target::not_supported;
use super::{check_range, lacking, whole_microseconds};
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::journal::HeldDomain;
use crate::kernel::KernelView;
use crate::{
    Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, Site, Target,
};

/// Budgets of virtual CPUs.
pub struct XenRtds;

impl Backend for XenRtds {
    fn kind(&self) -> BackendKind {
        BackendKind::XenRtds
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
        check_range(request, "RTDS takes no less than 10us, and xl no more")?;
        whole_microseconds(request, request.interface.budget)?;
        whole_microseconds(request, request.interface.period).map(drop)
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let view = site.view;
        let Target::XenDomain(domain) = &request.target else {
            return Err(not_supported(
                request,
                "takes Xen domains, and this is none",
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

/// Whether each virtual CPU is of one reservation, and those of each pool get their budgets after `plans`
/// beside those that are held, those of others included: all that are scheduled there count, whoever
/// set them.
///
/// # Errors
/// The first virtual CPU that would have two reservations; the first pool that would be too full; or
/// what `xl` says.
pub(crate) fn admit_vcpus(
    plans: &[Plan],
    held: &[HeldDomain],
    view: &dyn KernelView,
) -> Result<(), EnforcementError> {
    let ours = |plan: &&Plan| plan.request.backend.precedence() == Precedence::Hypervisor;
    let Some(last) = plans.iter().rfind(ours) else {
        return Ok(());
    };
    check_disjoint(plans, held)?;
    let vcpus = look(&last.request, "virtual CPUs", view.xen_vcpus())?;
    let pools = look(&last.request, "pools of CPUs", view.xen_pools())?;
    let changes = plans.iter().flat_map(|plan| &plan.changes);
    let planned: BTreeMap<(u32, u32), VcpuSetting> = changes.filter_map(vcpu_setting).collect();
    for pool in &pools {
        let inside = vcpus.iter().filter(|one| one.pool == pool.name);
        let settings: Vec<(&Vcpu, VcpuSetting)> = inside
            .map(|one| {
                let planned = planned.get(&(one.id, one.vcpu));
                (one, *planned.unwrap_or(&one.setting))
            })
            .collect();
        let touched = settings
            .iter()
            .any(|(one, _)| planned.contains_key(&(one.id, one.vcpu)));
        if touched {
            check_pool(&last.request, pool, &settings)?;
        }
    }
    Ok(())
}

/// The virtual CPU that a change is about, and what it gets.
fn vcpu_setting(change: &Change) -> Option<((u32, u32), VcpuSetting)> {
    match change {
        Change::SetXenVcpu {
            domain,
            vcpu,
            setting,
        } => Some(((*domain, *vcpu), *setting)),
        _ => None,
    }
}

/// No virtual CPU belongs to two reservations: the one that is made last would hold for both.
fn check_disjoint(plans: &[Plan], held: &[HeldDomain]) -> Result<(), PlanError> {
    // One whose interface is being changed is planned anew.
    let is_planned = |name: &str| plans.iter().any(|plan| plan.request.domain == name);
    let standing = held
        .iter()
        .filter(|held| !is_planned(&held.request.domain))
        .flat_map(|held| {
            let changes = held.entries.iter().map(|entry| &entry.change);
            changes.map(|change| (change, held.request.domain.as_str()))
        });
    let planned = plans.iter().flat_map(|plan| {
        let changes = plan.changes.iter();
        changes.map(|change| (change, plan.request.domain.as_str()))
    });
    let mut owners: BTreeMap<(u32, u32), &str> = BTreeMap::new();
    for (change, domain) in standing.chain(planned) {
        let Some(((id, vcpu), _)) = vcpu_setting(change) else {
            continue;
        };
        match owners.insert((id, vcpu), domain) {
            Some(other) if other != domain => {
                return Err(PlanError::VcpuReservedAlready {
                    domain: domain.into(),
                    id,
                    vcpu,
                    other: other.into(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_pool(
    request: &ReservationRequest,
    pool: &XenPool,
    settings: &[(&Vcpu, VcpuSetting)],
) -> Result<(), AdmissionError> {
    let lengths = |setting: &VcpuSetting| {
        let length = |us: u64| Duration::from_nanos(us.saturating_mul(1_000));
        (length(setting.budget_us), length(setting.period_us))
    };
    let vcpus: Vec<_> = settings
        .iter()
        .map(|(_, setting)| lengths(setting))
        .collect();
    let (sum, verdict) = fit(&vcpus, pool.cpus);
    let Err(misfit) = verdict else {
        return Ok(());
    };
    let holders = settings.iter().map(|(one, setting)| {
        let share = Fraction::new(setting.budget_us, setting.period_us.max(1));
        format!("{}.{} {share}", one.domain, one.vcpu)
    });
    let (domain, pool_name) = (request.domain.clone(), pool.name.clone());
    let holders = holders.collect::<Vec<_>>().join(", ");
    let sum_percent = sum.to_string();
    Err(match misfit {
        Misfit::TooMuch => AdmissionError::PoolTooFull {
            domain,
            pool: pool_name,
            cpus: pool.cpus,
            sum_percent,
            holders,
        },
        Misfit::NotShown => AdmissionError::PoolNotShown {
            domain,
            pool: pool_name,
            cpus: pool.cpus,
            sum_percent,
            holders,
        },
    })
}
