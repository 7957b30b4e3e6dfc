//! From a description and a variant to what each domain gets.

use std::collections::BTreeMap;

use tailbound_analysis::{PeriodicLoad, virtualization_agnostic};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_model::{
    BackendKind, Description, Domain, PercentagePoints, Reservation, ReservationServer,
    ResourceInterface, ServerKind, Service, Variant,
};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::hosting::own_tasks;

/// What a reserved domain gets in one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDomain {
    /// What enforces it.
    pub backend: BackendKind,
    /// Its interface as described; where the back end has no budget it says only which CPUs.
    pub interface: ResourceInterface,
    /// The described rule of its server, where that is described.
    pub server_kind: Option<ServerKind>,
}

impl ResolvedDomain {
    /// The budget rule that analysis and simulation have for it; `None` where there is no theory
    /// of what the kernel does (no reservation, a cap without a guarantee).
    pub fn server(&self) -> Option<ReservationServer> {
        let (budget, period) = (self.interface.budget, self.interface.period);
        match self.backend {
            BackendKind::Dedicated => Some(ReservationServer::Dedicated),
            backend => {
                let enforced = backend.server_kind()?;
                let kind = self.server_kind.unwrap_or(enforced);
                Some(kind.with(budget, period))
            }
        }
    }

    /// The interface, where the back end enforces one.
    pub fn enforced_interface(&self) -> Option<ResourceInterface> {
        match self.backend {
            BackendKind::Dedicated | BackendKind::None => None,
            _ => Some(self.interface.clone()),
        }
    }
}

/// What every reserved domain of `description` gets in `variant`, by name.
///
/// # Errors
/// A derivation that fails, or a margin that leaves no valid budget.
pub fn resolve(
    description: &Description,
    variant: &Variant,
) -> Result<BTreeMap<String, ResolvedDomain>, ExperimentError> {
    let mut resolved = BTreeMap::new();
    for (name, domain) in &description.domains {
        if let Some(reservation) = &domain.reservation {
            let own = own_tasks(name, domain);
            let services: Vec<&Service> = description
                .services
                .values()
                .filter(|service| service.domain == *name)
                .chain(&own)
                .collect();
            let backend = variant.backend.unwrap_or(reservation.backend);
            let margin = variant.margin_points;
            let interface = interface_of(&services, name, reservation, backend, margin)?;
            let server_kind = reservation.server;
            let one = ResolvedDomain {
                backend,
                interface,
                server_kind,
            };
            resolved.insert(name.clone(), one);
        }
    }
    Ok(resolved)
}

/// The interface of one reservation, derived from `services` where it is to be, its margin added.
/// Where the back end has no budget, budget and period say nothing: a whole CPU.
pub(crate) fn interface_of(
    services: &[&Service],
    domain: &str,
    reservation: &Reservation,
    backend: BackendKind,
    margin: Option<PercentagePoints>,
) -> Result<ResourceInterface, ExperimentError> {
    let points = margin.unwrap_or(reservation.margin_points);
    let without_budget = matches!(backend, BackendKind::Dedicated | BackendKind::None);
    let (budget, period) = match (reservation.explicit_interface(), reservation.derive) {
        (Some(interface), _) => (interface.budget, interface.period),
        // The margin is added below, in one place for derived and given budgets.
        (None, Some(_)) => virtualization_agnostic(&load_of(services)?, PercentagePoints(0.0))?,
        (None, None) if without_budget => {
            let whole = Duration::from_secs(1);
            return Ok(ResourceInterface {
                budget: whole,
                period: whole,
                priority: reservation.priority,
                cpus: reservation.cpus.clone(),
            });
        }
        (None, None) => {
            return Err(ExperimentError::Domain {
                domain: domain.into(),
                what: "its reservation has neither budget and period nor a rule".into(),
                remedy: "give `budget` and `period`, or `derive`".into(),
            });
        }
    };
    Ok(ResourceInterface {
        budget: with_margin(domain, budget, period, points)?,
        period,
        priority: reservation.priority,
        cpus: reservation.cpus.clone(),
    })
}

/// All tasks of a domain's services, with their described execution times.
fn load_of(services: &[&Service]) -> Result<PeriodicLoad, ExperimentError> {
    let mut load = PeriodicLoad::default();
    for service in services {
        load = load.and(PeriodicLoad::of(service, &BTreeMap::new())?);
    }
    Ok(load)
}

/// The budget with `points` hundredths of the period added, rounded to the nearest nanosecond.
fn with_margin(
    domain: &str,
    budget: Duration,
    period: Duration,
    points: PercentagePoints,
) -> Result<Duration, ExperimentError> {
    let added = (period.as_nanos() as f64 * points.0 / 100.0).round() as i128;
    let sum = i128::from(budget.as_nanos()) + added;
    match u64::try_from(sum) {
        Ok(nanoseconds) if nanoseconds > 0 && nanoseconds <= period.as_nanos() => {
            Ok(Duration::from_nanos(nanoseconds))
        }
        _ => Err(ExperimentError::Margin {
            domain: domain.into(),
            points: points.0,
            budget_ns: sum,
            period,
        }),
    }
}

/// The requests that a run of the first variant would make, with the processes `stand_ins` (one of
/// each domain's) in place of the programs that it would start. A domain without one is left out.
///
/// # Errors
/// As [`resolve`].
pub fn rehearsal(
    description: &Description,
    stand_ins: &BTreeMap<String, u32>,
) -> Result<Vec<ReservationRequest>, ExperimentError> {
    let Some(variant) = description.experiment.variants.first() else {
        return Ok(Vec::new());
    };
    let resolved = resolve(description, variant)?;
    let mut requests = Vec::new();
    for (domain, one) in resolved {
        let described = &description.domains[&domain];
        let target = match (&described.cgroup, stand_ins.get(&domain)) {
            (Some(cgroup), _) => Target::Cgroup(cgroup.clone()),
            (None, _) if !described.pids.is_empty() => Target::Processes(described.pids.clone()),
            (None, Some(pid)) => Target::Processes(vec![*pid]),
            (None, None) => continue,
        };
        if one.backend != BackendKind::None {
            requests.push(ReservationRequest {
                domain,
                target,
                interface: one.interface,
                backend: one.backend,
            });
        }
    }
    Ok(requests)
}

/// The domain that `service` runs in, with its name.
///
/// # Errors
/// The description has no such domain.
pub fn domain_of<'a>(
    description: &'a Description,
    service: &Service,
) -> Result<(&'a str, &'a Domain), ExperimentError> {
    description
        .domains
        .get_key_value(&service.domain)
        .map(|(name, domain)| (name.as_str(), domain))
        .ok_or_else(|| ExperimentError::Unknown {
            kind: "domain",
            name: service.domain.clone(),
            known: names(description.domains.keys()),
        })
}

/// The names, for an error.
pub fn names<'a>(known: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<&str> = known.map(String::as_str).collect();
    if list.is_empty() {
        "none".into()
    } else {
        list.join(", ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_margin_is_hundredths_of_the_period() {
        let (budget, period) = (Duration::from_millis(72), Duration::from_millis(100));
        let sum = with_margin("d", budget, period, PercentagePoints(5.0)).unwrap();
        assert_eq!(sum, Duration::from_millis(77));
        let less = with_margin("d", budget, period, PercentagePoints(-5.0)).unwrap();
        assert_eq!(less, Duration::from_millis(67));
    }

    #[test]
    fn a_margin_never_leaves_the_period() {
        let (budget, period) = (Duration::from_millis(97), Duration::from_millis(100));
        assert!(with_margin("d", budget, period, PercentagePoints(5.0)).is_err());
        assert!(with_margin("d", budget, period, PercentagePoints(-97.0)).is_err());
    }
}
