//! From a description and a variant to what each domain gets.
//!
//! Budgets that the description leaves to a rule are derived here, for every verb alike.

mod agents;
mod deployment;
mod error;
mod fallback;
mod host_reservations;
mod simulated_only;

use std::collections::BTreeMap;

use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, CpuPromise, Description, PercentagePoints,
    Reservation, ReservationServer, ResourceInterface, ServerKind, Service, Variant,
};
use tailbound_time::Duration;

pub use agents::with_agents;
pub use deployment::Deployment;
pub use error::ResolutionError;
pub use fallback::{FallenMode, WithFallen, with_fallen};
pub use host_reservations::HostReservations;
pub use simulated_only::{only_simulated, own_tasks, unenforceable};

use crate::{PeriodicLoad, rule_of_cap, virtualization_agnostic};

/// What a reserved domain gets in one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedDomain {
    /// What enforces it.
    pub backend: BackendKind,
    /// Its interface as described; where the back end has no budget it says only which CPUs.
    pub interface: ResourceInterface,
    /// How many virtual CPUs have this interface each.
    pub vcpus: usize,
    /// Whether its members are whole processes, in one group, and not the virtual CPUs of a machine one by one.
    pub is_process_group: bool,
    /// The described rule of its server, where that is described.
    pub server_kind: Option<ServerKind>,
    /// The options that only some back ends take.
    pub options: BackendOptions,
}

impl ResolvedDomain {
    /// The budget rule that analysis and simulation have for it; `None` where there is no theory
    /// of what the kernel does (no reservation, a cap without a guarantee).
    pub fn server(&self) -> Option<ReservationServer> {
        let (budget, period) = (self.interface.budget, self.interface.period);
        match self.backend.promise() {
            CpuPromise::Nothing => None,
            CpuPromise::WholeCpus => Some(ReservationServer::Dedicated),
            CpuPromise::Budget => {
                let enforced = self.backend.server_kind()?;
                let kind = self.server_kind.unwrap_or(enforced);
                Some(kind.with(budget, period))
            }
        }
    }

    /// Whether several CPUs share a budget that is guaranteed.
    pub fn shares_guarantee(&self) -> bool {
        self.interface.shares_budget() && self.backend.guarantees_budget()
    }

    /// The guaranteed rule as threads get it that need the CPU one at a time: of a budget that several CPUs share they use
    /// no more than a whole CPU.
    pub fn server_of_one_thread(&self) -> Option<ReservationServer> {
        let server = self.server()?;
        let (budget, period) = (self.interface.budget, self.interface.period);
        match self.shares_guarantee() && budget >= period {
            true => Some(ReservationServer::Dedicated),
            false => Some(server),
        }
    }

    /// The rule by which a cap gives CPU time where nothing else wants the CPU; `None` of a reservation that is no cap.
    pub fn cap(&self) -> Option<ReservationServer> {
        self.cap_of(self.interface.budget)
    }

    /// The rule of a cap that has its burst in every period; `None` without a burst. The domain gets no more CPU time in any
    /// interval that begins with a period, and no less than by [`ResolvedDomain::cap`].
    pub fn cap_with_burst(&self) -> Option<ReservationServer> {
        let burst = self.options.burst?;
        self.cap_of(self.interface.budget.saturating_add(burst))
    }

    fn cap_of(&self, quota: Duration) -> Option<ReservationServer> {
        let is_cap = self.backend.has_budget() && !self.backend.guarantees_budget();
        // The CPUs have one quota together; of a budget for each of them, that many times the budget.
        let budgets = match self.interface.budget_scope {
            BudgetScope::EachCpu => self.interface.cpus.len().max(1) as u64,
            BudgetScope::AllCpus => 1,
        };
        let quota = quota.checked_mul(budgets);
        is_cap.then(|| rule_of_cap(quota.unwrap_or(Duration::MAX), self.interface.period))
    }

    /// The interface, where the back end enforces one.
    pub fn enforced_interface(&self) -> Option<ResourceInterface> {
        self.backend.has_budget().then(|| self.interface.clone())
    }
}

/// What every reserved domain of `description` gets in `variant`, by name.
///
/// # Errors
/// A derivation that fails, or a margin that leaves no valid budget.
fn resolve(
    description: &Description,
    variant: &Variant,
) -> Result<BTreeMap<String, ResolvedDomain>, ResolutionError> {
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
            let host = description.host_of(domain);
            let frame = host.and_then(|(_, host)| host.major_frame);
            let mut interface =
                interface_of(&services, name, reservation, backend, (margin, frame))?;
            if backend.has_windows() {
                interface.slack = description.slack_of(name);
            }
            let server_kind = reservation.server;
            let one = ResolvedDomain {
                backend,
                interface,
                vcpus: description.vcpus_of(domain),
                is_process_group: domain.kind.is_process_group() && domain.interrupts.is_none(),
                server_kind,
                options: reservation.options.taken_by(backend),
            };
            resolved.insert(name.clone(), one);
        }
    }
    Ok(resolved)
}

/// The interface of one reservation, derived from `services` where it is to be, its margin added. `frame`: the major
/// frame of the host, if it has one. Another back end than that of the windows has their sum for a budget in each frame.
/// Where the back end has no budget, budget and period say nothing: a whole CPU.
///
/// # Errors
/// A derivation that fails, or a margin that leaves no valid budget.
pub fn interface_of(
    services: &[&Service],
    domain: &str,
    reservation: &Reservation,
    backend: BackendKind,
    (margin, frame): (Option<PercentagePoints>, Option<Duration>),
) -> Result<ResourceInterface, ResolutionError> {
    let points = margin.unwrap_or(reservation.margin_points);
    let without_budget = !backend.has_budget();
    let given = reservation.explicit_interface(frame);
    if backend.has_windows() && (reservation.windows.is_empty() || given.is_none()) {
        let domain = domain.into();
        return Err(ResolutionError::NoWindows { domain });
    }
    let (budget, period) = match (given, reservation.derive) {
        (Some(interface), _) => (interface.budget, interface.period),
        // The margin is added below, in one place for derived and given budgets.
        (None, Some(_)) => virtualization_agnostic(&load_of(services)?, PercentagePoints(0.0))?,
        (None, None) if without_budget => {
            let (priority, cpus) = (reservation.priority, reservation.cpus.clone());
            return Ok(ResourceInterface::without_budget(priority, cpus));
        }
        (None, None) => {
            let domain = domain.into();
            return Err(ResolutionError::NoBudget { domain });
        }
    };
    let mut interface = ResourceInterface {
        budget,
        period,
        priority: reservation.priority,
        cpus: reservation.cpus.clone(),
        budget_scope: reservation.budget_scope,
        windows: match backend.has_windows() {
            true => reservation.windows.clone(),
            false => Vec::new(),
        },
        slack: Vec::new(),
    };
    if interface.shares_budget() && !without_budget && !backend.traits().cpus_share_budget {
        return Err(ResolutionError::BudgetScope {
            domain: domain.into(),
            backend,
        });
    }
    if interface.windows.is_empty() {
        interface.budget = with_margin(domain, &interface, points)?;
    }
    Ok(interface)
}

/// All tasks of a domain's services, with their described execution times.
fn load_of(services: &[&Service]) -> Result<PeriodicLoad, ResolutionError> {
    let mut load = PeriodicLoad::default();
    for service in services {
        load = load.and(PeriodicLoad::of(service, &BTreeMap::new())?);
    }
    Ok(load)
}

/// The budget with `points` hundredths of the period added, rounded to the nearest nanosecond.
fn with_margin(
    domain: &str,
    interface: &ResourceInterface,
    points: PercentagePoints,
) -> Result<Duration, ResolutionError> {
    let period = interface.period;
    let longest = interface.longest_budget();
    let added = (period.as_nanos() as f64 * points.0 / 100.0).round() as i128;
    let sum = i128::from(interface.budget.as_nanos()) + added;
    match u64::try_from(sum) {
        Ok(nanoseconds) if nanoseconds > 0 && nanoseconds <= longest.as_nanos() => {
            Ok(Duration::from_nanos(nanoseconds))
        }
        _ => Err(ResolutionError::Margin {
            domain: domain.into(),
            points: points.0,
            budget_ns: sum,
            period,
        }),
    }
}

#[cfg(test)]
mod tests {
    use tailbound_model::{Cpu, Priority};

    use super::*;

    fn with_points(budget_ms: u64, cpus: u32, points: f64) -> Result<Duration, ResolutionError> {
        let interface = ResourceInterface {
            budget: Duration::from_millis(budget_ms),
            period: Duration::from_millis(100),
            priority: Priority::HIGHEST,
            cpus: (0..cpus).map(Cpu).collect(),
            budget_scope: BudgetScope::AllCpus,
            windows: Vec::new(),
            slack: Vec::new(),
        };
        with_margin("d", &interface, PercentagePoints(points))
    }

    #[test]
    fn a_margin_is_hundredths_of_the_period() {
        assert_eq!(with_points(72, 1, 5.0), Ok(Duration::from_millis(77)));
        assert_eq!(with_points(72, 1, -5.0), Ok(Duration::from_millis(67)));
    }

    #[test]
    fn a_margin_never_leaves_the_period() {
        assert!(with_points(97, 1, 5.0).is_err());
        assert!(with_points(97, 1, -97.0).is_err());
        assert_eq!(with_points(97, 2, 5.0), Ok(Duration::from_millis(102)));
        assert!(with_points(197, 2, 5.0).is_err());
    }
}
