//! Modes of single domains.

use super::Check;
use super::modes::names_once;
use crate::description::Domain;
use crate::parser::KeyPath;

/// Checks the local modes of every domain, but for their reservations.
pub(super) fn local_modes(check: &mut Check<'_>) {
    let description = check.description;
    for (name, domain) in &description.domains {
        let place = KeyPath::root().key("domains").key(name).key("modes");
        let task_names = known_tasks(check, name);
        let task_names: Vec<&str> = task_names.iter().map(String::as_str).collect();
        for (mode, content) in &domain.modes {
            let here = place.key(mode);
            let tasks = content.tasks.as_deref();
            names_once(check, &here.key("tasks"), tasks, |check, here, task| {
                check.reference(here, "task of the domain", task, &task_names);
            });
            unused(check, &here, (name, domain), mode);
        }
    }
}

/// The domain's own tasks and those of its services, as its local modes spell them.
pub(super) fn known_tasks(check: &Check<'_>, name: &str) -> Vec<String> {
    let root = KeyPath::root();
    let own = root.key("domains").key(name).key("tasks");
    let own = check.tree.names_at(&own).into_iter().map(str::to_owned);
    let services = check.description.services.iter();
    let inside = services.filter(|(_, service)| service.domain == name);
    let served = inside.flat_map(|(service, _)| {
        let place = root.key("services").key(service).key("tasks");
        let tasks = check.tree.names_at(&place).into_iter();
        tasks.map(move |task| format!("{service}.{task}"))
    });
    own.chain(served).collect()
}

fn unused(check: &mut Check<'_>, here: &KeyPath, (name, domain): (&str, &Domain), mode: &str) {
    let description = check.description;
    let mut modes = description.modes.values();
    let agent = domain.agent.as_ref();
    let used = modes.any(|content| content.domains.get(name).is_some_and(|local| local == mode))
        || agent.is_some_and(|agent| agent.fallback.as_deref() == Some(mode));
    // What names it may have been cut out for its shape.
    if used || !check.is_whole("modes", description.modes.len()) {
        return;
    }
    check.warning(
        here,
        format!("no mode of the system puts `{name}` into it, nor does its agent fall back to it"),
        format!("name it in a mode, such as domains = {{ {name} = \"{mode}\" }}, or leave it out"),
    );
}
