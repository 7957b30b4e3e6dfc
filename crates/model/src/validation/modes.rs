//! Modes.

use super::Check;
use crate::mode::Mode;
use crate::parser::KeyPath;

/// Checks the modes and which is the first.
pub(super) fn modes(check: &mut Check<'_>) {
    let description = check.description;
    let modes = check.names("modes");
    let initial = KeyPath::root().key("initial_mode");
    match &description.initial_mode {
        Some(name) if modes.is_empty() => check.error(
            &initial,
            format!("there is no mode `{name}`, nor any other"),
            "leave `initial_mode` out, or describe modes",
        ),
        Some(name) => check.reference(&initial, "mode", name, &modes),
        None if !modes.is_empty() => check.error(
            &KeyPath::root().key("modes"),
            "nothing says in which mode the system starts",
            format!(
                "add `initial_mode` at the top of the file, one of: {}",
                modes.join(", ")
            ),
        ),
        None => {}
    }
    let tasks = known_tasks(check);
    let domains = check.names("domains");
    for (name, mode) in &description.modes {
        let place = KeyPath::root().key("modes").key(name);
        for domain in mode.reservations.keys() {
            check.reference(
                &place.key("reservations").key(domain),
                "domain",
                domain,
                &domains,
            );
        }
        for (domain, local) in &mode.domains {
            local_mode(check, name, mode, domain, local);
        }
        let here = place.key("tasks");
        names_once(check, &here, mode.tasks.as_deref(), |check, here, task| {
            mode_task(check, here, task, &tasks);
        });
        one_list_of_tasks(check, &here, mode);
    }
}

/// Checks each of a list of tasks, and that none is there twice.
pub(super) fn names_once(
    check: &mut Check<'_>,
    place: &KeyPath,
    tasks: Option<&[String]>,
    each: impl Fn(&mut Check<'_>, &KeyPath, &str),
) {
    let tasks = tasks.unwrap_or_default();
    for (index, task) in tasks.iter().enumerate() {
        each(check, &place.index(index), task);
    }
    let message = |task: &String| format!("`{task}` is there twice");
    check.no_repetition(place, tasks, message, "name each task once");
}

/// Checks which local mode a mode puts a domain into.
fn local_mode(check: &mut Check<'_>, name: &str, mode: &Mode, domain: &str, local: &str) {
    let place = KeyPath::root().key("modes").key(name);
    let here = place.key("domains").key(domain);
    let domains = check.names("domains");
    check.reference(&here, "domain", domain, &domains);
    if domains.contains(&domain) {
        let table = KeyPath::root().key("domains").key(domain).key("modes");
        let local_modes = check.tree.names_at(&table);
        check.reference(&here, "local mode", local, &local_modes);
    }
    if mode.reservations.contains_key(domain) {
        check.error(
            &place.key("reservations").key(domain),
            format!("the mode puts `{domain}` into its local mode `{local}`, which says what is reserved"),
            format!(
                "write it into [domains.{domain}.modes.{local}], or leave `{domain}` out of `domains`"
            ),
        );
    }
}

/// Complains of a list of tasks beside those of local modes.
fn one_list_of_tasks(check: &mut Check<'_>, here: &KeyPath, mode: &Mode) {
    if mode.tasks.is_none() {
        return;
    }
    let description = check.description;
    let mut domains = mode.domains.keys();
    let lists = domains.find(|domain| {
        let local = description.local_mode(mode, domain);
        local.is_some_and(|local| local.tasks.is_some())
    });
    if let Some(domain) = lists {
        check.error(
            here,
            format!("the mode lists tasks, and so does the local mode of `{domain}`"),
            "leave `tasks` out of the mode, and list the tasks of each domain in local modes; or list \
             all of them here",
        );
    }
}

fn known_tasks(check: &Check<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for table in ["services", "domains"] {
        let place = KeyPath::root().key(table);
        for owner in check.names(table) {
            let tasks = check.tree.names_at(&place.key(owner).key("tasks"));
            all.extend(tasks.into_iter().map(|task| format!("{owner}.{task}")));
        }
    }
    all
}

fn mode_task(check: &mut Check<'_>, here: &KeyPath, task: &str, tasks: &[String]) {
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    if !tasks.contains(&task) && !task.contains('.') {
        let whole = tasks
            .iter()
            .find(|name| name.ends_with(&format!(".{task}")));
        let example = whole.or(tasks.first()).map_or("service.task", |name| name);
        let message = format!("`{task}` does not say of which service or domain it is a task");
        check.error(
            here,
            message,
            format!("write service.task, such as \"{example}\""),
        );
        return;
    }
    check.reference(here, "task", task, &tasks);
}
