//! Whether reservations all get their budgets: the one answer, for descriptions and for hosts alike.
//!
//! Sums of bandwidths are exact fractions. What a host lets reservations have of a CPU is a value,
//! [`HostLimits`]: enforcement fills it in from the kernel, and for a description the kernel's defaults hold.
//! Reservations by fixed priorities are judged by response times ([`fixed_priority`]), those by deadlines by
//! the sum of their bandwidths (hard constant-bandwidth servers: Abeni and Buttazzo 1998; exact), and those
//! of a hypervisor on all CPUs of a pool by tests of global EDF ([`pool`]). Time partitions get their windows if no two
//! of them overlap, which is exact. Caps promise nothing, so they
//! take nothing from guarantees; with all guarantees they fill a CPU at most.
//!
//! A back end that books every CPU takes its bandwidth from the kernel's sum on all CPUs, also where its domain never
//! runs: groups behind servers of the kernel from that of SCHED_DEADLINE, real-time groups of cgroup v1 from that of
//! such groups (`tg_rt_schedulable` in kernel/sched/rt.c: the shares of sibling groups sum to that of the group above
//! them at most).
//!
//! A budget that several CPUs share may be spent on any of them, up to a whole period a CPU. So beside others it
//! counts on each CPU as min(budget, period), which is sound and pessimistic: what is spent on one CPU is counted on all.
//! In return one thread alone gets that much on whichever of the CPUs it runs. On a CPU without other guarantees it
//! counts as its part of the budget, budget / CPUs: so much each CPU gives to a domain that keeps all of them busy.

mod deadlines;
pub mod fixed_priority;
mod limits;
pub mod pool;
mod real_time_limit;
mod refusal;
mod windows;

use std::collections::BTreeSet;

pub use limits::HostLimits;
pub use real_time_limit::RealTimeLimit;
pub use refusal::AdmissionRefusal;
use tailbound_model::{BackendKind, Cpu, Precedence, ResourceInterface, ServerKind};
use tailbound_time::{Duration, Fraction};

use crate::SporadicTask;
use crate::schedulability::server_interference::interfering_task;

use self::fixed_priority::{FixedPriorityServer, budget_response_ns};
use crate::interference::InterferenceLoad;

/// The tests on one CPU, with their sources.
pub const FIXED_PRIORITY_METHOD: &str = "fixed priorities per CPU by response times, deferrable servers with a jitter of period - budget (Bernat \
     and Burns 1999) or less where all replenish on one grid; sufficient";
/// See [`FIXED_PRIORITY_METHOD`].
pub const DEADLINE_METHOD: &str = "EDF per CPU by the sum of bandwidths (Liu and Layland 1973; Abeni and Buttazzo 1998), exact; with deferrable \
     servers by processor demand with a jitter of period - budget, sufficient";

/// See [`FIXED_PRIORITY_METHOD`].
pub const WINDOWS_METHOD: &str =
    "time partitions per CPU by windows of one major frame that do not overlap, exact";

/// A reservation that is there, or asked for.
#[derive(Clone, Copy, Debug)]
pub struct Reserved<'a> {
    /// Its domain, unique among all that hold.
    pub domain: &'a str,
    /// Where it is from, in words, if that is elsewhere.
    pub place: Option<&'a str>,
    /// What enforces it.
    pub backend: BackendKind,
    /// Budget, period, priority, CPUs and whether these share the budget.
    pub interface: &'a ResourceInterface,
    /// The rule of its server; `None` of a cap.
    pub server: Option<ServerKind>,
    /// Whether its replenishments lie at multiples of its period on the clock common to all.
    pub on_common_grid: bool,
}

impl Reserved<'_> {
    /// Its share of each of its CPUs, at most.
    pub fn share(&self) -> Fraction {
        match self.is_capped() {
            // The kernel's pool is a cap of all CPUs together, and nobody counts on a part of it.
            true => self.even_share(),
            false => self.share_of(self.interface.budget_on_one_cpu()),
        }
    }

    /// Its share of each of its CPUs where all of them spend a shared budget alike.
    fn even_share(&self) -> Fraction {
        self.share_of(self.even_part())
    }

    fn share_of(&self, budget: Duration) -> Fraction {
        Fraction::new(budget.as_nanos(), self.interface.period.as_nanos())
    }

    /// Its share of a CPU on which so many reservations are guaranteed a budget.
    pub fn share_among(&self, guaranteed: usize) -> Fraction {
        match guaranteed {
            0 | 1 => self.even_share(),
            _ => self.share(),
        }
    }

    /// The part of a shared budget that each CPU gives where all of them are kept busy, rounded up.
    fn even_part(&self) -> Duration {
        let interface = self.interface;
        match interface.shares_budget() {
            true => interface.budget.scaled_up(1, interface.cpus.len() as u64),
            false => interface.budget,
        }
    }

    /// How long after a replenishment it may begin to ask for its budget on one CPU: a deferrable server at any time,
    /// the others from the replenishment on, or never with more demand than that.
    fn jitter(&self) -> Duration {
        let interface = self.interface;
        match self.server {
            Some(ServerKind::Deferrable) => {
                let most = interface.budget_on_one_cpu();
                interface.period.saturating_sub(most)
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether its domain is guaranteed a budget on single CPUs of the host; a hypervisor's are elsewhere.
    fn is_guaranteed(&self) -> bool {
        self.backend.guarantees_budget() && self.backend.precedence() != Precedence::Hypervisor
    }

    /// Whether its domain is to have its CPUs to itself.
    fn is_alone(&self) -> bool {
        self.backend.gives_whole_cpus()
    }

    fn is_capped(&self) -> bool {
        self.backend.has_budget() && !self.backend.guarantees_budget()
    }

    /// Whether its domain may take all the time that the kernel leaves to real-time threads.
    fn is_unbounded(&self) -> bool {
        self.backend.is_real_time_without_budget()
    }

    /// Whether its domain is guaranteed a budget by a fixed priority, beneath the kernel's real-time throttling.
    fn is_by_priority(&self) -> bool {
        self.is_guaranteed() && self.backend.precedence() == Precedence::Priority
    }

    /// Whether its domain is guaranteed time that a real-time thread without a budget could take from it.
    fn is_beneath_real_time(&self) -> bool {
        self.is_by_priority() || self.is_guaranteed() && self.backend.has_windows()
    }

    fn holds_on(&self, cpu: Cpu) -> bool {
        self.interface.cpus.contains(&cpu)
    }

    /// Whether the kernel counts its bandwidth on a CPU in the sum of those by deadlines, or in that of groups by
    /// priorities, in which single threads by priorities have no part.
    fn is_booked_on(&self, cpu: Cpu, sum: Precedence) -> bool {
        let books_every_cpu = self.backend.traits().books_every_cpu;
        let is_booked_here = sum == Precedence::Deadline && self.holds_on(cpu);
        self.backend.precedence() == sum && (books_every_cpu || is_booked_here)
    }

    /// Its domain, and where it is from.
    fn name(&self) -> String {
        match self.place {
            None => self.domain.to_owned(),
            Some(place) => format!("{} ({place})", self.domain),
        }
    }
}

/// Checks `requested` beside `active` on every CPU, guarantees before caps.
///
/// # Errors
/// What is too much, and what would fit.
pub fn admit(
    active: &[Reserved<'_>],
    requested: &[Reserved<'_>],
    limits: &HostLimits,
) -> Result<(), AdmissionRefusal> {
    let mut names: BTreeSet<&str> = active.iter().map(|one| one.domain).collect();
    if let Some(twice) = requested.iter().find(|one| !names.insert(one.domain)) {
        return Err(duplicate(active, twice.domain));
    }
    let books_all = |one: &Reserved<'_>| one.backend.traits().books_every_cpu;
    let beside = match requested.iter().any(books_all) {
        true => active,
        false => &[],
    };
    let reservations = requested.iter().chain(beside);
    let cpus: BTreeSet<Cpu> = reservations
        .flat_map(|one| one.interface.cpus.iter().copied())
        .collect();
    for cpu in cpus {
        if let Some(refusal) = refusals_on(cpu, active, requested, limits)
            .into_iter()
            .next()
        {
            return Err(refusal);
        }
    }
    Ok(())
}

/// Which of the active reservations has the name already, or another one of the requests.
fn duplicate(active: &[Reserved<'_>], domain: &str) -> AdmissionRefusal {
    let mut active = active.iter().filter(|one| one.domain == domain);
    let place = active.find_map(|one| one.place);
    let domain = domain.to_owned();
    match place {
        None => AdmissionRefusal::DuplicateDomain(domain),
        Some(place) => AdmissionRefusal::DuplicateElsewhere {
            domain,
            place: place.to_owned(),
        },
    }
}

/// Everything against `requested` beside `active` on one CPU.
pub fn refusals_on(
    cpu: Cpu,
    active: &[Reserved<'_>],
    requested: &[Reserved<'_>],
    limits: &HostLimits,
) -> Vec<AdmissionRefusal> {
    let mut held: Vec<&Reserved<'_>> = active.iter().filter(|one| one.holds_on(cpu)).collect();
    let here = || requested.iter().filter(|one| one.holds_on(cpu));
    let caps_last = here()
        .filter(|one| !one.is_capped())
        .chain(here().filter(|one| one.is_capped()));
    let mut refusals = Vec::new();
    for one in caps_last {
        refusals.extend(mixture(cpu, one, &held));
        refusals.extend(windows::overlap(cpu, one, &held));
        refusals.extend(unbounded_company(cpu, one, &held));
        refusals.extend(excess(cpu, one, &held, limits));
        held.push(one);
    }
    for sum in [Precedence::Deadline, Precedence::Priority] {
        refusals.extend(overbooking(cpu, sum, active, requested, limits));
    }
    refusals.extend(late_budgets(cpu, &held, limits));
    refusals.extend(deadlines::late_budget(
        cpu,
        &held,
        &limits.interference_on(cpu),
    ));
    refusals
}

/// Why a reservation cannot be on a CPU with others, if one of them is to have it to itself.
pub fn company(cpu: Cpu, one: &Reserved<'_>, others: &[Reserved<'_>]) -> Option<AdmissionRefusal> {
    let counts = |one: &Reserved<'_>| {
        let backend = one.backend;
        backend.enforces() && backend.precedence() != Precedence::Hypervisor
    };
    let other = others.iter().find(|other| {
        other.holds_on(cpu)
            && other.domain != one.domain
            && (one.is_alone() || other.is_alone())
            && counts(one)
            && counts(other)
    })?;
    let (alone, other) = match one.is_alone() {
        true => (one, other),
        false => (other, one),
    };
    Some(AdmissionRefusal::NotAlone {
        cpu,
        domain: alone.name(),
        other: other.name(),
    })
}

/// Why not all of `requested` can be on their CPUs together, if one of them is to have a CPU to itself.
pub fn company_among(requested: &[Reserved<'_>]) -> Option<AdmissionRefusal> {
    requested.iter().find_map(|one| {
        let mut cpus = one.interface.cpus.iter();
        cpus.find_map(|cpu| company(*cpu, one, requested))
    })
}

/// SCHED_DEADLINE runs before SCHED_FIFO, and a budget would be spent in the windows of others.
fn mixture(cpu: Cpu, one: &Reserved<'_>, held: &[&Reserved<'_>]) -> Option<AdmissionRefusal> {
    let clash = held.iter().find(|other| {
        one.is_guaranteed()
            && other.is_guaranteed()
            && one.backend.precedence() != other.backend.precedence()
    })?;
    Some(AdmissionRefusal::MixedBackends {
        cpu,
        domain: one.domain.to_owned(),
        backend: one.backend,
        other: clash.name(),
        other_backend: clash.backend,
        reason: match one.backend.has_windows() || clash.backend.has_windows() {
            true => "a budget would be spent in the windows of a time partition",
            false => "SCHED_DEADLINE threads run before every SCHED_FIFO thread, managers included",
        },
    })
}

/// A real-time thread without a budget takes all the time from those of lower priority, and makes the kernel throttle
/// those of higher priority with it.
fn unbounded_company(
    cpu: Cpu,
    one: &Reserved<'_>,
    held: &[&Reserved<'_>],
) -> Option<AdmissionRefusal> {
    let clash = held.iter().find(|other| {
        one.is_unbounded() && other.is_beneath_real_time()
            || one.is_beneath_real_time() && other.is_unbounded()
    })?;
    let (unbounded, other) = match one.is_unbounded() {
        true => (one, *clash),
        false => (*clash, one),
    };
    Some(AdmissionRefusal::Unbounded {
        cpu,
        domain: unbounded.name(),
        backend: unbounded.backend,
        other: other.name(),
    })
}

/// The exact sum of bandwidths against the bound. Caps do not lessen what guarantees get, so only
/// guarantees count against a guarantee; everything counts against a cap.
fn excess(
    cpu: Cpu,
    one: &Reserved<'_>,
    held: &[&Reserved<'_>],
    limits: &HostLimits,
) -> Option<AdmissionRefusal> {
    let counts =
        |other: &Reserved<'_>| other.is_guaranteed() || one.is_capped() && other.is_capped();
    if !one.is_guaranteed() && !one.is_capped() {
        return None;
    }
    let counted: Vec<&Reserved<'_>> = held.iter().copied().filter(|other| counts(other)).collect();
    too_much(cpu, one, &counted, limits)
}

/// The excess of a sum of bandwidths that the kernel keeps of a CPU, where some are booked whose domains do not run
/// there.
fn overbooking(
    cpu: Cpu,
    sum: Precedence,
    active: &[Reserved<'_>],
    requested: &[Reserved<'_>],
    limits: &HostLimits,
) -> Option<AdmissionRefusal> {
    let is_booked = |one: &&Reserved<'_>| one.is_booked_on(cpu, sum);
    let mut counted: Vec<&Reserved<'_>> = active.iter().filter(is_booked).collect();
    for one in requested.iter().filter(is_booked) {
        let are_all_here = counted.iter().all(|other| other.holds_on(cpu)) && one.holds_on(cpu);
        if !are_all_here && let Some(refusal) = too_much(cpu, one, &counted, limits) {
            return Some(refusal);
        }
        counted.push(one);
    }
    None
}

/// The refusal of a reservation whose bandwidth, with those that are counted, is more than the bound.
fn too_much(
    cpu: Cpu,
    one: &Reserved<'_>,
    counted: &[&Reserved<'_>],
    limits: &HostLimits,
) -> Option<AdmissionRefusal> {
    let sum = counted
        .iter()
        .fold(Fraction::new(0, 1), |sum, other| sum + other.share());
    let alike = counted
        .iter()
        .filter(|other| other.is_guaranteed() == one.is_guaranteed());
    let kinds = alike.map(|other| other.backend).chain([one.backend]);
    let bounds = kinds.map(|kind| (limits.bound(kind), kind));
    let (most, kind) = bounds.min_by(|(a, _), (b, _)| a.cmp(b))?;
    let left = limits.left_by_interference(cpu, most);
    let left = left.filter(|_| one.is_guaranteed());
    let (most, reason) = left.unwrap_or_else(|| (most, limits.reason(kind)));
    // A reservation alone asks each CPU for its part of a shared budget; nobody else counts on the rest.
    let is_alone = counted.is_empty();
    let asked = match is_alone {
        true => one.even_share(),
        false => one.share(),
    };
    if sum + asked <= most {
        return None;
    }
    let holders: Vec<String> = counted
        .iter()
        .map(|other| match other.place {
            None => format!("{} {}", other.domain, other.share()),
            Some(place) => format!("{} {} {place}", other.domain, other.share()),
        })
        .collect();
    let holders = match holders.is_empty() {
        true => "by nobody".into(),
        false => holders.join(", "),
    };
    let period = one.interface.period;
    let fits_here = most.saturating_sub(sum).of(period);
    let at_once = match is_alone && one.interface.shares_budget() {
        true => one.interface.cpus.len() as u64,
        false => 1,
    };
    Some(AdmissionRefusal::TooMuch {
        cpu,
        domain: one.domain.to_owned(),
        asked_percent: asked.to_string(),
        held_percent: sum.to_string(),
        holders,
        bound_percent: most.to_string(),
        bound_reason: reason,
        fits: fits_here.checked_mul(at_once).unwrap_or(Duration::MAX),
        period,
    })
}

/// The servers by fixed priorities among `held`, what pauses them if anything may, and what takes the CPU from all.
struct Ranked<'a> {
    reserved: Vec<&'a Reserved<'a>>,
    servers: Vec<FixedPriorityServer>,
    paused_by: Option<RealTimeLimit>,
    interference: InterferenceLoad,
}

impl<'a> Ranked<'a> {
    fn of(cpu: Cpu, held: &[&'a Reserved<'a>], limits: &HostLimits) -> Self {
        let by_priority = held.iter().filter(|one| one.is_by_priority());
        let reserved: Vec<&Reserved<'_>> = by_priority.copied().collect();
        let is_alone = reserved.len() == 1;
        let budget_here = |one: &Reserved<'_>| match is_alone {
            true => one.even_part(),
            false => one.interface.budget_on_one_cpu(),
        };
        let servers = reserved.iter().map(|one| FixedPriorityServer {
            budget_ns: budget_here(one).as_nanos(),
            period_ns: one.interface.period.as_nanos(),
            priority: one.interface.priority.0,
            jitter_ns: one.jitter().as_nanos(),
            on_common_grid: one.on_common_grid,
        });
        let servers = servers.collect();
        let lengths: Vec<_> = reserved
            .iter()
            .map(|one| (budget_here(one), one.interface.period))
            .collect();
        let one_grid = reserved.iter().all(|one| one.on_common_grid);
        let limit = &limits.real_time;
        let out_of_reach = limit.is_out_of_reach_of(lengths.iter().copied())
            || (one_grid && limit.is_out_of_reach_on_one_grid(&lengths));
        Self {
            reserved,
            servers,
            paused_by: (!out_of_reach).then_some(*limit),
            interference: limits.interference_on(cpu),
        }
    }

    /// A shared budget on a CPU where the managers may have to pause domains: the manager of the CPU does not know what
    /// is spent of it there.
    fn uncounted_use(&self, cpu: Cpu) -> Option<AdmissionRefusal> {
        self.paused_by.filter(|_| self.reserved.len() > 1)?;
        let shared = self.reserved.iter();
        let one = shared
            .into_iter()
            .find(|one| one.interface.shares_budget())?;
        Some(AdmissionRefusal::NotJudged {
            cpu,
            domain: one.domain.to_owned(),
            reason: "with these budgets and periods the domains of the CPU may have to pause to stay clear of real-time \
                throttling, and a budget shared with other CPUs is not counted there; shorten the periods, or give the \
                domain CPUs of its own"
                .into(),
        })
    }

    fn response(&self, index: usize) -> Duration {
        let found_ns = budget_response_ns(
            &self.servers,
            index,
            self.paused_by.as_ref(),
            &self.interference,
        );
        Duration::from_nanos(found_ns)
    }
}

/// The reservations by fixed priorities that do not get their budgets in their periods.
fn late_budgets(cpu: Cpu, held: &[&Reserved<'_>], limits: &HostLimits) -> Vec<AdmissionRefusal> {
    let ranked = Ranked::of(cpu, held, limits);
    let mut refusals = Vec::new();
    for (index, one) in ranked.reserved.iter().enumerate() {
        let (interface, response) = (one.interface, ranked.response(index));
        if response <= interface.period {
            continue;
        }
        let above = ranked.reserved.iter().enumerate().filter(|(other, above)| {
            *other != index && above.interface.priority >= interface.priority
        });
        let mut above: Vec<String> = above.map(|(_, above)| above.name()).collect();
        if ranked.paused_by.is_some() {
            above.push("the pauses that keep clear of real-time throttling".into());
        }
        above.extend(ranked.interference.names().into_iter().map(str::to_owned));
        refusals.push(AdmissionRefusal::BudgetTooLate {
            cpu,
            domain: one.domain.to_owned(),
            above: above.join(", "),
            budget: Duration::from_nanos(ranked.servers[index].budget_ns),
            period: interface.period,
            response,
        });
    }
    if refusals.is_empty() {
        refusals.extend(ranked.uncounted_use(cpu));
    }
    refusals
}

/// When a domain has got its budget at the latest, counted from a replenishment or the begin of a frame, beside all that
/// holds on a CPU; `None` if it has no reservation by fixed priorities there, nor by windows.
pub fn budget_response(
    cpu: Cpu,
    domain: &str,
    held: &[Reserved<'_>],
    limits: &HostLimits,
) -> Option<Duration> {
    let here: Vec<&Reserved<'_>> = held.iter().filter(|one| one.holds_on(cpu)).collect();
    let own = here.iter().find(|one| one.domain == domain)?;
    if let Some(last) = own.interface.windows.last() {
        return Some(last.end());
    }
    let ranked = Ranked::of(cpu, &here, limits);
    let index = ranked
        .reserved
        .iter()
        .position(|one| one.domain == domain)?;
    Some(ranked.response(index))
}

/// The servers that may come before `domain` on a CPU, as the tasks that take as much from it; `None` where something else
/// may come before it, too, or the managers may have to pause domains there.
pub fn servers_above(
    cpu: Cpu,
    domain: &str,
    held: &[Reserved<'_>],
    limits: &HostLimits,
) -> Option<Vec<SporadicTask>> {
    let here: Vec<&Reserved<'_>> = held.iter().filter(|one| one.holds_on(cpu)).collect();
    let ranked = Ranked::of(cpu, &here, limits);
    let own = ranked.reserved.iter().find(|one| one.domain == domain)?;
    let are_all_ranked = here
        .iter()
        .filter(|one| one.backend.precedence() != Precedence::FairShare)
        .count()
        == ranked.reserved.len();
    if ranked.paused_by.is_some() || !are_all_ranked {
        return None;
    }
    let above = ranked
        .reserved
        .iter()
        .filter(|one| one.domain != domain && one.interface.priority >= own.interface.priority);
    let tasks = above.map(|one| {
        let interface = one.interface;
        let budget = interface.budget_on_one_cpu();
        interfering_task(one.server?, budget, interface.period).ok()
    });
    tasks.collect()
}
