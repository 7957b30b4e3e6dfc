//! Reservations against each other and against what their tasks need.

use std::collections::BTreeMap;

use super::Check;
use super::share::Share;
use crate::description::{BackendKind, Domain, DomainKind, Reservation};
use crate::host::{Host, HostScheduling, Placement};
use crate::interface::Cpu;
use crate::reading::Place;

/// A reservation as one mode has it.
struct Held<'a> {
    domain: &'a str,
    place: Place,
    reservation: &'a Reservation,
}

/// Checks in each mode that no CPU is promised more than once over, and that the services get
/// what they need.
pub(super) fn bandwidth<'a>(check: &mut Check<'a>) {
    let description = check.description;
    let base = || -> BTreeMap<&'a str, Held<'a>> {
        let all = description.domains.iter();
        all.filter_map(|(domain, content)| {
            let place = Place::root().key("domains").key(domain).key("reservation");
            let reservation = content.reservation.as_ref()?;
            Some((
                domain.as_str(),
                Held {
                    domain,
                    place,
                    reservation,
                },
            ))
        })
        .collect()
    };
    if description.modes.is_empty() {
        let held = base();
        per_cpu(check, None, &held);
        needs(check, None, &held);
    }
    for (mode, content) in &description.modes {
        let mut held = base();
        for (domain, reservation) in &content.reservations {
            let place = Place::root()
                .key("modes")
                .key(mode)
                .key("reservations")
                .key(domain);
            held.insert(
                domain,
                Held {
                    domain,
                    place,
                    reservation,
                },
            );
        }
        per_cpu(check, Some(mode), &held);
        needs(check, Some(mode), &held);
    }
}

/// What the reservation takes of each of its CPUs; derived ones as far as it can be told.
fn share_of(check: &Check<'_>, domain: &str, reservation: &Reservation) -> Share {
    match reservation.backend {
        BackendKind::None | BackendKind::CfsQuota => return Share::ZERO,
        BackendKind::Dedicated => return Share::WHOLE,
        BackendKind::DsFreeze | BackendKind::Deadline | BackendKind::RtGroup => {}
    }
    if let (Some(budget), Some(period)) = (reservation.budget, reservation.period) {
        // A budget longer than its period is complained about where it stands.
        return Share::of(budget.min(period), period);
    }
    if reservation.derive.is_none() {
        return Share::ZERO;
    }
    let tasks = check.tasks_in(domain).into_iter();
    let shares = tasks.filter_map(|(_, task)| {
        let gap = task.least_gap()?;
        Some(Share::of(task.execution_time.longest()?, gap).times(task.clients))
    });
    shares.fold(Share::points(reservation.margin_points), Share::plus)
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
struct Part<'a> {
    domain: &'a str,
    place: Place,
    share: Share,
    /// The reservation; none of a time partition.
    reservation: Option<&'a Reservation>,
}

fn per_cpu<'a>(check: &mut Check<'a>, mode: Option<&str>, held: &BTreeMap<&'a str, Held<'a>>) {
    let in_mode = mode.map_or(String::new(), |mode| format!(" in mode `{mode}`"));
    for (pool, parts) in pools(check, held) {
        let total = parts.iter().map(|part| part.share);
        let total = total.fold(Share::ZERO, Share::plus);
        let (whole, name) = whole_of(check, pool, held);
        let Some(last) = parts.last() else { continue };
        if total.exceeds(whole) {
            let shares = parts.iter();
            let shares: Vec<String> = shares
                .map(|part| format!("{} {}", part.domain, part.share.in_percent()))
                .collect();
            check.error(
                &last.place,
                format!(
                    "{name} is reserved to {}{in_mode}: {}",
                    total.in_percent(),
                    shares.join(" + ")
                ),
                match pool {
                    Pool::Cpu(..) => "reservations on a CPU sum up to at most 100%; shorten \
budgets, lengthen periods, or use another CPU"
                        .to_owned(),
                    _ => format!(
                        "reservations there sum up to at most {}; shorten budgets or lengthen \
periods",
                        whole.in_percent()
                    ),
                },
            );
        }
        if let Pool::Cpu(_, cpu) = pool {
            same_priority(check, cpu, &in_mode, &parts);
        }
    }
}

/// Who holds how much of what.
fn pools<'a>(
    check: &Check<'a>,
    held: &BTreeMap<&'a str, Held<'a>>,
) -> BTreeMap<Pool<'a>, Vec<Part<'a>>> {
    let description = check.description;
    let mut pools: BTreeMap<Pool<'a>, Vec<Part<'a>>> = BTreeMap::new();
    for (name, domain) in &description.domains {
        let Some((host_name, host)) = description.host_of(domain) else {
            continue;
        };
        let mut hold = |pool, share, place: &Place, reservation| {
            let place = place.clone();
            pools.entry(pool).or_default().push(Part {
                domain: name,
                place,
                share,
                reservation,
            });
        };
        if domain.kind == DomainKind::TimePartition {
            let share = share_of_windows(domain, host);
            let place = Place::root().key("domains").key(name).key("windows");
            for cpu in description.cpus_of(domain) {
                hold(Pool::Cpu(host_name, cpu), share, &place, None);
            }
        }
        let Some(one) = held.get(name.as_str()) else {
            continue;
        };
        let reservation = one.reservation;
        let share = share_of(check, one.domain, reservation);
        let outer = domain.inside.as_deref();
        for (pool, times) in taken_from(outer, (host_name, host), reservation) {
            hold(pool, share.times(times), &one.place, Some(reservation));
        }
    }
    pools
}

/// What a reservation is taken from, and how often.
fn taken_from<'a>(
    outer: Option<&'a str>,
    (name, host): (&'a str, &Host),
    reservation: &Reservation,
) -> Vec<(Pool<'a>, u32)> {
    let count = u32::try_from(reservation.cpus.len()).unwrap_or(u32::MAX);
    let count = reservation.vcpus.unwrap_or(count);
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
    held: &BTreeMap<&'a str, Held<'a>>,
) -> (Share, String) {
    let description = check.description;
    let outer = |name: &str| {
        if let Some(one) = held.get(name) {
            return share_of(check, one.domain, one.reservation);
        }
        let domain = description.domains.get(name);
        let windows = domain.filter(|domain| domain.kind == DomainKind::TimePartition);
        let windows = windows.and_then(|domain| {
            let (_, host) = description.host_of(domain)?;
            Some(share_of_windows(domain, host))
        });
        windows.unwrap_or(Share::WHOLE)
    };
    match pool {
        Pool::Cpu(_, cpu) => (Share::WHOLE, format!("CPU {cpu}")),
        Pool::All(host) => {
            let cpus = description
                .hosts
                .get(host)
                .map(|host| host.working_cpus().len());
            let count = u32::try_from(cpus.unwrap_or(0)).unwrap_or(u32::MAX);
            (Share::WHOLE.times(count), format!("host `{host}`"))
        }
        Pool::PinnedInside(name, cpu) => (outer(name), format!("`{name}` on CPU {cpu}")),
        Pool::Inside(name, index) => (outer(name), format!("virtual CPU {index} of `{name}`")),
    }
}

fn share_of_windows(domain: &Domain, host: &Host) -> Share {
    let Some(frame) = host.major_frame else {
        return Share::ZERO;
    };
    let windows = domain.windows.iter();
    let shares = windows.map(|window| Share::of(window.length, frame));
    shares.fold(Share::ZERO, Share::plus)
}

fn same_priority(check: &mut Check<'_>, cpu: Cpu, in_mode: &str, parts: &[Part<'_>]) {
    let fixed = |part: &Part<'_>| {
        let backend = part.reservation.map(|reservation| reservation.backend);
        let domain = check.description.domains.get(part.domain);
        let host = domain.and_then(|domain| check.description.host_of(domain));
        let by_priority =
            |(_, host): (&str, &Host)| host.scheduling == HostScheduling::FixedPriority;
        host.is_none_or(by_priority)
            && matches!(backend, Some(BackendKind::DsFreeze | BackendKind::RtGroup))
    };
    let priority = |part: &Part<'_>| part.reservation.map(|reservation| reservation.priority.0);
    let mut found = Vec::new();
    for (index, later) in parts.iter().enumerate().filter(|(_, part)| fixed(part)) {
        let same = |earlier: &&Part<'_>| fixed(earlier) && priority(earlier) == priority(later);
        if let Some(rival) = parts[..index].iter().find(same) {
            let message = format!(
                "`{}` and `{}` have the same priority {} on CPU {cpu}{in_mode}, so neither is ahead",
                rival.domain,
                later.domain,
                priority(later).unwrap_or_default()
            );
            found.push((later.place.clone(), message));
        }
    }
    for (place, message) in found {
        check.warning(
            &place,
            message,
            "give them different priorities; the higher number runs first",
        );
    }
}

/// Warns of domains whose tasks need as much as their reservation gives, or more: their response
/// times have no bound.
fn needs(check: &mut Check<'_>, mode: Option<&str>, held: &BTreeMap<&str, Held<'_>>) {
    let description = check.description;
    let released = mode.and_then(|mode| description.modes.get(mode)?.tasks.as_ref());
    let root = Place::root();
    let services = description.services.iter().map(|(name, service)| {
        let place = root.key("services").key(name).key("tasks");
        (place, name, service.domain.as_str(), &service.tasks, 1)
    });
    let own = description.domains.iter().map(|(name, domain)| {
        let vcpus = u32::try_from(description.vcpus_of(domain)).unwrap_or(u32::MAX);
        let place = root.key("domains").key(name).key("tasks");
        (place, name, name.as_str(), &domain.tasks, vcpus)
    });
    for (place, name, domain, tasks, vcpus) in services.chain(own) {
        let Some(held) = held.get(domain) else {
            continue;
        };
        let reservation = held.reservation;
        let given = match (reservation.budget, reservation.period, reservation.backend) {
            (.., BackendKind::Dedicated) => Share::WHOLE,
            (Some(budget), Some(period), _) if !budget.is_zero() && !period.is_zero() => {
                Share::of(budget, period)
            }
            _ => continue,
        };
        let given = given.times(vcpus);
        let in_mode = |task: &str| {
            released.is_none_or(|all| all.iter().any(|t| *t == format!("{name}.{task}")))
        };
        let tasks = tasks.iter().filter(|(task, _)| in_mode(task));
        let used = tasks.filter_map(|(_, task)| {
            let gap = task.arrivals.mean_gap().filter(|gap| !gap.is_zero())?;
            Some(Share::of(task.execution_time.mean()?, gap).times(task.clients))
        });
        let used = used.fold(Share::ZERO, Share::plus);
        if used.exceeds(Share::ZERO) && !given.exceeds(used) {
            let in_mode = mode.map_or(String::new(), |mode| format!(" in mode `{mode}`"));
            check.warning(
                &place,
                format!(
                    "the tasks need {} of a CPU, and `{domain}` has {}{in_mode}: \
latencies grow without bound",
                    used.in_percent(),
                    given.in_percent()
                ),
                "lengthen the budget of the domain's reservation, or send less",
            );
        }
    }
}
