//! Reservations, on their own.

use tailbound_time::Duration;

use super::domains::within_host;
use super::{Check, given, partitions};
use crate::description::{Domain, DomainKind, Reservation, Scheduling};
use crate::host::{HostScheduling, Placement};
use crate::interface::{BudgetScope, ServerKind, longest_budget};
use crate::parser::KeyPath;
use crate::{BackendKind, BackendOptions, CpuPromise, Precedence};

/// Checks every reservation, those of the modes included.
pub(super) fn reservations(check: &mut Check<'_>) {
    partitions::slack(check);
    for (place, name, reservation) in check.reservations() {
        amounts(check, &place, reservation);
        partitions::windows(check, &place, name, reservation);
        budget_scope(check, &place, reservation);
        options(check, &place, reservation);
        if reservation.derive.is_some() {
            derivation(check, &place, name);
        }
        if reservation.cpus.is_empty() {
            check.error(
                &place.key("cpus"),
                "the reservation holds on no CPU",
                "name at least one CPU, such as [1]",
            );
        }
        if let Some(domain) = check.description.domains.get(name) {
            within_host(check, &place.key("cpus"), domain, &reservation.cpus);
            housekeeping(check, &place, domain, reservation);
            order(check, &place, domain, reservation);
            one_budget(check, &place, domain, reservation);
            xen(check, &place, domain, reservation);
        }
    }
}

fn amounts(check: &mut Check<'_>, place: &KeyPath, reservation: &Reservation) {
    let Reservation {
        budget,
        period,
        derive,
        ..
    } = reservation;
    let given = given(&[
        ("budget", budget.is_some()),
        ("period", period.is_some()),
        ("derive", derive.is_some()),
    ]);
    if !reservation.backend.has_budget() {
        let what = match reservation.backend.promise() {
            CpuPromise::WholeCpus => "a dedicated CPU has no budget",
            _ if reservation.backend.enforces() => "this back end enforces no budget",
            _ => "without a back end there is no budget",
        };
        let server = reservation.server.map(|_| "server");
        let scope = (reservation.budget_scope != BudgetScope::EachCpu).then_some("budget_scope");
        for key in given.into_iter().chain(server).chain(scope) {
            check.error(
                &place.key(key),
                what,
                format!("leave `{key}` out, or choose another back end"),
            );
        }
        return;
    }
    if reservation.backend.has_windows() {
        return;
    }
    given_keys(check, place, &given);
    if let Some(budget) = budget {
        check.above_zero(&place.key("budget"), "the budget", *budget);
    }
    if let Some(period) = period {
        check.above_zero(&place.key("period"), "the period", *period);
    }
    if let (Some(budget), Some(period)) = (budget, period) {
        length_of_budget(check, &place.key("budget"), reservation, *budget, *period);
    }
    if derive.is_none() && reservation.margin_points.0 != 0.0 {
        check.error(
            &place.key("margin_points"),
            "a margin is added to a derived budget, and this one is given",
            "leave it out, and write the budget that you want",
        );
    }
}

/// Complains of a budget that the CPUs cannot give in a period.
fn length_of_budget(
    check: &mut Check<'_>,
    here: &KeyPath,
    reservation: &Reservation,
    budget: Duration,
    period: Duration,
) {
    let scope = reservation.budget_scope;
    let cpus = &reservation.cpus;
    let longest = longest_budget(period, cpus, scope);
    if period.is_zero() || budget <= longest {
        return;
    }
    if scope == BudgetScope::AllCpus {
        let count = cpus.len();
        return check.error(
            here,
            format!("budget {budget} is longer than {count} CPUs can give in a period of {period}"),
            format!(
                "a budget is at most its period times the CPUs; write at most \"{longest}\", or a longer period"
            ),
        );
    }
    let shared = longest_budget(period, cpus, BudgetScope::AllCpus);
    let is_for_all = budget <= shared && reservation.backend.traits().cpus_share_budget;
    let more = match is_for_all {
        true => "; or, where all CPUs together have this budget, budget_scope = \"all-cpus\"",
        false => "",
    };
    check.error(
        here,
        format!("budget {budget} is longer than the period {period}"),
        format!(
            "a budget is at most its period; write at most \"{period}\", or a longer period{more}"
        ),
    );
}

/// Complains of one budget for all CPUs where the CPUs have one each.
fn budget_scope(check: &mut Check<'_>, place: &KeyPath, reservation: &Reservation) {
    if reservation.budget_scope == BudgetScope::EachCpu {
        return;
    }
    let here = place.key("budget_scope");
    let shares = |kind: BackendKind| kind.traits().cpus_share_budget;
    let backend = reservation.backend;
    if !backend.has_budget() {
        // Complained about with the other keys of budgets.
    } else if !shares(backend) {
        let right = BackendKind::names(shares);
        check.error(
            &here,
            format!("the back end {backend} gives each CPU a budget of its own"),
            format!("leave `budget_scope` out, or choose {right}"),
        );
    } else if reservation.derive.is_some() {
        check.error(
            &here,
            "a derived budget is that of one CPU",
            "leave `budget_scope` out, or give `budget` and `period`",
        );
    } else if reservation.vcpus.is_some() {
        check.error(
            &here,
            "each of the `vcpus` has a budget of its own",
            "leave `budget_scope` or `vcpus` out",
        );
    } else if let Some(server) = reservation
        .server
        .filter(|kind| *kind != ServerKind::Deferrable)
    {
        check.error(
            &here,
            format!("a {server} server serves one CPU"),
            "leave `server` out, or `budget_scope`",
        );
    }
}

/// Complains of one budget for all CPUs of a domain that is not whole processes on CPUs of the host.
fn one_budget(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, reservation: &Reservation) {
    if reservation.budget_scope == BudgetScope::EachCpu {
        return;
    }
    let here = place.key("budget_scope");
    let host = check.description.host_of(domain).map(|(_, host)| host);
    let by_other_order = host.is_some_and(|host| {
        host.placement == Placement::Global || host.scheduling != HostScheduling::FixedPriority
    });
    if !domain.kind.is_process_group() {
        check.error(
            &here,
            "each virtual CPU of a machine has a budget of its own",
            "leave `budget_scope` out",
        );
    } else if domain.inside.is_some() {
        check.error(
            &here,
            "a domain inside of another one has a budget on each of its CPUs",
            "leave `budget_scope` or `inside` out",
        );
    } else if by_other_order {
        check.error(
            &here,
            "the host has another order of reservations than fixed priorities on each CPU",
            "leave `budget_scope` out, or `scheduling` and `placement` of the host",
        );
    }
}

/// Complains of options that the back end does not take.
fn options(check: &mut Check<'_>, place: &KeyPath, reservation: &Reservation) {
    let backend = reservation.backend;
    for option in reservation.options.given() {
        let takes = |kind: BackendKind| kind.traits().options.contains(&option);
        if !takes(backend) {
            check.error(
                &place.key("options").key(option.key),
                format!("the back end {backend} has no option `{}`", option.key),
                format!("leave it out, or choose {}", BackendKind::names(takes)),
            );
        }
    }
    let here = place.key("options");
    if let Some(burst) = reservation.options.burst {
        burst_within_budget(check, &here.key("burst"), burst, reservation.budget);
    }
    if let Some(tolerance) = reservation.options.overrun_tolerance {
        check.above_zero(&here.key("overrun_tolerance"), "the tolerance", tolerance);
    }
    let BackendOptions { weight, idle, .. } = reservation.options;
    if weight.is_some() && idle == Some(true) {
        check.error(
            &here.key("idle"),
            "a domain that runs only while nothing else does has no weight",
            "leave `weight` or `idle` out",
        );
    }
}

fn burst_within_budget(
    check: &mut Check<'_>,
    here: &KeyPath,
    burst: Duration,
    budget: Option<Duration>,
) {
    check.above_zero(here, "the burst", burst);
    if let Some(budget) = budget.filter(|budget| burst > *budget) {
        check.error(
            here,
            format!("burst {burst} is longer than the budget {budget}"),
            format!(
                "the kernel lets no group save more than its quota; write at most \"{budget}\""
            ),
        );
    }
}

fn given_keys(check: &mut Check<'_>, place: &KeyPath, given: &[&str]) {
    match given {
        ["budget", "period"] | ["derive"] => {}
        [] => check.error(
            place,
            "neither budget and period nor `derive` are given",
            "add `budget` and `period`, or derive = \"virtualization-agnostic\"",
        ),
        ["budget"] => check.error(
            place,
            "the budget has no period",
            "add `period`, the distance between replenishments",
        ),
        ["period"] => check.error(
            place,
            "the period has no budget",
            "add `budget`, the CPU time per period",
        ),
        _ => check.error(
            &place.key("derive"),
            "`derive` and a given budget or period contradict each other",
            "give either `budget` and `period`, or `derive`",
        ),
    }
}

fn derivation(check: &mut Check<'_>, place: &KeyPath, domain: &str) {
    let here = place.key("derive");
    let tasks = check.tasks_in(domain);
    if tasks.is_empty() {
        let services = &check.description.services;
        if check.is_whole("services", services.len()) {
            check.error(
                &here,
                "the domain has no tasks to derive budget and period from",
                "describe a service with tasks in it, or give `budget` and `period`",
            );
        }
        return;
    }
    for (task, content) in tasks {
        if content.least_gap().is_none() {
            check.error(
                &here,
                format!("{task} has no minimal gap between its releases"),
                "make it periodic or sporadic, or give `budget` and `period`",
            );
        }
        if content.execution_time.longest().is_none() {
            let message = format!("the execution time of {task} is not known before the run");
            check.error(
                &here,
                message,
                "make it constant or uniform, add `expected` to \
calibrated, or give `budget` and `period`",
            );
        }
    }
}

/// Complains of a server that the order among reservations makes no sense of.
fn order(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, reservation: &Reservation) {
    let Some(server) = reservation.server else {
        return;
    };
    let domains = &check.description.domains;
    let outer = domain.inside.as_ref().and_then(|outer| domains.get(outer));
    let by_deadline = match outer {
        Some(outer) => outer.scheduling == Scheduling::EarliestDeadlineFirst,
        None => {
            reservation.backend.precedence() == Precedence::Deadline
                || check.description.host_of(domain).is_some_and(|(_, host)| {
                    host.scheduling == HostScheduling::EarliestDeadlineFirst
                })
        }
    };
    let here = place.key("server");
    match server {
        server if by_deadline && !server.answers().has_deadline => check.error(
            &here,
            format!(
                "a {server} server has no deadline, and reservations are ordered by deadlines here"
            ),
            "choose another server, such as \"constant-bandwidth\", or fixed priorities",
        ),
        ServerKind::SoftConstantBandwidth if !by_deadline => check.warning(
            &here,
            "under fixed priorities this server never waits, so its budget limits nothing",
            "choose constant-bandwidth, or order reservations by deadlines",
        ),
        _ => {}
    }
}

/// RTDS is for Xen domains, on all CPUs of the pool, the earliest end of a period first.
fn xen(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, reservation: &Reservation) {
    if reservation.backend.precedence() != Precedence::Hypervisor {
        return;
    }
    let here = place.key("backend");
    if domain.kind != DomainKind::XenVm {
        let backend = reservation.backend;
        let message = format!("{backend} gives CPU time to Xen domains, and this is none");
        let remedy = "set kind = \"xen-vm\", or choose another back end";
        return check.error(&here, message, remedy);
    }
    let as_rtds = check.description.host_of(domain).is_none_or(|(_, host)| {
        host.scheduling == HostScheduling::EarliestDeadlineFirst
            && host.placement == Placement::Global
    });
    if !as_rtds {
        check.error(
            &here,
            "RTDS runs the virtual CPU whose period ends first, on any CPU",
            "write scheduling = \"earliest-deadline-first\" and placement = \"global\" at its host",
        );
    }
}

fn housekeeping(
    check: &mut Check<'_>,
    place: &KeyPath,
    domain: &Domain,
    reservation: &Reservation,
) {
    let hosts = &check.description.hosts;
    let host = match &domain.host {
        Some(name) => hosts.get(name),
        None => hosts.values().next(),
    };
    let Some(host) = host else { return };
    if let Some(cpu) = reservation.cpus.intersection(&host.housekeeping).next() {
        check.warning(
            &place.key("cpus"),
            format!("CPU {cpu} is a housekeeping CPU: load generators and Tailbound run there too"),
            "reserve other CPUs, or take it out of `housekeeping`",
        );
    }
}
