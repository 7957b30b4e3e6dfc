//! Checks of the table `[balance]` against the rest of a description.

use std::collections::BTreeMap;

use tailbound_model::{BudgetScope, Check, KeyPath, Reservation, Section};
use tailbound_time::Duration;

use crate::rule::highest_gain;
use crate::source::SourceAddress;
use crate::table::{BalanceTable, BalancedApplication, LoadPhase, SimulatedApplication};

/// The shortest interval: an application's window is five seconds, and its level moves once a second.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The longest queue of phases.
const MOST_PHASES: usize = 1000;

/// Checks all of the table.
pub(crate) fn check(balance: &BalanceTable, check: &mut Check<'_>) {
    let place = KeyPath::root().key(BalanceTable::KEY);
    if balance.applications.is_empty() {
        if check.names_at(&place.key("applications")).is_empty() {
            check.error(
                &place,
                "nothing is balanced",
                "describe balance.applications, two or more of them",
            );
        }
        return;
    }
    times(balance, &place, check);
    gain(balance, &place, check);
    let mut owners = BTreeMap::new();
    for (name, application) in &balance.applications {
        let here = place.key("applications").key(name);
        domains(name, application, &here, &mut owners, check);
        report(application, &here, check);
        bounds(application, balance, &here, check);
        promise(application, &here, check);
        if let Some(model) = &application.simulated {
            simulated(model, &here.key("simulated"), check);
        }
    }
    let placed = reservations(balance, check);
    same_reservations(&placed, check);
    whole(balance, &placed, &place, check);
}

fn times(balance: &BalanceTable, place: &KeyPath, check: &mut Check<'_>) {
    if balance.interval < SHORTEST_INTERVAL {
        check.error(
            &place.key("interval"),
            format!(
                "an interval of {} is shorter than applications move their levels",
                balance.interval
            ),
            format!("write {SHORTEST_INTERVAL} or more, such as \"5s\""),
        );
    }
    let answer = balance.answer_within();
    if answer.is_zero() || answer.saturating_add(answer) > balance.interval {
        check.error(
            &place.key("answer_within"),
            format!(
                "an answer within {answer} does not leave half of the interval of {}",
                balance.interval
            ),
            "write a time above zero, up to half of the interval",
        );
    }
    if balance.stale_after() < balance.interval {
        check.error(
            &place.key("stale_after"),
            format!(
                "reports of one interval of {} would be stale",
                balance.interval
            ),
            "write the interval, or a longer time",
        );
    }
}

fn gain(balance: &BalanceTable, place: &KeyPath, check: &mut Check<'_>) {
    let applications = balance.applications.len();
    let limit = highest_gain(applications);
    let gain = balance.gain();
    if !(gain > 0.0 && gain <= limit) {
        check.error(
            &place.key("gain"),
            format!("with a gain of {gain} the capacities of {applications} applications can swing without end"),
            format!("write a number above 0, up to 1 / {applications} = {limit:.3}, or leave the gain out"),
        );
    }
}

/// Checks that an application's domains exist, belong to no other, and have reservations whose budgets can be changed.
fn domains<'a>(
    name: &'a str,
    application: &'a BalancedApplication,
    place: &KeyPath,
    owners: &mut BTreeMap<&'a str, &'a str>,
    check: &mut Check<'_>,
) {
    let place = place.key("domains");
    if application.domains.is_empty() {
        check.error(
            &place,
            format!("`{name}` has no domain"),
            "name one or more domains with reservations",
        );
    }
    for (index, domain) in application.domains.iter().enumerate() {
        let here = place.index(index);
        let names = check.names("domains");
        if !names.contains(&domain.as_str()) {
            check.reference(&here, "domain", domain, &names);
            continue;
        }
        if let Some(owner) = owners.insert(domain, name) {
            check.error(
                &here,
                format!("`{domain}` belongs to the application `{owner}` already"),
                "let each domain be of one application, once",
            );
        }
        let Some(described) = check.description().domains.get(domain) else {
            continue;
        };
        let Some(fault) = unchangeable(described.reservation.as_ref()) else {
            continue;
        };
        check.error(&here, format!("`{domain}` {fault}"), format!(
            "give domains.{domain}.reservation a budget and a period, a back end that gives budgets, and one CPU or budget_scope = \"all-cpus\""
        ));
    }
}

/// Why the budget of a reservation cannot follow a capacity.
fn unchangeable(reservation: Option<&Reservation>) -> Option<&'static str> {
    let Some(reservation) = reservation else {
        return Some("has no reservation");
    };
    if !reservation.backend.traits().has_budget || !reservation.windows.is_empty() {
        return Some("has a reservation without a budget that could be changed");
    }
    if reservation.budget.is_none() || reservation.period.is_none() {
        return Some("has a reservation without a described budget and period");
    }
    let shared = reservation.budget_scope == BudgetScope::AllCpus;
    (reservation.cpus.len() != 1 && !shared).then_some("has a budget on each of several CPUs")
}

fn report(application: &BalancedApplication, place: &KeyPath, check: &mut Check<'_>) {
    let asks_server = match application.source() {
        Ok(source) => matches!(source, SourceAddress::Prometheus { .. }),
        Err(error) => {
            let remedy = "write \"http://127.0.0.1:8000/tailbound/service-level\", \"unix:/run/shop.sock\", or \
                          \"prometheus:http://127.0.0.1:9090\"";
            return check.error(&place.key("source"), error.to_string(), remedy);
        }
    };
    match (&application.query, &application.metric) {
        (None, _) if asks_server => check.error(
            &place.key("source"),
            "a Prometheus server has many values",
            "write a `query` with one value, such as \"clamp(1 - max(latency_seconds), -1, 1)\"",
        ),
        (Some(query), _) if query.trim().is_empty() => {
            check.error(
                &place.key("query"),
                "the query is empty",
                "write a query with one value",
            );
        }
        (Some(_), _) if !asks_server => check.error(
            &place.key("query"),
            "only a Prometheus server answers queries",
            "write source = \"prometheus:http://IP:PORT\", or leave the query out",
        ),
        (_, Some(_)) if asks_server => check.error(
            &place.key("metric"),
            "a Prometheus server is asked by a query",
            "write a `query` in place of the metric",
        ),
        (_, Some(metric))
            if metric.is_empty()
                || metric
                    .contains(|one: char| !(one.is_ascii_alphanumeric() || "_:".contains(one))) =>
        {
            check.error(
                &place.key("metric"),
                format!("\"{metric}\" is no name of a metric"),
                "write letters, digits and _",
            );
        }
        _ => {}
    }
}

fn bounds(
    application: &BalancedApplication,
    balance: &BalanceTable,
    place: &KeyPath,
    check: &mut Check<'_>,
) {
    check.above_zero(&place.key("least"), "the least capacity", application.least);
    let most = application.most.unwrap_or(balance.capacity);
    if most < application.least && !most.is_zero() {
        check.error(
            &place.key("most"),
            format!(
                "the most, {most}, is below the least, {}",
                application.least
            ),
            "let least be at most as much as most and the whole capacity",
        );
    }
    if application.weight == 0 || application.weight > 1000 {
        check.error(
            &place.key("weight"),
            format!("{} is no weight", application.weight),
            "write 1 to 1000",
        );
    }
}

fn promise(application: &BalancedApplication, place: &KeyPath, check: &mut Check<'_>) {
    let Some(name) = &application.promise else {
        return;
    };
    let place = place.key("promise");
    let names = check.names("services");
    let Some(service) = check.description().services.get(name) else {
        return check.reference(&place, "service", name, &names);
    };
    if service.slos.is_empty() {
        check.error(
            &place,
            format!("the service `{name}` promises nothing"),
            format!("add slos to services.{name}"),
        );
    } else if application.domains.len() != 1 || application.domains[0] != service.domain {
        check.error(
            &place,
            format!(
                "the service `{name}` runs in `{}`, which is not all of the application",
                service.domain
            ),
            "name a service of the application's one domain",
        );
    }
}

fn simulated(model: &SimulatedApplication, place: &KeyPath, check: &mut Check<'_>) {
    check.above_zero(&place.key("deadline"), "the deadline", model.deadline);
    check.above_zero(
        &place.key("mandatory"),
        "the mandatory part",
        model.mandatory,
    );
    if model.phases.is_empty() || model.phases.len() > MOST_PHASES {
        check.error(
            &place.key("phases"),
            format!("{} phases are no load", model.phases.len()),
            format!(
                "write 1 to {MOST_PHASES} phases, such as {{ length = \"60s\", rate = \"20/s\" }}"
            ),
        );
    }
    for (index, phase) in model.phases.iter().enumerate() {
        let here = place.key("phases").index(index);
        check.above_zero(&here.key("length"), "the length of the phase", phase.length);
        if let Some((key, fault)) = phase_fault(phase) {
            let here = if key.is_empty() { here } else { here.key(key) };
            check.error(
                &here,
                fault,
                "write a rate, or users with a think_time above zero",
            );
        }
    }
}

fn phase_fault(phase: &LoadPhase) -> Option<(&'static str, &'static str)> {
    match (phase.rate, phase.users, phase.think_time) {
        (Some(_), None, None) => None,
        (None, Some(users), Some(think)) if users <= 100_000 && !think.is_zero() => None,
        (None, Some(users), Some(_)) if users > 100_000 => {
            Some(("users", "there are more than 100000 users"))
        }
        (None, Some(_), Some(_)) => Some(("think_time", "users who do not think send without end")),
        (None, Some(_), None) => Some(("users", "users need a think time")),
        (Some(_), _, _) => Some(("rate", "the phase has a rate and users")),
        (None, None, _) => Some(("", "the phase has no load")),
    }
}

/// The described reservations of the applications' domains, each with its place.
fn reservations<'a>(balance: &BalanceTable, check: &Check<'a>) -> Vec<(KeyPath, &'a Reservation)> {
    let domains = &check.description().domains;
    let names = balance
        .applications
        .values()
        .flat_map(|application| &application.domains);
    let each = names.filter_map(|name| {
        let reservation = domains.get(name)?.reservation.as_ref()?;
        let usable = unchangeable(Some(reservation)).is_none();
        let place = KeyPath::root().key("domains").key(name).key("reservation");
        usable.then_some((place, reservation))
    });
    each.collect()
}

/// Complains of a reservation with another period or other CPUs than the first: their budgets could not be exchanged.
fn same_reservations(placed: &[(KeyPath, &Reservation)], check: &mut Check<'_>) {
    let Some((_, first)) = placed.first() else {
        return;
    };
    for (place, other) in &placed[1..] {
        if other.period != first.period {
            check.error(
                &place.key("period"),
                "capacity is CPU time per period, and the periods of balanced domains differ",
                "give all domains of balance.applications one period",
            );
        }
        if other.cpus != first.cpus {
            check.error(
                &place.key("cpus"),
                "capacity moves between domains, and these are on other CPUs than the first",
                "give all domains of balance.applications the same CPUs",
            );
        }
    }
}

/// Checks that the least capacities fit into the whole, and the whole into the CPUs.
fn whole(
    balance: &BalanceTable,
    placed: &[(KeyPath, &Reservation)],
    place: &KeyPath,
    check: &mut Check<'_>,
) {
    if balance.capacity.is_zero() {
        return check.above_zero(&place.key("capacity"), "the capacity", balance.capacity);
    }
    let least = balance.applications.values().map(|one| one.least);
    let least = least.fold(Duration::ZERO, Duration::saturating_add);
    if least > balance.capacity {
        check.error(
            &place.key("capacity"),
            format!(
                "the least capacities of the applications are {least} together, and there are {}",
                balance.capacity
            ),
            "lower `least` of applications, or raise the capacity",
        );
    }
    smallest(balance, check, place);
    let Some((_, first)) = placed.first() else {
        return;
    };
    let cpus = first.cpus.len() as u64;
    let there_is = first.period.and_then(|period| period.checked_mul(cpus));
    let wanted = balance.capacity.saturating_add(balance.manager);
    if there_is.is_some_and(|there_is| wanted > there_is) {
        check.error(
            &place.key("capacity"),
            format!("capacity and manager are {wanted} per period, more than {cpus} CPUs have"),
            "lower the capacity, or reserve on more CPUs",
        );
    }
}

/// Complains of applications whose least capacity is less than their back end can give.
fn smallest(balance: &BalanceTable, check: &mut Check<'_>, place: &KeyPath) {
    for (name, application) in &balance.applications {
        let domains = application.domains.iter();
        let reservations = domains.filter_map(|domain| {
            check
                .description()
                .domains
                .get(domain)?
                .reservation
                .as_ref()
        });
        let smallest = reservations.map(|one| one.backend.traits().smallest_budget);
        let smallest = smallest.fold(Duration::ZERO, Duration::saturating_add);
        if application.least < smallest && !application.least.is_zero() {
            let here = place.key("applications").key(name).key("least");
            check.error(
                &here,
                format!("the back end gives no less than {smallest}"),
                format!("write {smallest} or more"),
            );
        }
    }
}
