//! The least interfaces of the domains of a description, and what their CPUs need to hold them all.
//!
//! Composition as of Shin & Lee 2003: to the level above, a periodic resource (Π, Θ) is a periodic task
//! with execution time Θ and period Π, and one with an explicit deadline Δ has that deadline.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_analysis::interfaces::{DedicatedCpu, SupplyBound, Workload, schedulable};
use tailbound_analysis::interference::{self, HostInterference, InterferedCpu, InterferenceLoad};
use tailbound_analysis::resolution::{with_agents, with_fallen};
use tailbound_analysis::{AnalysisError, SporadicTask};
use tailbound_model::{Cpu, Description, InputFiles, ServerKind};
use tailbound_time::{Duration, nanoseconds};

use super::{
    ComponentOrder, InterfaceChoice, InterfaceQuery, SupplyKind, TaskComponent, best_of,
    least_interfaces,
};
use crate::AssessmentError;
use crate::analysis::refuse_what_is_only_simulated;
use crate::mode_content::{ModeContent, modes};
use crate::schedulability::{ServiceBudget, ServiceQuestion};

/// The order of the domains on each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainOrder {
    /// Earliest deadline first.
    EarliestDeadlineFirst,
    /// The shorter period first.
    RateMonotonic,
    /// The shorter deadline of the budget first.
    DeadlineMonotonic,
}

/// The question for the interfaces of a description.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptionQuery {
    /// The kind, the costs, and the periods; without periods each domain keeps its described one.
    pub query: InterfaceQuery,
    /// The only domain; all of them if `None`.
    pub domain: Option<String>,
    /// The order of the domains on each CPU.
    pub order: DomainOrder,
    /// The period of the interface of each CPU; none is searched if `None`.
    pub compose: Option<Duration>,
}

/// The interfaces of all modes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DescriptionInterfaces {
    /// The kind of reservation.
    pub model: &'static str,
    /// Every mode, also with domains fallen back; one of a description without modes.
    pub modes: Vec<ModeInterfaces>,
}

/// The interfaces of one mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeInterfaces {
    /// The mode, where the description has modes.
    pub mode: Option<String>,
    /// Every domain with tasks that have deadlines; the others with their described budgets.
    pub domains: Vec<DomainInterface>,
    /// Every CPU that reservations of these domains are on; empty for kinds that do not compose, and
    /// where one domain is asked about.
    pub cpus: Vec<CpuInterface>,
}

/// The least interfaces of a domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DomainInterface {
    /// The domain.
    pub domain: String,
    /// The service; `None` for tasks that the domain has of its own.
    pub service: Option<String>,
    /// The sum of execution time / period of the tasks, of all clients.
    pub utilisation: f64,
    /// The described budget, if there is one.
    #[serde(rename = "described_budget_ns", with = "nanoseconds::optional")]
    pub described_budget: Option<Duration>,
    /// The described period, if there is one.
    #[serde(rename = "described_period_ns", with = "nanoseconds::optional")]
    pub described_period: Option<Duration>,
    /// Whether the answer is the described interface, since no task has a deadline.
    pub is_as_described: bool,
    /// The answer of each period.
    pub interfaces: Vec<InterfaceChoice>,
    /// The index of the one with the least bandwidth; `None` where none suffices.
    pub best: Option<usize>,
    /// The test and the resource model, with their sources.
    pub method: Option<String>,
}

/// The domains of a CPU as tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuInterface {
    /// The host.
    pub host: String,
    /// The CPU.
    pub cpu: Cpu,
    /// The domains whose interfaces of the least bandwidth are taken.
    pub domains: Vec<String>,
    /// The sum of their bandwidths, in CPUs.
    pub bandwidth: f64,
    /// Whether the whole CPU gives all of them their budgets.
    pub schedulable: bool,
    /// The reason if not.
    pub why: Option<String>,
    /// The least interface of the CPU, where a period for it is asked for.
    pub interface: Option<InterfaceChoice>,
    /// The test, with its source.
    pub method: Option<String>,
}

/// Why a polling server is no periodic resource.
const POLLING: &str = "its reservation is a polling server, which loses its budget where nothing waits \
                       and so leaves longer gaps than a periodic resource; use --model polling";

impl DomainInterface {
    /// A domain without an interface.
    fn without(domain: &str, why: String) -> Self {
        Self {
            domain: domain.into(),
            service: None,
            utilisation: 0.0,
            described_budget: None,
            described_period: None,
            is_as_described: false,
            interfaces: vec![InterfaceChoice::none(None, why)],
            best: None,
            method: None,
        }
    }

    /// The answer with the least bandwidth.
    pub fn choice(&self) -> Option<&InterfaceChoice> {
        self.interfaces.get(self.best?)
    }
}

/// Searches the least interfaces.
///
/// # Errors
/// No such domain, no tasks, something that only simulation answers for, or a reservation that cannot be
/// derived.
pub fn description_interfaces(
    description: &Description,
    inputs: &InputFiles,
    query: &DescriptionQuery,
) -> Result<DescriptionInterfaces, AssessmentError> {
    refuse_what_is_only_simulated(description)?;
    if let Some(name) = &query.domain {
        let domain = description.domains.get(name);
        crate::error::named("domain", name, domain, description.domains.keys())?;
    }
    let fallen = with_fallen(description)?;
    let description = with_agents(&fallen.description);
    let mut answers = Vec::new();
    for mode in modes(&description) {
        let mut reserved = mode.reservations.keys();
        if let Some(domain) = reserved.find(|domain| mode.shares_guarantee(domain)) {
            return Err(AssessmentError::SharedBudget {
                domain: (*domain).to_owned(),
            });
        }
        let domains = query.domains(&description, &mode, inputs)?;
        let composes = matches!(
            query.query.kind,
            SupplyKind::Periodic | SupplyKind::ExplicitDeadline
        );
        let cpus = match composes && query.domain.is_none() {
            true => query.cpus(&description, &mode, &domains)?,
            false => Vec::new(),
        };
        answers.push(ModeInterfaces {
            mode: mode.mode.map(Into::into),
            domains,
            cpus,
        });
    }
    let is_searched = |one: &DomainInterface| !one.is_as_described;
    if !answers
        .iter()
        .any(|mode| mode.domains.iter().any(is_searched))
    {
        return Err(AssessmentError::Empty {
            what: "no task with a deadline to find an interface for; `tailbound size` finds \
                   reservations that keep latencies",
        });
    }
    Ok(DescriptionInterfaces {
        model: query.query.kind.name(),
        modes: answers,
    })
}

/// The budget that a description gives a domain.
struct DescribedBudget {
    budget: Duration,
    period: Duration,
    /// Whether its server is a polling one.
    polls: bool,
    /// Whether the budget is guaranteed, and no cap.
    is_guaranteed: bool,
}

impl DescribedBudget {
    /// That of a domain in a mode, if it has one.
    fn of(mode: &ModeContent<'_>, domain: &str) -> Result<Option<Self>, AssessmentError> {
        let Some(resolved) = mode.resolved(domain)? else {
            return Ok(None);
        };
        let kind = resolved.server().and_then(|server| server.kind());
        Ok(resolved.backend.has_budget().then_some(Self {
            budget: resolved.interface.budget,
            period: resolved.interface.period,
            polls: kind == Some(ServerKind::Polling),
            is_guaranteed: kind.is_some(),
        }))
    }

    /// The described interface itself, of a domain that no deadline asks for another one.
    fn kept(&self, domain: &str) -> DomainInterface {
        let bandwidth = self.budget.as_secs_f64() / self.period.as_secs_f64();
        let row = InterfaceChoice {
            period: Some(self.period),
            budget: Some(self.budget),
            bandwidth: Some(bandwidth),
            ..InterfaceChoice::default()
        };
        DomainInterface {
            described_budget: Some(self.budget),
            described_period: Some(self.period),
            is_as_described: true,
            interfaces: vec![row],
            best: Some(0),
            ..DomainInterface::without(domain, String::new())
        }
    }
}

impl DescriptionQuery {
    fn domains(
        &self,
        description: &Description,
        mode: &ModeContent<'_>,
        inputs: &InputFiles,
    ) -> Result<Vec<DomainInterface>, AssessmentError> {
        let mut domains = Vec::new();
        for (name, service) in &mode.services {
            if self
                .domain
                .as_ref()
                .is_some_and(|only| *only != service.domain)
            {
                continue;
            }
            let question = ServiceQuestion {
                description,
                mode,
                name,
                service,
                inputs,
            };
            let described = DescribedBudget::of(mode, &service.domain)?;
            let mut answer = match &described {
                Some(described) if described.is_guaranteed && question.has_no_deadline() => {
                    described.kept(&service.domain)
                }
                _ if question.has_no_deadline() => continue,
                Some(described) if described.polls && self.query.kind != SupplyKind::Polling => {
                    DomainInterface::without(&service.domain, POLLING.into())
                }
                _ => self.answer(&question, described.as_ref().map(|one| one.period))?,
            };
            answer.service = (description.services.contains_key(*name)).then(|| (*name).to_owned());
            answer.described_budget = described.as_ref().map(|one| one.budget);
            answer.described_period = described.as_ref().map(|one| one.period);
            domains.push(answer);
        }
        let has_tasks = |name: &str| mode.services.values().any(|one| one.domain == name);
        for name in mode.reservations.keys().filter(|name| !has_tasks(name)) {
            let is_wanted = self.domain.as_ref().is_none_or(|only| only == name);
            let described = DescribedBudget::of(mode, name)?;
            if let Some(described) = described.filter(|one| one.is_guaranteed && is_wanted) {
                domains.push(described.kept(name));
            }
        }
        Ok(domains)
    }

    fn answer(
        &self,
        question: &ServiceQuestion<'_>,
        described: Option<Duration>,
    ) -> Result<DomainInterface, AssessmentError> {
        let domain = &question.service.domain;
        let interference = match interference_of(question)? {
            Ok(interference) => interference,
            Err(why) => return Ok(DomainInterface::without(domain, why)),
        };
        let search = ServiceBudget::of(question, &self.query, interference)?;
        if let Some(why) = search.obstacle() {
            return Ok(DomainInterface::without(domain, why));
        }
        let periods = match self.query.periods.is_empty() {
            true => described.into_iter().collect(),
            false => self.query.periods.clone(),
        };
        if periods.is_empty() {
            let why = "no period is described; give one, or a range: --period 1ms..100ms";
            return Ok(DomainInterface::without(domain, why.into()));
        }
        let mut answer = DomainInterface {
            utilisation: search.utilisation,
            interfaces: Vec::new(),
            ..DomainInterface::without(domain, String::new())
        };
        for period in periods {
            let (choice, method) = search.least(period)?;
            answer.method = answer.method.or(method);
            answer.interfaces.push(choice);
        }
        answer.best = best_of(&answer.interfaces);
        Ok(answer)
    }

    /// Every CPU with the domains that are reserved on it.
    fn cpus(
        &self,
        description: &Description,
        mode: &ModeContent<'_>,
        domains: &[DomainInterface],
    ) -> Result<Vec<CpuInterface>, AssessmentError> {
        let mut on: BTreeMap<(String, Cpu), Vec<&DomainInterface>> = BTreeMap::new();
        for domain in domains {
            let Some(resolved) = mode.resolved(&domain.domain)? else {
                continue;
            };
            let described = description.domains.get(&domain.domain);
            let host = described.and_then(|domain| description.host_of(domain));
            let host = host.map_or_else(String::new, |(name, _)| name.to_owned());
            for cpu in &resolved.interface.cpus {
                on.entry((host.clone(), *cpu)).or_default().push(domain);
            }
        }
        let each = on.into_iter().map(|((host, cpu), domains)| {
            let described = description.hosts.get(&host);
            let interference = described.map(HostInterference::described);
            let interference = interference.unwrap_or_default().on(cpu);
            let cpu = self.cpu(host, cpu, &domains, interference);
            cpu.map_err(AssessmentError::from)
        });
        each.collect()
    }

    fn cpu(
        &self,
        host: String,
        cpu: Cpu,
        domains: &[&DomainInterface],
        interference: InterferenceLoad,
    ) -> Result<CpuInterface, AnalysisError> {
        let mut answer = CpuInterface {
            host,
            cpu,
            domains: domains.iter().map(|one| one.domain.clone()).collect(),
            bandwidth: 0.0,
            schedulable: false,
            why: None,
            interface: None,
            method: None,
        };
        let mut tasks = Vec::new();
        for domain in domains {
            let task = domain.choice().and_then(as_task);
            let Some(task) = task else {
                answer.why = Some(format!("domain \"{}\" has no interface", domain.domain));
                return Ok(answer);
            };
            let choice = domain.choice().and_then(|choice| choice.bandwidth);
            answer.bandwidth += choice.unwrap_or_default();
            tasks.push(task?);
        }
        let component = TaskComponent::new(tasks, self.order.into())?;
        let workload = Workload::new(component.tasks.clone())?;
        let names = interference.names().join(", ");
        let supply: Box<dyn SupplyBound> = match interference.is_empty() {
            true => Box::new(DedicatedCpu),
            false => Box::new(InterferedCpu(interference)),
        };
        let verdict = schedulable(&workload, component.scheduler, supply.as_ref())?;
        answer.schedulable = verdict.schedulable;
        answer.why = verdict.shortage.map(|shortage| shortage.to_string());
        answer.method = Some(match names.is_empty() {
            true => verdict.method,
            false => format!("{}; {}", verdict.method, interference::METHOD),
        });
        if let Some(period) = self.compose.filter(|_| !names.is_empty()) {
            let why = format!(
                "an interface of a CPU holds its domains and no interference, and there is some: {names}"
            );
            answer.interface = Some(InterfaceChoice::none(Some(period), why));
        } else if let Some(period) = self.compose {
            let query = InterfaceQuery {
                periods: vec![period],
                ..self.query.clone()
            };
            let least = least_interfaces(&component, &query)?;
            answer.interface = least.interfaces.into_iter().next();
        }
        Ok(answer)
    }
}

/// The interference on the CPUs of a service's domain, or why it has no bound.
fn interference_of(
    question: &ServiceQuestion<'_>,
) -> Result<Result<InterferenceLoad, String>, AssessmentError> {
    let (description, name) = (question.description, &question.service.domain);
    let domain = description.domains.get(name);
    let host = domain.and_then(|domain| description.host_of(domain));
    let (Some(resolved), Some((_, host))) = (question.mode.resolved(name)?, host) else {
        return Ok(Ok(InterferenceLoad::default()));
    };
    let loads = InterferenceLoad::of_host(host).into_iter();
    let here = loads.filter(|(cpu, _)| resolved.interface.cpus.contains(cpu));
    // A domain on several CPUs loses no more on one of them than on all together.
    let sum = here.map(|(_, load)| load);
    Ok(sum
        .reduce(|one, other| Ok(one?.and(other?)))
        .unwrap_or_else(|| Ok(InterferenceLoad::default())))
}

/// A periodic resource as a task of the level above.
fn as_task(choice: &InterfaceChoice) -> Option<Result<SporadicTask, AnalysisError>> {
    let (budget, period) = (choice.budget?, choice.period?);
    let deadline = choice.deadline.unwrap_or(period);
    Some(SporadicTask::new(budget, period, deadline))
}

impl From<DomainOrder> for ComponentOrder {
    fn from(order: DomainOrder) -> Self {
        match order {
            DomainOrder::EarliestDeadlineFirst => Self::EarliestDeadlineFirst,
            DomainOrder::RateMonotonic => Self::RateMonotonic,
            DomainOrder::DeadlineMonotonic => Self::DeadlineMonotonic,
        }
    }
}

impl DescriptionInterfaces {
    /// Everything without an answer, in words; empty where each domain has an interface and each CPU holds
    /// all of its domains.
    pub fn objections(&self) -> Vec<String> {
        self.modes
            .iter()
            .flat_map(ModeInterfaces::objections)
            .collect()
    }
}

impl ModeInterfaces {
    fn objections(&self) -> Vec<String> {
        let place = match &self.mode {
            Some(mode) => format!(" in mode {mode}"),
            None => String::new(),
        };
        let without = self.domains.iter().filter(|one| one.best.is_none());
        let without = without.map(|one| {
            let why = one.interfaces.first().and_then(|row| row.why.as_deref());
            let why = why.unwrap_or("no period suffices");
            format!("domain \"{}\" has no interface{place}: {why}", one.domain)
        });
        let full = self.cpus.iter().filter(|cpu| !cpu.schedulable);
        let full = full.map(|cpu| {
            let why = cpu.why.as_deref().unwrap_or("it is not shown");
            let (number, host) = (cpu.cpu, &cpu.host);
            format!("CPU {number} of host {host} does not hold all interfaces{place}: {why}")
        });
        let unmet = self.cpus.iter().filter(|cpu| cpu.schedulable);
        let unmet = unmet.filter_map(|cpu| {
            let row = cpu.interface.as_ref()?;
            let why = row.why.as_deref().unwrap_or_default();
            let (number, host) = (cpu.cpu, &cpu.host);
            row.budget
                .is_none()
                .then(|| format!("CPU {number} of host {host} has no interface{place}: {why}"))
        });
        without.chain(full).chain(unmet).collect()
    }
}
