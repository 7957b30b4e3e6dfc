//! Tasks that a domain has of its own, and their order.

use super::Check;
use super::locks;
use super::tasks::{self, TaskOwner};
use crate::description::{Builtin, Domain, Scheduling};
use crate::host::Placement;
use crate::parser::KeyPath;

/// Checks the domains' own tasks.
pub(super) fn own_tasks(check: &mut Check<'_>) {
    let description = check.description;
    for (place, name, domain) in check.domains() {
        order(check, &place, name, domain);
        locks::locks(check, &place, domain);
        if domain.tasks.is_empty() {
            if domain.builtin == Some(Builtin::OwnTasks) {
                check.error(
                    &place.key("builtin"),
                    "the program carries out the tasks of the domain, and there are none",
                    "describe them at `tasks`",
                );
            }
            continue;
        }
        owner(check, &place, name, domain);
        let vcpus = description.vcpus_of(domain);
        for (task, content) in &domain.tasks {
            let here = place.key("tasks").key(task);
            let owner = TaskOwner {
                domain,
                vcpus,
                is_soft: domain.has_soft(task),
            };
            tasks::own_task(check, &here, owner, content);
            if domain.placement == Placement::Global && vcpus > 1 {
                tasks::one_queue(check, &here, content);
            }
        }
    }
}

/// Complains of tasks that the program of own tasks carries out otherwise than they are described.
fn own_task_program(check: &mut Check<'_>, place: &KeyPath, domain: &Domain) {
    if domain.tasks.len() > 1 && domain.scheduling != Scheduling::Fifo {
        check.error(
            &place.key("scheduling"),
            "the built-in program carries tasks out in the order of their release",
            "leave `scheduling` out, or give each task a domain of its own",
        );
    }
    for (name, task) in &domain.tasks {
        let here = place.key("tasks").key(name);
        if task.clients != 1 {
            check.error(
                &here.key("clients"),
                "the built-in program has one thread a task",
                "leave it out, or describe a task for each client",
            );
        }
        if !task.sections.is_empty() || task.boost.is_some() {
            check.error(
                &here,
                "the built-in program takes no locks and gets no boosts",
                "leave `sections` and `boost` out, or give a `command` of your own",
            );
        }
    }
}

/// Complains of tasks in domains whose load is told otherwise.
fn owner(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let here = place.key("tasks");
    match domain.builtin {
        Some(Builtin::CpuHog) => check.error(
            &here,
            "a CPU hog uses all the CPU time that it gets and has no tasks",
            "leave `builtin` out, or describe the tasks in a domain of their own",
        ),
        Some(Builtin::SyntheticService) => check.error(
            &here,
            "the synthetic service is asked to work by requests",
            "describe a service in this domain and its tasks there",
        ),
        Some(Builtin::OwnTasks) => own_task_program(check, place, domain),
        None => {}
    }
    let mut services = check.description.services.iter();
    if let Some((service, _)) = services.find(|(_, service)| service.domain == name) {
        check.error(
            &here,
            format!("the service `{service}` is in this domain and has tasks"),
            "describe them there, or a domain of its own for each",
        );
    }
    if check.description.services.contains_key(name) {
        check.error(
            &here,
            format!("there is a service `{name}`, too, so {name}.TASK names two things"),
            "give one of the two another name",
        );
    }
    if domain.instances != 1 {
        check.error(
            &place.key("instances"),
            "the tasks are those of the whole domain",
            "leave `instances` out; `clients` of a task says how often it is there",
        );
    }
}

/// Complains of an order of nothing, and of orders that contradict themselves.
fn order(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let mut domains = check.description.domains.values();
    let holds = domains.any(|inner| inner.inside.as_deref() == Some(name));
    let given = [
        ("scheduling", domain.scheduling != Scheduling::default()),
        ("quantum", domain.quantum.is_some()),
        ("preemptive", !domain.preemptive),
        ("placement", domain.placement != Placement::default()),
        ("aperiodic", domain.aperiodic.is_some()),
    ];
    let orders_something = !domain.tasks.is_empty()
        || (holds && matches!(domain.scheduling, Scheduling::EarliestDeadlineFirst));
    if !orders_something && check.tree.names_at(&place.key("tasks")).is_empty() {
        let message = |_: &str| "it is for the domain's own tasks, and there are none".into();
        let remedy = "leave it out; the order of a service's tasks is said at the service";
        check.none_of(place, &given, message, remedy);
        return;
    }
    if domain.placement == Placement::Global {
        one_queue(check, place, domain, holds);
    }
    let turns = domain.scheduling == Scheduling::RoundRobin;
    match domain.quantum {
        Some(quantum) if turns => check.above_zero(&place.key("quantum"), "the quantum", quantum),
        Some(_) => check.error(
            &place.key("quantum"),
            "only round-robin scheduling has turns",
            "leave it out, or write scheduling = \"round-robin\"",
        ),
        None if turns => check.error(
            place,
            "nothing says how long a turn lasts",
            "add `quantum`, such as \"10ms\"",
        ),
        None => {}
    }
    if turns && !domain.preemptive {
        check.error(
            &place.key("preemptive"),
            "turns interrupt jobs, and this forbids it",
            "leave it out, or write scheduling = \"fifo\"",
        );
    }
    if holds && !domain.preemptive {
        check.error(
            &place.key("preemptive"),
            "the domains inside of this one have to be interrupted at the end of their budget",
            "leave it out, or put the tasks in a domain of their own",
        );
    }
}

/// Complains of what one queue for several virtual CPUs does not go with.
fn one_queue(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, holds: bool) {
    let against = [
        (
            "scheduling",
            domain.scheduling == Scheduling::RoundRobin,
            "turns are taken on one virtual CPU",
        ),
        (
            "preemptive",
            !domain.preemptive,
            "tasks that share a queue interrupt each other",
        ),
        (
            "inside",
            domain.inside.is_some(),
            "the virtual CPUs of the outer domain know nothing of each other",
        ),
        (
            "placement",
            holds,
            "the domains inside of this one are each on one virtual CPU",
        ),
    ];
    for (key, _, why) in against.iter().filter(|(_, given, _)| *given) {
        check.error(
            &place.key(*key),
            *why,
            "leave it out, or write placement = \"partitioned\"",
        );
    }
}
