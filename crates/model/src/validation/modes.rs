//! Modes.

use super::Check;
use crate::reading::Place;

/// Checks the modes and which is the first.
pub(super) fn modes(check: &mut Check<'_>) {
    let description = check.description;
    let known = check.tree.names("modes");
    let initial = Place::root().key("initial_mode");
    match &description.initial_mode {
        Some(name) if known.is_empty() => check.error(
            &initial,
            format!("there is no mode `{name}`, nor any other"),
            "leave `initial_mode` out, or describe modes",
        ),
        Some(name) => check.reference(&initial, "mode", name, &known),
        None if !known.is_empty() => check.error(
            &Place::root().key("modes"),
            "nothing says in which mode the system starts",
            format!(
                "add `initial_mode` at the top of the file, one of: {}",
                known.join(", ")
            ),
        ),
        None => {}
    }
    let tasks = known_tasks(check);
    let domains = check.tree.names("domains");
    for (name, mode) in &description.modes {
        let place = Place::root().key("modes").key(name);
        for domain in mode.reservations.keys() {
            check.reference(
                &place.key("reservations").key(domain),
                "domain",
                domain,
                &domains,
            );
        }
        let released = mode.tasks.iter().flatten();
        for (index, task) in released.clone().enumerate() {
            let here = place.key("tasks").index(index);
            mode_task(check, &here, task, &tasks);
            if released.clone().take(index).any(|other| other == task) {
                check.error(
                    &here,
                    format!("`{task}` is there twice"),
                    "name each task once",
                );
            }
        }
    }
}

fn known_tasks(check: &Check<'_>) -> Vec<String> {
    let mut known = Vec::new();
    for table in ["services", "domains"] {
        let place = Place::root().key(table);
        for owner in check.tree.names(table) {
            let tasks = check.tree.names_at(&place.key(owner).key("tasks"));
            known.extend(tasks.into_iter().map(|task| format!("{owner}.{task}")));
        }
    }
    known
}

fn mode_task(check: &mut Check<'_>, here: &Place, task: &str, known: &[String]) {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if !known.contains(&task) && !task.contains('.') {
        let whole = known
            .iter()
            .find(|name| name.ends_with(&format!(".{task}")));
        let example = whole.or(known.first()).map_or("service.task", |name| name);
        let message = format!("`{task}` does not say of which service or domain it is a task");
        check.error(
            here,
            message,
            format!("write service.task, such as \"{example}\""),
        );
        return;
    }
    check.reference(here, "task", task, &known);
}
