//! The users of services.

use super::Check;
use crate::description::{Service, Task};
use crate::parser::KeyPath;
use crate::users::{LONGEST_SESSION, ThinkTime, Users};
use crate::workload::Arrivals;

/// Checks the users of a service, and that its tasks and they go together.
pub(super) fn users(check: &mut Check<'_>, place: &KeyPath, service: &Service) {
    let here = place.key("users");
    let asked = asked_tasks(service);
    let Some(users) = &service.users else {
        for (name, _) in asked {
            check.error(
                &place.key("tasks").key(name).key("arrivals"),
                "the service has no users who would release the task",
                "add `users` to the service, such as { count = 30, think_time = { kind = \"exponential\", mean = \"1s\" } }",
            );
        }
        return;
    };
    if asked.is_empty() {
        check.error(
            &here,
            "no task of the service is released by users",
            "give the tasks that they ask arrivals = { kind = \"users\" }",
        );
    }
    for (name, task) in &asked {
        if task.clients != 1 {
            check.error(
                &place.key("tasks").key(*name).key("clients"),
                "the clients of this task are the users of the service",
                "leave it out, and set `count` of the users",
            );
        }
    }
    session(check, place, users, &asked);
    think_time(check, &here.key("think_time"), &users.think_time);
    numbers(check, &here, users);
}

/// The tasks that users release, by name.
fn asked_tasks(service: &Service) -> Vec<(&str, &Task)> {
    let tasks = service.tasks.iter();
    let asked = tasks.filter(|(_, task)| matches!(task.arrivals, Arrivals::Users {}));
    asked.map(|(name, task)| (name.as_str(), task)).collect()
}

/// A session asks tasks that users release, each of them at least once.
fn session(check: &mut Check<'_>, place: &KeyPath, users: &Users, asked: &[(&str, &Task)]) {
    let here = place.key("users").key("session");
    let names: Vec<&str> = asked.iter().map(|(name, _)| *name).collect();
    for (index, step) in users.session.iter().enumerate() {
        let here = here.index(index);
        check.reference(&here.key("task"), "task of users", &step.task, &names);
    }
    let all: u64 = users.session.iter().map(|step| u64::from(step.times)).sum();
    if all > u64::from(LONGEST_SESSION) {
        check.error(
            &here,
            format!("a session has {all} requests"),
            format!(
                "shorten it to at most {LONGEST_SESSION}; users begin another session after it"
            ),
        );
    }
    if users.session.is_empty() {
        return;
    }
    for name in names {
        if users.session.iter().all(|step| step.task != name) {
            check.error(
                &place.key("tasks").key(name).key("arrivals"),
                "no step of the session asks this task",
                format!("add {{ task = \"{name}\" }} to `users.session`, or leave the task out"),
            );
        }
    }
}

fn think_time(check: &mut Check<'_>, place: &KeyPath, law: &ThinkTime) {
    match law {
        ThinkTime::Constant { value } if value.is_zero() => check.warning(
            place,
            "users who do not think keep the service busy without a pause",
            "response times are then what the number of users makes of the throughput; give the time that people take, \
             such as \"1s\"",
        ),
        ThinkTime::Constant { .. } => {}
        ThinkTime::Exponential { min, mean } if mean <= min => check.error(
            &place.key("mean"),
            format!("the mean {mean} is not above min {min}"),
            "lengthen it; for times that are all the same, use { kind = \"constant\", value = \"1s\" }",
        ),
        ThinkTime::Exponential { .. } => {}
        ThinkTime::Samples { file } if file.as_os_str().is_empty() => check.error(
            &place.key("file"),
            "the file's name is empty",
            "name a file; relative paths start at the description",
        ),
        ThinkTime::Samples { .. } => {}
    }
}

/// The numbers of users, and the times at which they change.
fn numbers(check: &mut Check<'_>, here: &KeyPath, users: &Users) {
    let mut before = None;
    for (index, change) in users.changes.iter().enumerate() {
        let place = here.key("changes").index(index);
        if let Some(end) = before.filter(|end| change.at < *end) {
            check.error(
                &place.key("at"),
                format!(
                    "the change begins at {}, and the one before ends at {end}",
                    change.at
                ),
                "write the changes in order of time, none within another",
            );
        }
        before = Some(change.at.saturating_add(change.over));
    }
    if users.most() == 0 {
        check.error(
            &here.key("count"),
            "there is no user at any time",
            "write a number above 0, here or in `changes`",
        );
    }
}
