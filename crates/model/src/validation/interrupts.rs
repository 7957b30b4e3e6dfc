//! The handling of the interrupts of a host.

use super::{Check, given};
use crate::BackendKind;
use crate::host::Host;
use crate::interface::CpuSet;
use crate::interrupts::{InterruptHandling, ReceiveContext, interrupt_domain};
use crate::parser::KeyPath;

/// The longest name of the domain that the work of interrupts is.
const LONGEST_NAME: usize = 64;

/// Checks the handling of the interrupts of one host.
pub(super) fn interrupts(check: &mut Check<'_>, host_place: &KeyPath, name: &str, host: &Host) {
    let table = host_place.key("interrupts");
    for (source, handling) in &host.interrupts {
        let place = table.key(source);
        source_name(check, &place, name, source);
        cpus(check, &place, host, handling);
        match handling.receive {
            ReceiveContext::Softirq => without_threads(check, &place, handling),
            ReceiveContext::Thread => threads(check, &place, handling),
        }
    }
}

fn source_name(check: &mut Check<'_>, place: &KeyPath, host: &str, source: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let domain = interrupt_domain(host, source);
    if source.is_empty() || !source.chars().all(is_plain) || domain.len() > LONGEST_NAME {
        check.error(
            place,
            format!("{source:?} names no device and no interrupt"),
            format!(
                "write the name of a network device such as eth0, or the number or name of an interrupt in \
                 /proc/interrupts, in letters, digits, -, _ and ., with \"{host}.interrupts.\" at most {LONGEST_NAME} long"
            ),
        );
    }
}

fn cpus(check: &mut Check<'_>, place: &KeyPath, host: &Host, handling: &InterruptHandling) {
    let here = place.key("cpus");
    if handling.cpus.is_empty() {
        check.error(
            &here,
            "the interrupts have no CPU",
            "name at least one CPU, such as [0]",
        );
    }
    let outside: CpuSet = handling.cpus.difference(&host.cpus).copied().collect();
    if let Some(cpu) = outside.first() {
        check.error(
            &here,
            format!("CPU {cpu} is not among the host's `cpus`"),
            "name only CPUs of the host, or add it to `cpus`",
        );
    }
    if handling.budget.is_some() && handling.cpus.len() > 1 {
        check.error(
            &here,
            format!(
                "a budget of interrupts is spent on one CPU, and {} are named",
                handling.cpus.len()
            ),
            "name one CPU, such as [0]",
        );
    }
}

/// Softirqs are no threads, so that no priority and no budget can be theirs.
fn without_threads(check: &mut Check<'_>, place: &KeyPath, handling: &InterruptHandling) {
    let keys = [
        ("priority", handling.priority.is_some()),
        ("budget", handling.budget.is_some()),
        ("period", handling.period.is_some()),
        ("backend", handling.backend.is_some()),
    ];
    check.none_of(
        place,
        &keys,
        |key| format!("softirqs come before every thread, so that they have no `{key}`"),
        "add receive = \"thread\", or leave it out",
    );
}

fn threads(check: &mut Check<'_>, place: &KeyPath, handling: &InterruptHandling) {
    let needs_priority = given(&[
        ("budget", handling.budget.is_some()),
        ("backend", handling.backend.is_some()),
    ]);
    if let (None, Some(key)) = (handling.priority, needs_priority.first()) {
        check.error(
            &place.key(*key),
            format!("`{key}` is for threads with a priority, and there is none"),
            "add `priority`, such as 50",
        );
    }
    match (handling.budget, handling.period) {
        (Some(budget), Some(period)) => {
            check.above_zero(&place.key("budget"), "the budget", budget);
            check.above_zero(&place.key("period"), "the period", period);
            if budget > period {
                check.error(
                    &place.key("budget"),
                    format!("the budget of {budget} is longer than the period of {period}"),
                    format!("write at most {period}"),
                );
            }
        }
        (Some(_), None) => check.error(
            &place.key("budget"),
            "there is a budget, and nothing says how often",
            "add `period`, such as \"10ms\"",
        ),
        (None, Some(_)) => check.error(
            &place.key("period"),
            "there is a period, and no budget in it",
            "add `budget`, such as \"2ms\"",
        ),
        (None, None) => {}
    }
    backend(check, place, handling);
}

fn backend(check: &mut Check<'_>, place: &KeyPath, handling: &InterruptHandling) {
    let Some(backend) = handling.backend else {
        return;
    };
    let is_for_threads =
        |kind: BackendKind| kind.traits().kernel_threads && kind.guarantees_budget();
    if !is_for_threads(backend) {
        check.error(
            &place.key("backend"),
            format!("{backend} gives threads of the kernel no budget"),
            format!("write one of {}", BackendKind::names(is_for_threads)),
        );
    } else if handling.budget.is_none() {
        check.error(
            &place.key("backend"),
            format!("{backend} enforces a budget, and there is none"),
            "add `budget` and `period`, or leave `backend` out",
        );
    }
}
