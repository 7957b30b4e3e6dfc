//! Reservations against each other and against what their tasks need.

use std::collections::BTreeMap;

use super::Check;
use super::share::Share;
use crate::description::{BackendKind, Reservation};
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
pub(super) fn bandwidth(check: &mut Check<'_>) {
    let description = check.description;
    let base = || -> BTreeMap<&str, Held<'_>> {
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

fn per_cpu(check: &mut Check<'_>, mode: Option<&str>, held: &BTreeMap<&str, Held<'_>>) {
    let description = check.description;
    let mut on_cpu: BTreeMap<(&str, Cpu), Vec<&Held<'_>>> = BTreeMap::new();
    for (name, reservation) in held {
        let Some(domain) = description.domains.get(*name) else {
            continue;
        };
        let host = domain.host.as_deref().unwrap_or_default();
        for cpu in &reservation.reservation.cpus {
            on_cpu.entry((host, *cpu)).or_default().push(reservation);
        }
    }
    let in_mode = mode.map_or(String::new(), |mode| format!(" in mode `{mode}`"));
    for ((_, cpu), sharing) in on_cpu {
        let shares: Vec<Share> = sharing
            .iter()
            .map(|h| share_of(check, h.domain, h.reservation))
            .collect();
        let total = shares.iter().copied().fold(Share::ZERO, Share::plus);
        let Some(last) = sharing.last() else { continue };
        if total.exceeds(Share::WHOLE) {
            let parts = sharing.iter().zip(&shares);
            let parts: Vec<String> = parts
                .map(|(h, share)| format!("{} {}", h.domain, share.in_percent()))
                .collect();
            check.error(
                &last.place,
                format!(
                    "CPU {cpu} is reserved to {}{in_mode}: {}",
                    total.in_percent(),
                    parts.join(" + ")
                ),
                "reservations on a CPU sum up to at most 100%; shorten \
budgets, lengthen periods, or use another CPU",
            );
        }
        same_priority(check, cpu, &in_mode, &sharing);
    }
}

fn same_priority(check: &mut Check<'_>, cpu: Cpu, in_mode: &str, sharing: &[&Held<'_>]) {
    for (index, later) in sharing.iter().enumerate() {
        let fixed = |held: &Held<'_>| {
            matches!(
                held.reservation.backend,
                BackendKind::DsFreeze | BackendKind::RtGroup
            )
        };
        let rival = sharing[..index].iter().find(|earlier| {
            fixed(earlier)
                && fixed(later)
                && earlier.reservation.priority == later.reservation.priority
        });
        if let Some(rival) = rival {
            check.warning(
                &later.place,
                format!(
                    "`{}` and `{}` have the same priority {} on CPU \
{cpu}{in_mode}, so neither is ahead",
                    rival.domain, later.domain, later.reservation.priority.0
                ),
                "give them different priorities; the higher number runs first",
            );
        }
    }
}

/// Warns of services whose requests need as much as their reservation gives, or more: their
/// latency has no bound.
fn needs(check: &mut Check<'_>, mode: Option<&str>, held: &BTreeMap<&str, Held<'_>>) {
    let description = check.description;
    let released = mode.and_then(|mode| description.modes.get(mode)?.tasks.as_ref());
    for (name, service) in &description.services {
        let Some(held) = held.get(service.domain.as_str()) else {
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
        let in_mode = |task: &str| {
            released.is_none_or(|all| all.iter().any(|t| *t == format!("{name}.{task}")))
        };
        let tasks = service.tasks.iter().filter(|(task, _)| in_mode(task));
        let used = tasks.filter_map(|(_, task)| {
            let gap = task.arrivals.mean_gap().filter(|gap| !gap.is_zero())?;
            Some(Share::of(task.execution_time.mean()?, gap).times(task.clients))
        });
        let used = used.fold(Share::ZERO, Share::plus);
        if used.exceeds(Share::ZERO) && !given.exceeds(used) {
            let in_mode = mode.map_or(String::new(), |mode| format!(" in mode `{mode}`"));
            check.warning(
                &Place::root().key("services").key(name).key("tasks"),
                format!(
                    "the tasks need {} of a CPU, and `{}` has {}{in_mode}: \
latencies grow without bound",
                    used.in_percent(),
                    service.domain,
                    given.in_percent()
                ),
                "lengthen the budget of the domain's reservation, or send less",
            );
        }
    }
}
