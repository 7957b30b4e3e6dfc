//! Whether the reservations of a mode all get their budgets, CPU by CPU.

use std::collections::BTreeMap;

use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::admission::{
    AdmissionHost, AdmissionQuery, BudgetRule, Excess, Fit, HostScheduler, Placement, Reservation,
    admit,
};
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_model::{BackendKind, Cpu, CpuSet, Description, ReservationServer};
use tailbound_time::Duration;

use super::Given;
use crate::ExperimentError;
use crate::in_mode::{Guaranteed, InMode};

/// The answer for one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuVerdict {
    /// Its host.
    pub host: String,
    /// The CPU.
    pub cpu: Cpu,
    /// The domains whose reservations hold on it.
    pub domains: Vec<String>,
    /// The sum of their bandwidths, in CPUs.
    pub load: f64,
    /// Whether each gets its budget in every period.
    pub admitted: bool,
    /// Which do not, and why.
    pub failures: Vec<String>,
    /// The test, with its source.
    pub method: String,
}

/// The reservations of a mode that their back ends guarantee.
pub(super) struct Held {
    /// By domain.
    guaranteed: BTreeMap<String, (BackendKind, Guaranteed)>,
    /// By host and CPU.
    on: BTreeMap<(String, Cpu), Vec<String>>,
}

impl Held {
    pub(super) fn of(
        description: &Description,
        mode: &InMode<'_>,
    ) -> Result<Self, ExperimentError> {
        let mut held = Self {
            guaranteed: BTreeMap::new(),
            on: BTreeMap::new(),
        };
        for (domain, reservation) in &mode.reservations {
            let Some(guaranteed) = mode.guaranteed(domain)? else {
                continue;
            };
            let described = description.domains.get(*domain);
            let only = description.hosts.keys().next();
            let host = described.and_then(|domain| domain.host.as_ref()).or(only);
            for cpu in &guaranteed.interface.cpus {
                let place = (host.cloned().unwrap_or_default(), *cpu);
                held.on.entry(place).or_default().push((*domain).into());
            }
            let backend = reservation.backend;
            let name = (*domain).to_owned();
            held.guaranteed.insert(name, (backend, guaranteed));
        }
        Ok(held)
    }

    /// What holds up a domain while this mode becomes another one: itself as in this one, and those that may
    /// be above it in either, each with the larger of its budgets. In each of its periods such a domain
    /// takes no more than that, whenever it changes.
    ///
    /// # Errors
    /// If one of them has no budgets that compare.
    pub(super) fn in_transit(&self, other: &Self, domain: &str) -> Result<Self, String> {
        let priority = |held: &Self| Some(held.guaranteed.get(domain)?.1.interface.priority);
        let least = priority(self).min(priority(other));
        let by_deadline = |held: &Self| {
            let mut all = held.guaranteed.values();
            all.any(|(backend, _)| *backend == BackendKind::Deadline)
        };
        let all_count = by_deadline(self) || by_deadline(other);
        let is_above = |guaranteed: &Guaranteed| {
            all_count || least.is_none_or(|least| guaranteed.interface.priority >= least)
        };
        let mut guaranteed = BTreeMap::new();
        let names = self.guaranteed.keys().chain(other.guaranteed.keys());
        for name in names {
            let (here, there) = (self.guaranteed.get(name), other.guaranteed.get(name));
            if name == domain {
                guaranteed.extend(here.map(|here| (name.clone(), here.clone())));
                continue;
            }
            let both = [here, there].into_iter().flatten();
            if !both.clone().any(|(_, one)| is_above(one)) {
                continue;
            }
            let larger = match (here, there) {
                (Some(here), Some(there)) => larger(here, there),
                _ => None,
            };
            let larger = larger.ok_or_else(|| {
                format!(
                    "domain \"{name}\" may hold it up, and changes more than its budget, so what it takes \
                     meanwhile is not bounded; keep its period, priority and CPUs in all modes"
                )
            })?;
            guaranteed.insert(name.clone(), larger);
        }
        let on = self.on.iter().map(|(place, domains)| {
            let mut domains = domains.clone();
            domains.retain(|name| guaranteed.contains_key(name));
            (place.clone(), domains)
        });
        Ok(Self {
            on: on.collect(),
            guaranteed,
        })
    }

    /// Judges every CPU that something holds on.
    pub(super) fn judge(&self) -> Result<Vec<CpuVerdict>, ExperimentError> {
        let on = self.on.iter();
        on.map(|((host, cpu), domains)| self.judge_cpu(host, *cpu, domains))
            .collect()
    }

    fn judge_cpu(
        &self,
        host: &str,
        cpu: Cpu,
        domains: &[String],
    ) -> Result<CpuVerdict, ExperimentError> {
        let here = || domains.iter().filter_map(|name| self.guaranteed.get(name));
        let deadline = here().filter(|(backend, _)| *backend == BackendKind::Deadline);
        let by_deadline = deadline.count();
        let scheduler = if by_deadline > 0 {
            HostScheduler::PartitionedEdf
        } else {
            HostScheduler::PartitionedFixedPriority
        };
        let reservations: Vec<Reservation> = domains
            .iter()
            .filter_map(|name| Some(reservation(name, &self.guaranteed.get(name)?.1, cpu)))
            .collect();
        let query = AdmissionHost {
            cpus: CpuSet::from([cpu]),
            scheduler,
            fit: Fit::FirstDecreasing,
            modes: BTreeMap::from([(String::new(), reservations)]),
        };
        let found = admit(&AdmissionQuery {
            hosts: BTreeMap::from([(host.to_owned(), query)]),
        })?;
        let modes = found.hosts.values().flat_map(BTreeMap::values);
        let cpus: Vec<_> = modes.flat_map(|mode| &mode.cpus).collect();
        let mut failures: Vec<String> = cpus
            .iter()
            .flat_map(|cpu| &cpu.failures)
            .map(|failure| format!("{} {}", failure.reservation, told(failure.excess)))
            .collect();
        if by_deadline > 0 && by_deadline < domains.len() {
            failures.push(
                "SCHED_DEADLINE runs before fixed priorities, so both on one CPU break the \
                 promises of the latter; use one back end per CPU"
                    .into(),
            );
        }
        Ok(CpuVerdict {
            host: host.into(),
            cpu,
            domains: domains.to_vec(),
            load: cpus.iter().map(|cpu| cpu.load).sum(),
            admitted: failures.is_empty(),
            failures,
            method: found.methods.join("; "),
        })
    }

    /// What a domain gets for sure, or why that is nothing.
    pub(super) fn given_to(&self, domain: &str, cpus: &[CpuVerdict]) -> Result<Given, String> {
        let Some((_, guaranteed)) = self.guaranteed.get(domain) else {
            return Err(
                "no deadline holds for sure: the kernel promises its domain nothing".into(),
            );
        };
        let mut jitter = Duration::ZERO;
        for verdict in cpus
            .iter()
            .filter(|cpu| cpu.domains.iter().any(|d| d == domain))
        {
            if !verdict.admitted {
                return Err(format!(
                    "the reservations on CPU {} do not all get their budgets",
                    verdict.cpu
                ));
            }
            jitter = jitter.max(self.held_up(domain, &verdict.domains));
        }
        Ok(Given {
            server: guaranteed.server,
            jitter,
            as_on_own_cpu: false,
        })
    }

    /// How long the others on a CPU hold up `domain` while it spends a budget, at most: its
    /// worst-case response time less the budget (docs/concepts/interfaces.md); what the admission
    /// found to be at most the period.
    fn held_up(&self, domain: &str, on_cpu: &[String]) -> Duration {
        let Some((_, own)) = self.guaranteed.get(domain) else {
            return Duration::ZERO;
        };
        let (Some((budget, period)), rule) = amounts(own.server) else {
            return Duration::ZERO;
        };
        let most = period.saturating_sub(budget);
        let above = on_cpu.iter().filter(|other| *other != domain);
        let above = above
            .filter_map(|other| Some(&self.guaranteed.get(other)?.1))
            .filter(|other| other.interface.priority >= own.interface.priority);
        let task = |guaranteed: &Guaranteed| -> Option<SporadicTask> {
            let (Some((budget, period)), rule) = amounts(guaranteed.server) else {
                return None;
            };
            let jitter = match rule {
                BudgetRule::Deferrable => period.saturating_sub(budget),
                BudgetRule::Periodic => Duration::ZERO,
            };
            let task = SporadicTask::new(budget, period, period).ok()?;
            task.with_jitter(jitter).ok()
        };
        let others: Option<Vec<SporadicTask>> = above.map(task).collect();
        let (Some(mut tasks), Ok(own)) = (others, SporadicTask::new(budget, period, period)) else {
            return most;
        };
        if tasks.is_empty() && rule != BudgetRule::Periodic {
            return Duration::ZERO;
        }
        tasks.push(own);
        let found = response_times(&tasks, &PriorityOrder::as_given(tasks.len()), &[]);
        let lowest = found
            .ok()
            .and_then(|found| found.tasks.last()?.response_time.ok());
        lowest.map_or(most, |response| response.saturating_sub(budget).min(most))
    }
}

/// The one with the larger budget of two that differ in nothing else.
fn larger(
    one: &(BackendKind, Guaranteed),
    other: &(BackendKind, Guaranteed),
) -> Option<(BackendKind, Guaranteed)> {
    let ((Some((budget, period)), rule), (Some((their_budget, their_period)), their_rule)) =
        (amounts(one.1.server), amounts(other.1.server))
    else {
        return (one == other).then(|| one.clone());
    };
    let (ours, theirs) = (&one.1.interface, &other.1.interface);
    let alike = (one.0, period, ours.priority, &ours.cpus)
        == (other.0, their_period, theirs.priority, &theirs.cpus)
        && matches!(
            (rule, their_rule),
            (BudgetRule::Deferrable, BudgetRule::Deferrable)
                | (BudgetRule::Periodic, BudgetRule::Periodic)
        );
    alike.then(|| match budget >= their_budget {
        true => one.clone(),
        false => other.clone(),
    })
}

/// Budget and period of a server, where it has them, and when it asks for its budget.
fn amounts(server: ReservationServer) -> (Option<(Duration, Duration)>, BudgetRule) {
    match server {
        ReservationServer::Deferrable { budget, period } => {
            (Some((budget, period)), BudgetRule::Deferrable)
        }
        ReservationServer::Periodic { budget, period }
        | ReservationServer::Polling { budget, period }
        | ReservationServer::ConstantBandwidth { budget, period }
        | ReservationServer::Sporadic { budget, period } => {
            (Some((budget, period)), BudgetRule::Periodic)
        }
        // POSIX's rule and the soft one may give more than the budget; no bound is known.
        ReservationServer::PosixSporadic { .. }
        | ReservationServer::SoftConstantBandwidth { .. }
        | ReservationServer::Dedicated => (None, BudgetRule::Periodic),
    }
}

fn reservation(name: &str, guaranteed: &Guaranteed, cpu: Cpu) -> Reservation {
    let whole = (Duration::from_secs(1), Duration::from_secs(1));
    let (amount, rule) = amounts(guaranteed.server);
    let (budget, period) = amount.unwrap_or(whole);
    Reservation {
        name: name.into(),
        budget,
        period,
        priority: guaranteed.interface.priority,
        rule,
        placement: Placement::On(CpuSet::from([cpu])),
    }
}

fn told(excess: Excess) -> String {
    match excess {
        Excess::Window { window, shortfall } => {
            format!("may lack {shortfall} of its budget at the end of a window of {window}")
        }
        Excess::Bandwidth { cpus } => {
            format!(
                "does not fit: the bandwidths are {:.2} % of a CPU too much",
                cpus * 100.0
            )
        }
    }
}
