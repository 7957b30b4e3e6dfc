//! Reservations against what their tasks need, and against each other where they are only simulated.
//!
//! Whether a CPU holds its reservations is the question of the admission in `tailbound-analysis`. The
//! admission does not judge hosts with global placement and domains inside of others: what is simulated there has to fit
//! by its sum.

use std::collections::BTreeMap;

use tailbound_time::Fraction;

use super::Check;
use super::share::{in_percent, points, ratio};
use crate::description::{Description, Reservation, Task};
use crate::host::{Host, HostScheduling, Placement};
use crate::interface::{BudgetScope, Cpu};
use crate::mode::Mode;
use crate::mode_changes::{AgentPlace, ModeChanges};
use crate::parser::KeyPath;
use crate::{CpuPromise, Precedence};

/// A reservation as one mode has it.
#[derive(Clone)]
struct ModeReservation<'a> {
    domain: &'a str,
    place: KeyPath,
    reservation: &'a Reservation,
    /// The mode whose tasks a derived budget is for; all tasks without one.
    mode: Option<&'a Mode>,
}

/// The reservations that hold at one time, by domain.
type ModeReservations<'a> = BTreeMap<&'a str, ModeReservation<'a>>;

/// Checks in each mode that nothing that is only simulated is promised more than once over, and that the services
/// get what they need.
pub(super) fn bandwidth<'a>(check: &mut Check<'a>) {
    let description = check.description;
    if description.modes.is_empty() {
        let held = held(check, None, |domain| {
            let place = KeyPath::root()
                .key("domains")
                .key(domain)
                .key("reservation");
            let reservation = description.domains.get(domain)?.reservation.as_ref()?;
            Some((place, reservation))
        });
        per_cpu(check, "", &held);
        needs(check, None, &held);
    }
    for (name, mode) in &description.modes {
        let held = held(check, Some(mode), |domain| {
            check.reservation_in(name, domain)
        });
        let in_mode = format!(" in mode `{name}`");
        let fits = per_cpu(check, &in_mode, &held);
        needs(check, Some((&in_mode, mode)), &held);
        if fits && let Some(fallen) = with_fallbacks(check, &held) {
            // Priorities of what fits have been looked at.
            total_per_pool(
                check,
                &format!("{in_mode}, with domains fallen back"),
                &fallen,
            );
        }
    }
    needs_of_fallbacks(check);
}

/// The same of fallbacks that no mode puts their domains into.
fn needs_of_fallbacks(check: &mut Check<'_>) {
    let description = check.description;
    for (name, domain) in &description.domains {
        let agent = domain.agent.as_ref();
        let Some(fallback) = agent.and_then(|agent| agent.fallback.as_ref()) else {
            continue;
        };
        let mut modes = description.modes.values();
        if modes.any(|mode| mode.domains.get(name) == Some(fallback)) {
            continue;
        }
        let alone = Mode {
            domains: [(name.clone(), fallback.clone())].into(),
            ..Mode::default()
        };
        let Some((reservation, _)) = description.reservation_in(&alone, name) else {
            continue;
        };
        let one = ModeReservation {
            domain: name,
            place: KeyPath::root(),
            reservation,
            mode: Some(&alone),
        };
        let held = [(name.as_str(), one)].into();
        let fallen = format!(" fallen back to `{fallback}`");
        needs(check, Some((&fallen, &alone)), &held);
    }
}

fn held<'a>(
    check: &Check<'a>,
    mode: Option<&'a Mode>,
    of: impl Fn(&'a str) -> Option<(KeyPath, &'a Reservation)>,
) -> ModeReservations<'a> {
    let domains = check.description.domains.keys().map(String::as_str);
    let held = domains.filter_map(|domain| {
        let (place, reservation) = of(domain)?;
        let held = ModeReservation {
            domain,
            place,
            reservation,
            mode,
        };
        Some((domain, held))
    });
    held.collect()
}

/// The same with the reservations that domains fall back to where those are larger: any number of
/// domains may do so at a time, so together they take at most this. `None` if none is larger.
fn with_fallbacks<'a>(
    check: &Check<'a>,
    held: &ModeReservations<'a>,
) -> Option<ModeReservations<'a>> {
    let mut fallen = held.clone();
    let mut larger = false;
    for (name, domain) in &check.description.domains {
        let Some((fallback, local)) = domain.fallback_mode() else {
            continue;
        };
        // Without a reservation of its own, it is that of the domain itself.
        let (place, reservation) = match (&local.reservation, &domain.reservation) {
            (Some(own), _) => (super::reservation_of_local_mode(name, fallback), own),
            (None, Some(own)) => {
                let place = KeyPath::root().key("domains").key(name);
                (place.key("reservation"), own)
            }
            (None, None) => continue,
        };
        let one = ModeReservation {
            domain: name,
            place,
            reservation,
            mode: None,
        };
        let before = held.get(name.as_str());
        let before = before.map_or(Fraction::ZERO, |one| share_of(check, one));
        if share_of(check, &one) > before {
            larger = true;
            fallen.insert(name, one);
        }
    }
    larger.then_some(fallen)
}

/// What the reservation takes of each of its CPUs; derived ones as far as it can be told.
fn share_of(check: &Check<'_>, held: &ModeReservation<'_>) -> Fraction {
    let reservation = held.reservation;
    match reservation.backend.promise() {
        CpuPromise::Nothing => return Fraction::ZERO,
        CpuPromise::WholeCpus => return Fraction::WHOLE,
        CpuPromise::Budget => {}
    }
    let domain = check.description.domains.get(held.domain);
    let host = domain.and_then(|domain| check.description.host_of(domain));
    let frame = host.and_then(|(_, host)| host.major_frame);
    if let Some(interface) = reservation.explicit_interface(frame) {
        // A budget longer than its period is complained about where it stands.
        return ratio(interface.budget_on_one_cpu(), interface.period);
    }
    if reservation.derive.is_none() {
        return Fraction::ZERO;
    }
    let tasks = released(check.description, held).into_iter();
    let shares = tasks.filter_map(|task| {
        let gap = task.least_gap()?;
        Some(ratio(task.execution_time.longest()?, gap).times(task.clients))
    });
    shares.fold(points(reservation.margin_points), |sum, one| sum + one)
}

/// The tasks of the domain that are released while this holds.
fn released<'a>(description: &'a Description, held: &ModeReservation<'_>) -> Vec<&'a Task> {
    let own = description.domains.get(held.domain);
    let own = own.into_iter().flat_map(|domain| &domain.tasks);
    let own = own.filter(|(task, _)| {
        let mode = held.mode;
        mode.is_none_or(|mode| description.releases_own(mode, held.domain, task))
    });
    let services = description.services.iter();
    let inside = services.filter(|(_, service)| service.domain == held.domain);
    let served = inside.flat_map(|(name, service)| {
        let tasks = service.tasks.iter();
        tasks.filter(move |(task, _)| {
            let mode = held.mode;
            mode.is_none_or(|mode| description.releases_served(mode, name, task))
        })
    });
    own.chain(served).map(|(_, task)| task).collect()
}

/// What CPU time is taken from: a CPU, all CPUs of a host, or a virtual CPU of another domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool<'a> {
    Cpu(&'a str, Cpu),
    All(&'a str),
    PinnedInside(&'a str, Cpu),
    Inside(&'a str, u32),
}

/// A part of a pool that a domain holds.
struct PoolShare<'a> {
    domain: &'a str,
    place: KeyPath,
    share: Fraction,
    /// The reservation; none of an agent.
    reservation: Option<&'a Reservation>,
    /// Whether it is what the domain's agent takes beside the reservation.
    is_agent: bool,
}

impl PoolShare<'_> {
    /// Who holds how much, in words.
    fn in_words(&self) -> String {
        let of = if self.is_agent { "the agent of " } else { "" };
        format!("{of}{} {}", self.domain, in_percent(self.share))
    }
}

/// Whether all fits; warns of equal priorities, too.
fn per_cpu<'a>(check: &mut Check<'a>, in_mode: &str, held: &ModeReservations<'a>) -> bool {
    let fits = total_per_pool(check, in_mode, held);
    for (pool, parts) in pools(check, held) {
        if let Pool::Cpu(_, cpu) = pool {
            same_priority(check, cpu, in_mode, &parts);
        }
    }
    fits
}

/// Whether all that is only simulated fits; complains if not.
fn total_per_pool<'a>(check: &mut Check<'a>, in_mode: &str, held: &ModeReservations<'a>) -> bool {
    let mut fits = true;
    for (pool, parts) in &pools(check, held) {
        let total = parts.iter().map(|part| part.share);
        let total = total.fold(Fraction::ZERO, |sum, one| sum + one);
        let (whole, name) = whole_of(check, *pool, held);
        let Some(last) = parts.last() else { continue };
        // The admission judges CPUs.
        if total <= whole || matches!(pool, Pool::Cpu(..)) {
            continue;
        }
        fits = false;
        let shares: Vec<String> = parts.iter().map(PoolShare::in_words).collect();
        check.error(
            &last.place,
            format!(
                "{name} is reserved to {}{in_mode}: {}",
                in_percent(total),
                shares.join(" + ")
            ),
            format!(
                "reservations there sum up to at most {}; shorten budgets or lengthen \
periods",
                in_percent(whole)
            ),
        );
    }
    fits
}

/// Who holds how much of what.
fn pools<'a>(
    check: &Check<'a>,
    held: &ModeReservations<'a>,
) -> BTreeMap<Pool<'a>, Vec<PoolShare<'a>>> {
    let description = check.description;
    let mut pools: BTreeMap<Pool<'a>, Vec<PoolShare<'a>>> = BTreeMap::new();
    for (name, domain) in &description.domains {
        let Some((host_name, host)) = description.host_of(domain) else {
            continue;
        };
        let mut hold = |pool, share, place: &KeyPath, reservation, is_agent| {
            let place = place.clone();
            pools.entry(pool).or_default().push(PoolShare {
                domain: name,
                place,
                share,
                reservation,
                is_agent,
            });
        };
        let place = KeyPath::root().key("domains").key(name);
        let Some(one) = held.get(name.as_str()) else {
            continue;
        };
        let reservation = one.reservation;
        let share = share_of(check, one);
        let outer = domain.inside.as_deref();
        let agent = description.agent_time_before_all(domain, reservation.backend);
        let agent = ratio(agent, description.section::<ModeChanges>().least_gap);
        let vcpus = description.vcpus_under(domain, Some(reservation));
        for (pool, times) in taken_from(outer, (host_name, host), reservation, vcpus) {
            let share = share.times(times);
            hold(pool, share, &one.place, Some(reservation), false);
            // It is not told which of the domain's CPUs it runs on.
            if agent > Fraction::ZERO {
                hold(pool, agent, &place.key("agent"), None, true);
            }
        }
    }
    pools
}

/// What a reservation is taken from, and how often.
fn taken_from<'a>(
    outer: Option<&'a str>,
    (name, host): (&'a str, &Host),
    reservation: &Reservation,
    vcpus: usize,
) -> Vec<(Pool<'a>, u32)> {
    let count = u32::try_from(vcpus).unwrap_or(u32::MAX);
    let cpus = reservation.cpus.iter().copied();
    match (outer, host.placement) {
        (None, Placement::Global) => vec![(Pool::All(name), count)],
        (None, Placement::Partitioned) => cpus.map(|cpu| (Pool::Cpu(name, cpu), 1)).collect(),
        (Some(outer), Placement::Partitioned) => cpus
            .map(|cpu| (Pool::PinnedInside(outer, cpu), 1))
            .collect(),
        (Some(outer), Placement::Global) => {
            let each = 0..count;
            each.map(|index| (Pool::Inside(outer, index), 1)).collect()
        }
    }
}

/// How much there is of a pool, and what it is called.
fn whole_of<'a>(
    check: &Check<'a>,
    pool: Pool<'a>,
    held: &ModeReservations<'a>,
) -> (Fraction, String) {
    let description = check.description;
    let outer = |name: &str| {
        if let Some(one) = held.get(name) {
            return share_of(check, one);
        }
        Fraction::WHOLE
    };
    match pool {
        Pool::Cpu(_, cpu) => (Fraction::WHOLE, format!("CPU {cpu}")),
        Pool::All(host) => {
            let cpus = description
                .hosts
                .get(host)
                .map(|host| host.working_cpus().len());
            let count = u32::try_from(cpus.unwrap_or(0)).unwrap_or(u32::MAX);
            (Fraction::WHOLE.times(count), format!("host `{host}`"))
        }
        Pool::PinnedInside(name, cpu) => (outer(name), format!("`{name}` on CPU {cpu}")),
        Pool::Inside(name, index) => (outer(name), format!("virtual CPU {index} of `{name}`")),
    }
}

fn same_priority(check: &mut Check<'_>, cpu: Cpu, in_mode: &str, parts: &[PoolShare<'_>]) {
    let fixed = |part: &PoolShare<'_>| {
        let backend = part.reservation.map(|reservation| reservation.backend);
        let domain = check.description.domains.get(part.domain);
        let host = domain.and_then(|domain| check.description.host_of(domain));
        let by_priority =
            |(_, host): (&str, &Host)| host.scheduling == HostScheduling::FixedPriority;
        host.is_none_or(by_priority)
            && backend.is_some_and(|kind| {
                kind.guarantees_budget() && kind.precedence() == Precedence::Priority
            })
    };
    let priority =
        |part: &PoolShare<'_>| part.reservation.map(|reservation| reservation.priority.0);
    let mut rivals = Vec::new();
    for (index, later) in parts.iter().enumerate().filter(|(_, part)| fixed(part)) {
        let same =
            |earlier: &&PoolShare<'_>| fixed(earlier) && priority(earlier) == priority(later);
        if let Some(rival) = parts[..index].iter().find(same) {
            let message = format!(
                "`{}` and `{}` have the same priority {} on CPU {cpu}{in_mode}, so neither is ahead",
                rival.domain,
                later.domain,
                priority(later).unwrap_or_default()
            );
            rivals.push((later.place.clone(), message));
        }
    }
    for (place, message) in rivals {
        check.warning(
            &place,
            message,
            "give them different priorities; the higher number runs first",
        );
    }
}

/// Warns of domains whose tasks need as much as their reservation gives, or more: their response
/// times have no bound.
fn needs(check: &mut Check<'_>, mode: Option<(&str, &Mode)>, held: &ModeReservations<'_>) {
    let description = check.description;
    let root = KeyPath::root();
    let services = description.services.iter().map(|(name, service)| {
        let place = root.key("services").key(name).key("tasks");
        (place, name, service.domain.as_str(), &service.tasks, None)
    });
    let own = description.domains.iter().map(|(name, domain)| {
        let place = root.key("domains").key(name).key("tasks");
        (place, name, name.as_str(), &domain.tasks, Some(domain))
    });
    for (place, name, domain, tasks, own) in services.chain(own) {
        let Some(held) = held.get(domain) else {
            continue;
        };
        let reservation = held.reservation;
        let promise = reservation.backend.promise();
        let given = match (reservation.budget, reservation.period, promise) {
            (.., CpuPromise::WholeCpus) => Fraction::WHOLE,
            (Some(budget), Some(period), _) if !budget.is_zero() && !period.is_zero() => {
                ratio(budget, period)
            }
            _ => continue,
        };
        let vcpus = match (own, reservation.budget_scope) {
            (Some(own), BudgetScope::EachCpu) => description.vcpus_under(own, Some(reservation)),
            _ => 1,
        };
        let given = given.times(u32::try_from(vcpus).unwrap_or(u32::MAX));
        let in_mode = |task: &str| match (mode, own) {
            (None, _) => true,
            (Some((_, mode)), Some(_)) => description.releases_own(mode, name, task),
            (Some((_, mode)), None) => description.releases_served(mode, name, task),
        };
        let tasks = tasks.iter().filter(|(task, _)| in_mode(task));
        // What is boosted needs no budget.
        let tasks = tasks.filter(|(_, task)| task.boost.is_none());
        let used = tasks.filter_map(|(_, task)| {
            let gap = task.arrivals.mean_gap().filter(|gap| !gap.is_zero())?;
            Some(ratio(task.execution_time.mean()?, gap).times(task.clients))
        });
        let used = used.fold(Fraction::ZERO, |sum, one| sum + one);
        if used <= Fraction::ZERO {
            continue;
        }
        let used = used + agent_within(description, domain, reservation);
        if given <= used {
            let in_mode = mode.map_or("", |(in_mode, _)| in_mode);
            check.warning(
                &place,
                format!(
                    "the tasks need {} of a CPU, and `{domain}` has {}{in_mode}: \
latencies grow without bound",
                    in_percent(used),
                    in_percent(given)
                ),
                "lengthen the budget of the domain's reservation, or send less",
            );
        }
    }
}

/// What the agent of a domain takes of the domain's own reservation.
fn agent_within(description: &Description, domain: &str, reservation: &Reservation) -> Fraction {
    let Some(domain) = description.domains.get(domain) else {
        return Fraction::ZERO;
    };
    let inside = domain.agent.as_ref();
    let inside = inside.filter(|agent| agent.place == AgentPlace::Inside);
    match inside {
        Some(agent)
            if description
                .agent_time_before_all(domain, reservation.backend)
                .is_zero() =>
        {
            ratio(
                agent.execution_time,
                description.section::<ModeChanges>().least_gap,
            )
        }
        _ => Fraction::ZERO,
    }
}
