//! What the host sees of the tasks that agents stop.

use std::path::PathBuf;

use super::Check;
use super::domains::{below_root, pids};
use super::local_modes::known_tasks;
use crate::description::{Domain, DomainKind};
use crate::mode_changes::{AgentDescription, TaskProcesses};
use crate::parser::KeyPath;

/// Checks that each task is known, that something runs it, and that this runs no other one: what goes on for
/// another task would be taken for this one.
pub(super) fn agent_tasks(
    check: &mut Check<'_>,
    name: &str,
    domain: &Domain,
    agent: &AgentDescription,
) {
    let root = KeyPath::root().key("domains").key(name);
    let place = root.key("agent").key("tasks");
    if agent.tasks.is_empty() {
        return;
    }
    if !matches!(domain.kind, DomainKind::Process | DomainKind::Container) {
        check.error(
            &place,
            "the host sees no tasks inside of a machine",
            "leave it out; it is for kinds \"process\" and \"container\"",
        );
        return;
    }
    let tasks = known_tasks(check, name);
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let mut before: Vec<(&String, &TaskProcesses)> = Vec::new();
    for (task, one) in &agent.tasks {
        let here = place.key(task);
        check.reference(&here, "task of the domain", task, &tasks);
        if one.pids.is_empty() && one.cgroup.is_none() {
            check.error(
                &here,
                "nothing says what runs the task",
                "give its `pids`, its `cgroup`, or both",
            );
        }
        if let Some(cgroup) = &one.cgroup {
            below_root(check, &here.key("cgroup"), cgroup, "move.service");
        }
        pids(check, &here.key("pids"), &one.pids);
        for (other, what) in &before {
            if let Some(shared) = shared(one, what) {
                check.error(
                    &here,
                    format!("{shared} runs `{other}`, too"),
                    "name what runs one task alone, or leave both out: while one of them runs, the \
                     host could not tell whether the other one is stopped",
                );
            }
        }
        before.push((task, one));
    }
}

/// What two tasks have in common, in words.
fn shared(one: &TaskProcesses, other: &TaskProcesses) -> Option<String> {
    if let Some(pid) = one.pids.iter().find(|pid| other.pids.contains(pid)) {
        return Some(format!("process {pid}"));
    }
    let in_words = |cgroup: &PathBuf| format!("cgroup {:?}", cgroup.display().to_string());
    match (&one.cgroup, &other.cgroup) {
        (Some(one), Some(other)) if one.starts_with(other) || other.starts_with(one) => {
            Some(in_words(one))
        }
        _ => None,
    }
}
