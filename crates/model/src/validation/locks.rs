//! Locks, and the sections during which tasks hold them.

use super::Check;
use crate::description::{Domain, Scheduling, Task};
use crate::locks::{CriticalSection, LockProtocol};
use crate::parser::{KeyPath, nearest};

/// Checks the locks of a domain and who uses them.
pub(super) fn locks(check: &mut Check<'_>, place: &KeyPath, domain: &Domain) {
    let ordered_by_deadline = domain.scheduling == Scheduling::EarliestDeadlineFirst;
    for (name, protocol) in &domain.locks {
        let here = place.key("locks").key(name);
        let mut tasks = domain.tasks.values();
        if !tasks.any(|task| task.sections.iter().any(|section| section.lock == *name)) {
            check.warning(
                &here,
                "no task of the domain uses the lock",
                "leave it out, or name it in the `sections` of tasks",
            );
        }
        let has_ceiling = matches!(
            protocol,
            LockProtocol::Ceiling | LockProtocol::ImmediateCeiling
        );
        if has_ceiling && ordered_by_deadline {
            check.error(
                &here,
                "a ceiling is a fixed priority, and the tasks are ordered by deadlines",
                "write \"inheritance\", or choose a scheduling with fixed priorities",
            );
        }
    }
    for (name, task) in &domain.tasks {
        let here = place.key("tasks").key(name).key("sections");
        sections(check, &here, domain, task);
    }
}

/// Complains of sections in tasks that are not a domain's own.
pub(super) fn none(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    if !task.sections.is_empty() {
        check.error(
            &place.key("sections"),
            "locks are for a domain's own tasks, not for a service's",
            "leave it out, or describe the tasks in a domain",
        );
    }
}

fn sections(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, task: &Task) {
    for (index, section) in task.sections.iter().enumerate() {
        let here = place.index(index);
        if !domain.locks.contains_key(&section.lock) {
            let locks: Vec<&str> = domain.locks.keys().map(String::as_str).collect();
            let remedy = match nearest(&section.lock, &locks) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "add it to `locks` of the domain: {} = \"none\"",
                    section.lock
                ),
            };
            let message = format!("the domain has no lock `{}`", section.lock);
            check.error(&here.key("lock"), message, remedy);
        }
        check.above_zero(&here.key("length"), "the length", section.length);
        let earlier = &task.sections[..index];
        if let Some(other) = earlier.iter().find(|other| crosses(other, section)) {
            let message = format!(
                "the section overlaps that of `{}` without lying within it, or of the same lock",
                other.lock
            );
            check.error(
                &here,
                message,
                "move or shorten it: sections lie within each other or apart, each with a lock of \
its own",
            );
        }
    }
}

fn crosses(one: &CriticalSection, other: &CriticalSection) -> bool {
    let span = |section: &CriticalSection| {
        let begin = section.after.as_nanos();
        (begin, begin.saturating_add(section.length.as_nanos()))
    };
    let ((a, b), (c, d)) = (span(one), span(other));
    let apart = b <= c || d <= a;
    let within = (a <= c && d <= b) || (c <= a && b <= d);
    !apart && (!within || one.lock == other.lock)
}
