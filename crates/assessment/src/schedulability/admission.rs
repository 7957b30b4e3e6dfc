//! Whether the reservations of a mode all get their budgets, CPU by CPU.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::admission::{
    DEADLINE_METHOD, FIXED_PRIORITY_METHOD, HostLimits, Reserved, WINDOWS_METHOD, budget_response,
    company, pool, refusals_on, servers_above,
};
use tailbound_analysis::interfaces::MultiprocessorPeriodic;
use tailbound_analysis::interference::{self, InterferenceLoad};
use tailbound_model::{
    BackendKind, Cpu, Description, Precedence, ReceiveContext, ReservationServer,
    ResourceInterface, ServerKind, Window,
};
use tailbound_time::Duration;

use super::GuaranteedSupply;
use crate::AssessmentError;
use crate::mode_content::ModeContent;
use crate::predicted_supply::SHARED_BUDGET;

/// The answer for one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuVerdict {
    /// Its host.
    pub host: String,
    /// The CPU.
    pub cpu: Cpu,
    /// The domains whose reservations hold on it.
    pub domains: Vec<String>,
    /// The sum of the guaranteed bandwidths, in CPUs; caps promise nothing.
    pub load: f64,
    /// The share of the CPU that interference takes at most, where some is described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interference: Option<f64>,
    /// Whether each gets its budget in every period.
    pub admitted: bool,
    /// Which do not, and why.
    pub failures: Vec<String>,
    /// The test, with its source.
    pub method: String,
}

/// The reservation of one domain.
#[derive(Clone, Debug, PartialEq)]
struct JudgedReservation {
    backend: BackendKind,
    interface: ResourceInterface,
    /// The rule of its server; `None` of a cap, which promises nothing.
    server: Option<ReservationServer>,
    /// Whether its replenishments lie at multiples of its period on the clock common to all.
    on_common_grid: bool,
    /// How many virtual CPUs have it, under a hypervisor.
    vcpus: usize,
    /// The parts of its windows, if it is a time partition, in which its programs run.
    running_parts: Vec<Window>,
}

impl JudgedReservation {
    /// As admission sees it.
    fn reserved<'a>(&'a self, domain: &'a str) -> Reserved<'a> {
        Reserved {
            domain,
            place: None,
            backend: self.backend,
            interface: &self.interface,
            server: self.server_kind(),
            on_common_grid: self.on_common_grid,
        }
    }

    fn server_kind(&self) -> Option<ServerKind> {
        self.server.and_then(|server| server.kind())
    }

    /// Whether no period gets more than its budget.
    fn is_limited(&self) -> bool {
        let kind = self.server_kind();
        self.is_cap() || kind.is_some_and(|kind| kind.answers().is_limit)
    }

    fn is_cap(&self) -> bool {
        self.server.is_none()
    }

    fn is_pooled(&self) -> bool {
        self.backend.precedence() == Precedence::Hypervisor
    }
}

/// The reservations of a mode that have a budget or CPUs of their own.
pub(crate) struct JudgedReservations {
    /// By domain.
    reservations: BTreeMap<String, JudgedReservation>,
    /// By host and CPU.
    on: BTreeMap<(String, Cpu), Vec<String>>,
    /// The interrupts whose work is done in softirqs, by host and CPU.
    softirqs: BTreeMap<(String, Cpu), String>,
    /// How many CPUs each host has for a hypervisor's pool.
    pools: BTreeMap<String, u32>,
    /// By host.
    limits: BTreeMap<String, HostLimits>,
    /// Why no bound is known of the interference, by host and CPU.
    unbounded: BTreeMap<(String, Cpu), String>,
}

impl JudgedReservations {
    pub(crate) fn of(
        description: &Description,
        mode: &ModeContent<'_>,
    ) -> Result<Self, AssessmentError> {
        let pools = description.hosts.iter().map(|(name, host)| {
            let count = host.working_cpus().len();
            (name.clone(), u32::try_from(count).unwrap_or(u32::MAX))
        });
        let mut held = Self {
            reservations: BTreeMap::new(),
            on: BTreeMap::new(),
            softirqs: softirqs(description),
            pools: pools.collect(),
            limits: BTreeMap::new(),
            unbounded: BTreeMap::new(),
        };
        held.add_interference(description);
        for (domain, reservation) in &mode.reservations {
            let Some(resolved) = mode.resolved(domain)? else {
                continue;
            };
            let server = resolved.server();
            let backend = reservation.backend;
            let counts = backend.has_budget() || backend.is_real_time_without_budget();
            if server.is_none() && !counts {
                continue;
            }
            let interface = resolved.interface;
            let described = description.domains.get(*domain);
            let host = described.and_then(|domain| description.host_of(domain));
            let running_parts = host.map(|(_, host)| host.running_windows(&interface.windows));
            let host = host.map(|(name, _)| name).unwrap_or_default();
            for cpu in &interface.cpus {
                let place = (host.to_owned(), *cpu);
                held.on.entry(place).or_default().push((*domain).into());
            }
            let judged = JudgedReservation {
                backend,
                interface,
                server,
                on_common_grid: backend.traits().fixed_grid && keeps_period(description, domain),
                vcpus: resolved.vcpus,
                running_parts: running_parts.unwrap_or_default(),
            };
            held.reservations.insert((*domain).to_owned(), judged);
        }
        Ok(held)
    }

    /// Enters the described interference into the limits of each host.
    fn add_interference(&mut self, description: &Description) {
        for (name, host) in &description.hosts {
            let loads = InterferenceLoad::of_host(host).into_iter();
            let unbounded =
                loads.filter_map(|(cpu, load)| Some(((name.clone(), cpu), load.err()?)));
            self.unbounded.extend(unbounded);
            let limits = HostLimits::default().with_interference(host);
            self.limits.insert(name.clone(), limits);
        }
    }

    fn limits_of(&self, host: &str) -> HostLimits {
        self.limits.get(host).cloned().unwrap_or_default()
    }

    /// What holds up a domain while this mode becomes another one: itself as in this one, and those that may
    /// be above it in either, each with the larger of its budgets. In each of its periods such a domain
    /// takes no more than that, whenever it changes.
    ///
    /// # Errors
    /// If one of them has no budgets that compare.
    pub(crate) fn in_transit(&self, other: &Self, domain: &str) -> Result<Self, String> {
        let priority = |held: &Self| Some(held.reservations.get(domain)?.interface.priority);
        let least = priority(self).min(priority(other));
        let by_deadline = |held: &Self| {
            let mut all = held.reservations.values().filter(|one| !one.is_cap());
            let by_priority = [Precedence::Priority, Precedence::Window];
            all.any(|one| !by_priority.contains(&one.backend.precedence()))
        };
        let all_count = by_deadline(self) || by_deadline(other);
        let is_above = |one: &JudgedReservation| {
            all_count || least.is_none_or(|least| one.interface.priority >= least)
        };
        let mut reservations = BTreeMap::new();
        let names = self.reservations.keys().chain(other.reservations.keys());
        for name in names {
            let (here, there) = (self.reservations.get(name), other.reservations.get(name));
            if name == domain {
                reservations.extend(here.map(|here| (name.clone(), here.clone())));
                continue;
            }
            // A cap takes nothing from guarantees.
            let both = [here, there]
                .into_iter()
                .flatten()
                .filter(|one| !one.is_cap());
            if !both.clone().any(is_above) {
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
            reservations.insert(name.clone(), larger);
        }
        let on = self.on.iter().map(|(place, domains)| {
            let mut domains = domains.clone();
            domains.retain(|name| reservations.contains_key(name));
            (place.clone(), domains)
        });
        Ok(Self {
            on: on.collect(),
            reservations,
            softirqs: self.softirqs.clone(),
            pools: self.pools.clone(),
            limits: self.limits.clone(),
            unbounded: self.unbounded.clone(),
        })
    }

    /// Judges every CPU that something holds on.
    pub(crate) fn judge(&self) -> Vec<CpuVerdict> {
        let on = self.on.iter();
        on.map(|((host, cpu), domains)| self.judge_cpu(host, *cpu, domains))
            .collect()
    }

    fn judge_cpu(&self, host: &str, cpu: Cpu, domains: &[String]) -> CpuVerdict {
        let here = || {
            let named = domains.iter();
            named.filter_map(|name| Some((name.as_str(), self.reservations.get(name)?)))
        };
        // The kernel books some on CPUs, too, that they never run on.
        let elsewhere = self
            .on_host(host)
            .filter(|(name, _)| !domains.iter().any(|here| here == name));
        let limited = here().chain(elsewhere);
        let limited = limited.filter(|(_, one)| one.is_limited());
        let limited: Vec<Reserved<'_>> = limited.map(|(name, one)| one.reserved(name)).collect();
        let all: Vec<Reserved<'_>> = here().map(|(name, one)| one.reserved(name)).collect();
        let alone = all.iter().filter(|one| one.backend.gives_whole_cpus());
        let limits = self.limits_of(host);
        let mut failures: Vec<String> = refusals_on(cpu, &[], &limited, &limits)
            .into_iter()
            .chain(alone.filter_map(|one| company(cpu, one, &all)))
            .map(|refusal| refusal.to_string())
            .collect();
        let unlimited = here().filter(|(_, one)| !one.is_limited() && one.server_kind().is_some());
        failures.extend(unlimited.map(|(name, _)| {
            format!(
                "CPU {cpu}: the server of domain \"{name}\" may give more than its budget; no bound is known"
            )
        }));
        let load = limits.interference_on(cpu);
        if let Some(source) = self.softirqs.get(&(host.to_owned(), cpu)) {
            failures.push(format!(
                "CPU {cpu}: the interrupts of \"{source}\" are served in softirqs, which come before every domain without a \
                 budget, so that there is no bound; write receive = \"thread\" and a budget, or give them another CPU"
            ));
        }
        let pooled = here().any(|(_, one)| one.is_pooled());
        failures.extend(self.unjudged_interference((host, cpu), pooled, &limits));
        if pooled {
            failures.extend(self.misfit(host));
        }
        let by = |precedence| here().any(|(_, one)| one.backend.precedence() == precedence);
        let method = match pooled {
            true => pool::METHOD,
            false if by(Precedence::Deadline) => DEADLINE_METHOD,
            false if by(Precedence::Window) => WINDOWS_METHOD,
            false => FIXED_PRIORITY_METHOD,
        };
        let method = match load.is_empty() {
            true => method.to_owned(),
            false => format!("{method}; {}", interference::METHOD),
        };
        let guaranteed = here().filter(|(_, one)| !one.is_cap()).count();
        let share = |(name, one): (&str, &JudgedReservation)| {
            one.reserved(name).share_among(guaranteed).as_f64()
        };
        CpuVerdict {
            host: host.into(),
            cpu,
            domains: domains.to_vec(),
            // The sum of none is a negative zero.
            load: (here().filter(|(_, one)| !one.is_cap()).map(share))
                .fold(0.0, |sum, share| sum + share),
            interference: (!load.is_empty()).then(|| load.share()),
            admitted: failures.is_empty(),
            failures,
            method,
        }
    }

    /// Why the interference on a CPU, or on those of a hypervisor's pool, stands against any verdict, if so.
    fn unjudged_interference(
        &self,
        (host, cpu): (&str, Cpu),
        pooled: bool,
        limits: &HostLimits,
    ) -> Option<String> {
        if let Some(why) = self.unbounded.get(&(host.to_owned(), cpu)) {
            return Some(format!("CPU {cpu}: {why}"));
        }
        (pooled && !limits.interference.is_empty()).then(|| {
            format!(
                "CPU {cpu}: no test here covers interference on the CPUs of a hypervisor's pool; leave it out, or \
                 simulate"
            )
        })
    }

    /// The reservations on a host, by name.
    fn on_host(&self, host: &str) -> impl Iterator<Item = (&str, &JudgedReservation)> {
        let is_here = move |name: &str| {
            let mut on = self.on.iter();
            on.any(|((other, _), domains)| other == host && domains.iter().any(|one| one == name))
        };
        let named = self.reservations.iter();
        let named = named.map(|(name, one)| (name.as_str(), one));
        named.filter(move |(name, _)| is_here(name))
    }

    /// Why the virtual CPUs of a host's hypervisor do not all get their budgets, if so.
    fn misfit(&self, host: &str) -> Option<String> {
        let pooled = self.on_host(host).map(|(_, one)| one);
        let vcpus = pooled.filter(|one| one.is_pooled()).flat_map(|one| {
            let interface = &one.interface;
            std::iter::repeat_n((interface.budget, interface.period), one.vcpus)
        });
        let cpus = self.pools.get(host).copied().unwrap_or(0);
        pool::refusal(host, &vcpus.collect::<Vec<_>>(), cpus)
    }

    /// What a domain gets for sure, or why that is nothing.
    pub(crate) fn given_to(
        &self,
        domain: &str,
        cpus: &[CpuVerdict],
    ) -> Result<GuaranteedSupply, String> {
        let Some(server) = self.reservations.get(domain).and_then(|one| one.server) else {
            return Err(
                "the back end guarantees the domain no CPU time, so no deadline is certain".into(),
            );
        };
        if self.shares_guarantee(domain) {
            return Err(SHARED_BUDGET.into());
        }
        let (mut jitter, mut lost) = (Duration::ZERO, Duration::ZERO);
        let mut interference = InterferenceLoad::default();
        let mut on = Vec::new();
        for verdict in admitted_for(domain, cpus) {
            let verdict = verdict?;
            let held_up = self.held_up(domain, verdict);
            let load = self.limits_of(&verdict.host).interference_on(verdict.cpu);
            let (budget, _) = server.budget_and_period().unwrap_or_default();
            lost = lost.max(load.charged_in(budget.saturating_add(held_up)));
            jitter = jitter.max(held_up);
            // On several CPUs none loses more than all of them together.
            interference = interference.and(load);
            on.push(verdict);
        }
        let windows = self.windows_of(domain)?;
        if !windows.is_empty() && !interference.is_empty() {
            return Err(
                "interference takes from windows what nobody gives back, and no analysis here covers that; simulate".into(),
            );
        }
        let above = match on.as_slice() {
            // The bound below servers knows nothing of interference.
            [only] if interference.is_empty() => self.servers_above(domain, only),
            _ => Vec::new(),
        };
        Ok(GuaranteedSupply {
            server: less(server, lost, &interference)?,
            jitter,
            as_on_own_cpu: false,
            above,
            budget_deadline: None,
            windows,
            interference,
        })
    }

    /// The parts of a domain's windows in which its programs run; none of a domain without windows.
    fn windows_of(&self, domain: &str) -> Result<Vec<Window>, String> {
        let own = self.reservations.get(domain);
        let own = own.filter(|one| !one.interface.windows.is_empty());
        match own.map(|one| one.running_parts.clone()) {
            Some(parts) if parts.is_empty() => {
                Err("its windows are over when it has been switched to".into())
            }
            parts => Ok(parts.unwrap_or_default()),
        }
    }

    fn shares_guarantee(&self, domain: &str) -> bool {
        let own = self.reservations.get(domain);
        own.is_some_and(|one| !one.is_cap() && one.interface.shares_budget())
    }

    /// The budget that the CPUs of a domain share, as tasks in one queue get it for sure, or why that is nothing;
    /// `None` of other domains.
    ///
    /// While a job waits, all CPUs that the domain may use are busy with others of the domain, or the budget is used up.
    /// The time that the resource model takes to be given is used, or passes while the job itself runs.
    pub(crate) fn shared_by(
        &self,
        domain: &str,
        cpus: &[CpuVerdict],
    ) -> Option<Result<MultiprocessorPeriodic, String>> {
        let own = self.reservations.get(domain)?;
        self.shares_guarantee(domain).then(|| {
            let mut limits = HostLimits::default();
            for verdict in admitted_for(domain, cpus) {
                let verdict = verdict?;
                limits = self.limits_of(&verdict.host);
                if verdict.interference.is_some() {
                    return Err(format!(
                        "interference takes CPU {}, which shares a budget with others, and no analysis here covers that; \
                         simulate, or give each CPU a budget of its own",
                        verdict.cpu
                    ));
                }
            }
            let interface = &own.interface;
            let on_one_cpu = [(interface.budget_on_one_cpu(), interface.period)];
            let limit = &limits.real_time;
            if !limit.is_out_of_reach_of(on_one_cpu)
                && !limit.is_out_of_reach_on_one_grid(&on_one_cpu)
            {
                return Err(format!(
                    "one of its CPUs may give up to {} in every {}, so that all may have to pause to stay clear of \
                     real-time throttling, which no analysis here covers; lower the budget",
                    interface.budget_on_one_cpu(),
                    interface.period
                ));
            }
            let cpus = u32::try_from(interface.cpus.len()).unwrap_or(u32::MAX);
            let resource = MultiprocessorPeriodic::new(interface.budget, interface.period, cpus);
            resource.map_err(|error| error.to_string())
        })
    }

    /// The servers that may come before `domain` on a CPU, as tasks; none where something else may, too.
    fn servers_above(&self, domain: &str, verdict: &CpuVerdict) -> Vec<SporadicTask> {
        let named = verdict.domains.iter();
        let held = named.filter_map(|name| Some(self.reservations.get(name)?.reserved(name)));
        let held: Vec<Reserved<'_>> = held.collect();
        servers_above(verdict.cpu, domain, &held, &self.limits_of(&verdict.host))
            .unwrap_or_default()
    }

    /// How long the others on a CPU, and interference, hold up `domain` while it spends a budget, at most: its
    /// worst-case response time less the budget (docs/concepts/interfaces.md); what the admission
    /// found to be at most the period.
    fn held_up(&self, domain: &str, verdict: &CpuVerdict) -> Duration {
        let Some(own) = self.reservations.get(domain) else {
            return Duration::ZERO;
        };
        let is_alone = verdict.domains.len() == 1 && verdict.interference.is_none();
        if !own.is_limited() || is_alone {
            return Duration::ZERO;
        }
        let interface = &own.interface;
        let most = interface.period.saturating_sub(interface.budget);
        let named = verdict.domains.iter();
        let limited = named.filter_map(|name| {
            let one = self.reservations.get(name)?;
            one.is_limited().then(|| one.reserved(name))
        });
        let held: Vec<Reserved<'_>> = limited.collect();
        let limits = self.limits_of(&verdict.host);
        let response = budget_response(verdict.cpu, domain, &held, &limits);
        // By deadlines nothing is known but that the budget comes within the period.
        response.map_or(most, |response| {
            response.saturating_sub(interface.budget).min(most)
        })
    }
}

/// The server with what interference may use of each budget taken from it.
fn less(
    server: ReservationServer,
    lost: Duration,
    interference: &InterferenceLoad,
) -> Result<ReservationServer, String> {
    let Some((budget, _)) = server.budget_and_period() else {
        return Ok(server);
    };
    match budget.checked_sub(lost).filter(|left| !left.is_zero()) {
        Some(left) => Ok(server.with_budget(left)),
        None => Err(format!(
            "interference may use up the whole budget of {budget}: {}",
            interference.names().join(", ")
        )),
    }
}

/// The verdicts on the CPUs of a domain; of one with reservations that do not all get their budgets, that.
fn admitted_for<'a>(
    domain: &str,
    cpus: &'a [CpuVerdict],
) -> impl Iterator<Item = Result<&'a CpuVerdict, String>> {
    let own = move |cpu: &&CpuVerdict| cpu.domains.iter().any(|name| name == domain);
    cpus.iter()
        .filter(own)
        .map(|verdict| match verdict.admitted {
            true => Ok(verdict),
            false => Err(format!(
                "the reservations on CPU {} do not all get their budgets",
                verdict.cpu
            )),
        })
}

/// The interrupts whose work is done in softirqs, by host and CPU.
fn softirqs(description: &Description) -> BTreeMap<(String, Cpu), String> {
    let mut softirqs = BTreeMap::new();
    for domain in description.domains.values() {
        let Some(source) = &domain.interrupts else {
            continue;
        };
        let host = description.host_of(domain).map(|(name, _)| name);
        if source.receive == ReceiveContext::Softirq {
            let place = |cpu: &Cpu| (host.unwrap_or_default().to_owned(), *cpu);
            let here = source
                .cpus
                .iter()
                .map(|cpu| (place(cpu), source.name.clone()));
            softirqs.extend(here);
        }
    }
    softirqs
}

/// Whether a domain's reservation has one period in all modes, so that its replenishments stay on the grid.
fn keeps_period(description: &Description, domain: &str) -> bool {
    let modes = description.modes.values();
    let mut reserved = modes.filter_map(|mode| description.reservation_in(mode, domain));
    let Some((first, _)) = reserved.next() else {
        return true;
    };
    // A derived period depends on the tasks of the mode.
    first.derive.is_none()
        && reserved.all(|(one, _)| one.derive.is_none() && one.period == first.period)
}

/// The one with the larger budget of two that differ in nothing else.
fn larger(one: &JudgedReservation, other: &JudgedReservation) -> Option<JudgedReservation> {
    if !one.is_limited() || !other.is_limited() {
        return (one == other).then(|| one.clone());
    }
    let is_deferrable = |one: &JudgedReservation| one.server_kind() == Some(ServerKind::Deferrable);
    let (ours, theirs) = (&one.interface, &other.interface);
    let alike = (one.backend, ours.period, ours.priority, &ours.cpus)
        == (other.backend, theirs.period, theirs.priority, &theirs.cpus)
        && is_deferrable(one) == is_deferrable(other);
    alike.then(|| match ours.budget >= theirs.budget {
        true => one.clone(),
        false => other.clone(),
    })
}
