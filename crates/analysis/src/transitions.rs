//! How long a change from mode to mode takes at most, until all reservations and tasks of the new mode
//! are in force.
//!
//! # What is bounded
//! Each domain k goes from bandwidth w_k to w_k' on its CPUs. A reservation that was told its new budget
//! and period has them from its next replenishment on: at most one *old* period P_k after it was told.
//! An agent answers within a_k (zero without an agent; the description's `timeout` at most). A domain
//! that gets less first stops tasks, and is then told: its share is free within a_k + P_k. A domain that
//! gets more is first told, and then starts tasks: with `start = "in-force"` it is done within P_k + a_k,
//! with `accepted` within max(P_k, a_k). Below, L_k is this length.
//!
//! # No CPU is ever above 1
//! Let both modes fit: on each CPU the sum of w_k and that of w_k' are at most 1, each with what agents
//! take there. Count a domain that gets less with w_k until the new reservation is in force, and one that
//! gets more with w_k' as soon as it is told. While some decrease on a CPU is not in force, an increase
//! there is told only if this sum stays at most 1. When all decreases of a CPU are in force, each domain
//! there counts with w_k' if it got less, and with w_k or w_k', both at most w_k', if it gets more: the
//! sum is at most that of the new mode. So every increase there may be told then, in any order, and the
//! sum is at most 1 at each instant before and after. Increases of a domain on several CPUs have the same
//! bandwidth on each and wait for the last of them.
//!
//! # The bounds
//! - `greedy` and `prompt`: a decrease is done within L_k. An increase k waits at most until all
//!   decreases on its CPUs are in force, W_k = max L_j over these j, by the argument above; not at all if
//!   the larger of the two bandwidths of every domain on its CPUs sum up to at most 1, since then no
//!   order of changes is above. It is done within W_k + L_k; the whole within the largest of these.
//! - `batch`: all increases wait for all others: max L_j over these, and max L_k over the increases.
//! - `sequential` and `boost`: one after the other, decreases first: the sum of all L_k.
//!
//! What host and messages take, at most some hundred microseconds, is not in it, nor a fallback of a
//! domain whose agent does not answer, nor a host that stalls. Source of the policies: thesis (Li 2021),
//! section 2.4; the bounds are this project's.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use tailbound_model::{
    Bandwidth, ChangePolicy, Cpu, CpuPromise, Description, Domain, ModeChanges, TaskStart, Variant,
};
use tailbound_time::{Duration, Fraction, nanoseconds};

use crate::resolution::{Deployment, ResolutionError};

/// A CPU of a host.
pub type HostCpu = (String, Cpu);

/// What becomes of a domain's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BandwidthChange {
    /// Less bandwidth: tasks first, then the reservation.
    #[serde(rename = "decrease")]
    Decrease,
    /// More bandwidth: the reservation first, then tasks.
    #[serde(rename = "increase")]
    Increase,
    /// The same bandwidth with another period or priority.
    #[serde(rename = "same bandwidth")]
    SameBandwidth,
    /// Only its tasks change.
    #[serde(rename = "tasks only")]
    TasksOnly,
}

impl fmt::Display for BandwidthChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Decrease => "decrease",
            Self::Increase => "increase",
            Self::SameBandwidth => "same bandwidth",
            Self::TasksOnly => "tasks only",
        })
    }
}

/// What a mode change asks of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainBandwidths {
    /// The domain.
    pub domain: String,
    /// The CPUs that its reservation holds on.
    pub cpus: BTreeSet<HostCpu>,
    /// What its reservation takes of each of them before; none of a domain without a guarantee.
    pub before: Option<Bandwidth>,
    /// What it takes after.
    pub after: Option<Bandwidth>,
    /// How its reservation changes.
    pub direction: BandwidthChange,
    /// The longest time until a change of its reservation is in force: the old period.
    pub period: Duration,
    /// Whether an agent switches its tasks.
    pub has_agent: bool,
}

/// The bound for one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainBound {
    /// The domain.
    pub domain: String,
    /// How its reservation changes.
    #[serde(rename = "change")]
    pub direction: BandwidthChange,
    /// It is begun at most this long after the change was asked for.
    #[serde(rename = "begun_ns", with = "nanoseconds")]
    pub begun: Duration,
    /// All of it is in force at most this long after the change was asked for.
    #[serde(rename = "in_force_ns", with = "nanoseconds")]
    pub in_force: Duration,
}

/// A change from one mode to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionBound {
    /// The mode before.
    pub from: String,
    /// The mode after.
    pub to: String,
    /// All is in force at most this long after it was asked for, where agents answer at once.
    #[serde(rename = "bound_ns", with = "nanoseconds")]
    pub bound: Duration,
    /// The same where each agent takes as long as it may (`timeout`).
    #[serde(rename = "bound_with_slow_agents_ns", with = "nanoseconds")]
    pub bound_with_slow_agents: Duration,
    /// The domains that change, where agents answer at once.
    #[serde(rename = "domains")]
    pub steps: Vec<DomainBound>,
}

/// The test by which the bounds hold.
pub const METHOD: &str = "decreases before increases, each in force within its old period \
                          (docs/reference/description.md, Changes between modes)";

/// The bounds for each ordered pair of the modes of a description, whose domains are on CPUs of their
/// own (placement `partitioned`, nothing nested): what `check` accepts and can be enforced.
///
/// # Errors
/// It is not known what a domain gets in some mode.
pub fn transitions(description: &Description) -> Result<Vec<TransitionBound>, ResolutionError> {
    transitions_of(description, |_, _| true)
}

/// The same for the pairs that are wanted, by the names of the old mode and the new one.
///
/// # Errors
/// As there.
pub fn transitions_of(
    description: &Description,
    wanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<TransitionBound>, ResolutionError> {
    let as_described = Variant::as_described();
    let mut hosted = BTreeMap::new();
    for name in description.modes.keys() {
        let deployment = Deployment::of(description, Some(name), &as_described)?;
        hosted.insert(name.as_str(), deployment.description);
    }
    let changes = description.section::<ModeChanges>();
    let mut transitions = Vec::new();
    for (from, before) in &hosted {
        for (to, after) in hosted.iter() {
            if to == from || !wanted(from, to) {
                continue;
            }
            let domains = domain_changes(description, before, after);
            let agents = agents_per_cpu(description, before);
            let at_once = steps(&domains, &agents, changes, Duration::ZERO);
            let slow = steps(&domains, &agents, changes, changes.timeout);
            transitions.push(TransitionBound {
                from: (*from).into(),
                to: (*to).into(),
                bound: all_in_force(&at_once),
                bound_with_slow_agents: all_in_force(&slow),
                steps: at_once,
            });
        }
    }
    Ok(transitions)
}

fn all_in_force(steps: &[DomainBound]) -> Duration {
    let ends = steps.iter().map(|step| step.in_force);
    ends.max().unwrap_or(Duration::ZERO)
}

/// What the agents of domains take of each CPU before all domains, in any mode.
fn agents_per_cpu(
    description: &Description,
    hosted: &Description,
) -> BTreeMap<HostCpu, Vec<Bandwidth>> {
    let mut taken: BTreeMap<HostCpu, Vec<Bandwidth>> = BTreeMap::new();
    for (name, domain) in &description.domains {
        let Some(reservation) = hosted
            .domains
            .get(name)
            .and_then(|it| it.reservation.as_ref())
        else {
            continue;
        };
        let cost = description.agent_time_before_all(domain, reservation.backend);
        let share = Bandwidth::new(cost, description.section::<ModeChanges>().least_gap);
        for cpu in on(hosted, name) {
            taken.entry(cpu).or_default().extend(share);
        }
    }
    taken
}

/// The CPUs that the reservation of a domain holds on.
fn on(hosted: &Description, name: &str) -> BTreeSet<HostCpu> {
    let Some(domain) = hosted.domains.get(name) else {
        return BTreeSet::new();
    };
    let host = hosted.host_of(domain).map_or("", |(host, _)| host);
    let cpus = domain.allowed_cpus().iter();
    cpus.map(|cpu| (host.to_owned(), *cpu)).collect()
}

/// What each domain that holds something is asked for; those that nothing changes of, too, since they
/// take their share all the while.
fn domain_changes(
    description: &Description,
    before: &Description,
    after: &Description,
) -> Vec<DomainBandwidths> {
    let domains = description.domains.iter().filter_map(|(name, domain)| {
        let (old, new) = (before.domains.get(name)?, after.domains.get(name)?);
        let direction = direction(old, new);
        let tasks = tasks_of(before, name) != tasks_of(after, name);
        let (share_before, share_after) = (guaranteed(old), guaranteed(new));
        if direction.is_none() && !tasks && share_before.is_none() {
            return None;
        }
        let reservation = old.reservation.as_ref();
        let period = reservation.and_then(|reservation| reservation.period);
        let changes = direction.is_some() || tasks;
        Some(DomainBandwidths {
            domain: name.clone(),
            cpus: on(before, name),
            before: share_before,
            after: share_after,
            period: match direction {
                Some(_) => period.unwrap_or(Duration::ZERO),
                None => Duration::ZERO,
            },
            direction: direction.unwrap_or(BandwidthChange::TasksOnly),
            has_agent: domain.agent.is_some() && changes,
        })
    });
    domains.collect()
}

/// How a reservation changes; `None` if it does not.
fn direction(before: &Domain, after: &Domain) -> Option<BandwidthChange> {
    if before.reservation == after.reservation {
        return None;
    }
    Some(match bandwidth(after).cmp(&bandwidth(before)) {
        Ordering::Less => BandwidthChange::Decrease,
        Ordering::Greater => BandwidthChange::Increase,
        Ordering::Equal => BandwidthChange::SameBandwidth,
    })
}

/// Budget by period, if there are any.
fn bandwidth(domain: &Domain) -> Option<Bandwidth> {
    let reservation = domain.reservation.as_ref()?;
    Bandwidth::new(reservation.budget?, reservation.period?)
}

/// What is promised to a domain of each of its CPUs; `None` without a promise.
fn guaranteed(domain: &Domain) -> Option<Bandwidth> {
    match domain.reservation.as_ref()?.backend.promise() {
        CpuPromise::Budget => bandwidth(domain),
        CpuPromise::WholeCpus => {
            let whole = Duration::from_secs(1);
            Bandwidth::new(whole, whole)
        }
        CpuPromise::Nothing => None,
    }
}

/// The tasks that are released of a domain, its own and its services'.
fn tasks_of<'a>(hosted: &'a Description, name: &'a str) -> BTreeSet<(&'a str, &'a str)> {
    let own = hosted.domains.get(name).into_iter();
    let own = own.flat_map(|domain| domain.tasks.keys().map(|task| ("", task.as_str())));
    let services = hosted.services.iter();
    let inside = services.filter(|(_, service)| service.domain == name);
    let served = inside.flat_map(|(service, content)| {
        let tasks = content.tasks.keys();
        tasks.map(move |task| (service.as_str(), task.as_str()))
    });
    own.chain(served).collect()
}

/// The bounds for each domain that changes, if every agent takes at most `answer`; in the order in
/// which they are begun. `agents` is what agents take of each CPU all the while.
pub fn steps(
    domains: &[DomainBandwidths],
    agents: &BTreeMap<HostCpu, Vec<Bandwidth>>,
    changes: ModeChanges,
    answer: Duration,
) -> Vec<DomainBound> {
    let mut order: Vec<(&DomainBandwidths, Duration)> = domains
        .iter()
        .filter(|change| change.direction != BandwidthChange::TasksOnly || change.has_agent)
        .map(|change| (change, length(change, changes.start, answer)))
        .collect();
    // Increases last; the order among the others, and among increases, does not matter to the bounds.
    order.sort_by_key(|(change, _)| change.direction == BandwidthChange::Increase);
    let mut others_done = Duration::ZERO;
    let mut last_done = Duration::ZERO;
    let mut steps: Vec<DomainBound> = Vec::new();
    for (change, length) in &order {
        let is_increase = change.direction == BandwidthChange::Increase;
        let begun = match changes.policy {
            ChangePolicy::Sequential | ChangePolicy::Boost => last_done,
            ChangePolicy::Batch if is_increase => others_done,
            ChangePolicy::Greedy | ChangePolicy::Prompt
                if is_increase && !fits_at_once(change, domains, agents) =>
            {
                let decreases = order.iter().filter(|(other, _)| {
                    other.direction == BandwidthChange::Decrease
                        && other.before.is_some()
                        && !other.cpus.is_disjoint(&change.cpus)
                });
                let waits = decreases.map(|(_, length)| *length);
                waits.max().unwrap_or(Duration::ZERO)
            }
            _ => Duration::ZERO,
        };
        let in_force = begun.saturating_add(*length);
        last_done = last_done.max(in_force);
        if !is_increase {
            others_done = others_done.max(in_force);
        }
        steps.push(DomainBound {
            domain: change.domain.clone(),
            direction: change.direction,
            begun,
            in_force,
        });
    }
    steps
}

/// How long a domain takes from the moment it is asked, or its reservation told, whichever is first.
fn length(change: &DomainBandwidths, start: TaskStart, answer: Duration) -> Duration {
    let answer = if change.has_agent {
        answer
    } else {
        Duration::ZERO
    };
    match (change.direction, start) {
        (BandwidthChange::Increase, TaskStart::Accepted) => change.period.max(answer),
        _ => change.period.saturating_add(answer),
    }
}

/// Whether an increase fits whatever the others have and will have.
fn fits_at_once(
    change: &DomainBandwidths,
    domains: &[DomainBandwidths],
    agents: &BTreeMap<HostCpu, Vec<Bandwidth>>,
) -> bool {
    // What has no promise takes nothing that was promised.
    change.after.is_none()
        || change.cpus.iter().all(|cpu| {
            let here = domains.iter().filter(|other| other.cpus.contains(cpu));
            let largest = here.filter_map(|other| other.before.max(other.after));
            let of_agents = agents.get(cpu).into_iter().flatten().copied();
            is_at_most_one(largest.chain(of_agents))
        })
}

/// Whether bandwidths sum up to at most a whole CPU, exactly; not so where that is beyond 128 bits, which
/// makes the bound longer than need be and no shorter.
fn is_at_most_one(bandwidths: impl Iterator<Item = Bandwidth>) -> bool {
    let shares = bandwidths.map(|bandwidth| {
        let (part, whole) = bandwidth.as_ratio();
        Fraction::new(part, whole)
    });
    shares.fold(Fraction::ZERO, |sum, share| sum + share) <= Fraction::WHOLE
}
