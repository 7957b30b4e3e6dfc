//! From a description to a workload of rt-app.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};
use tailbound_time::Duration;

use crate::description::{Arrivals, Builtin, Description, Domain, ExecutionTime, Task};
use crate::{BackendKind, NiceValue};

/// Why a description is no workload of rt-app's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExportable {
    /// rt-app's timers are periodic.
    #[error("{task} is not periodic; rt-app plays periodic tasks only")]
    NotPeriodic {
        /// The task, as `service.task`.
        task: String,
    },
    /// rt-app's `run` takes one number.
    #[error("the execution time of {task} is not constant; rt-app runs for constant times only")]
    NotConstant {
        /// The task, as `service.task`.
        task: String,
    },
    /// rt-app counts microseconds.
    #[error("{what} is {length}; rt-app takes whole microseconds, so round it")]
    NotMicroseconds {
        /// What is too fine.
        what: String,
        /// How long it is.
        length: Duration,
    },
    /// There is nothing that rt-app could play.
    #[error("there is no task and no built-in CPU hog that rt-app could play")]
    Empty,
}

/// The periodic tasks and CPU hogs of `description` as an rt-app workload. What rt-app cannot do
/// is told in comments at the start of it.
///
/// # Errors
/// If a task is not periodic, has no constant execution time, or needs fractions of microseconds.
pub fn export(description: &Description) -> Result<String, NotExportable> {
    // The map sorts its keys, which puts `run` before `timer`, as it must be.
    let mut threads = Map::new();
    let mut comments = Vec::new();
    for (name, domain) in &description.domains {
        if domain.builtin == Some(Builtin::CpuHog) {
            let mut hog = scheduling(name, domain, &mut comments)?;
            hog.insert("instance".into(), json!(domain.instances));
            hog.insert("loop".into(), json!(-1));
            hog.insert("run".into(), json!(1_000_000));
            threads.insert(name.clone(), Json::Object(hog));
        } else if description
            .services
            .values()
            .all(|service| service.domain != *name)
        {
            comments.push(format!(
                "domain {name} is left out: rt-app does not run programs"
            ));
        }
    }
    for (service_name, service) in &description.services {
        let Some(domain) = description.domains.get(&service.domain) else {
            continue;
        };
        let several = service.tasks.len() > 1 || service.tasks.values().any(|t| t.clients > 1);
        if several {
            comments.push(format!(
                "the tasks of service {service_name} are threads side \
by side; the service serves one at a time"
            ));
        }
        for (task_name, task) in &service.tasks {
            let name = format!("{service_name}.{task_name}");
            let mut thread = scheduling(&service.domain, domain, &mut comments)?;
            periodic(&name, task, &mut thread)?;
            threads.insert(name, Json::Object(thread));
        }
    }
    if threads.is_empty() {
        return Err(NotExportable::Empty);
    }
    if !description.modes.is_empty() {
        comments.push("modes are left out: rt-app has none".into());
    }
    comments.dedup();
    let duration = description
        .experiment
        .duration
        .as_nanos()
        .div_ceil(1_000_000_000);
    let workload = json!({
        "global": { "duration": duration, "default_policy": "SCHED_OTHER" },
        "tasks": threads,
    });
    let mut text = String::new();
    for comment in comments {
        let _ = writeln!(text, "/* {comment} */");
    }
    let _ = writeln!(text, "{workload:#}");
    Ok(text)
}

/// The policy of the threads in a domain.
fn scheduling(
    name: &str,
    domain: &Domain,
    comments: &mut Vec<String>,
) -> Result<Map<String, Json>, NotExportable> {
    let mut properties = Map::new();
    let cpus: Vec<u32> = domain.allowed_cpus().iter().map(|cpu| cpu.0).collect();
    if !cpus.is_empty() {
        properties.insert("cpus".into(), json!(cpus));
    }
    let Some(reservation) = &domain.reservation else {
        return Ok(properties);
    };
    match (reservation.backend, reservation.budget, reservation.period) {
        (BackendKind::Deadline, Some(budget), Some(period)) => {
            properties.insert("policy".into(), json!("SCHED_DEADLINE"));
            let what = |key: &str| format!("the {key} of domain {name}");
            properties.insert(
                "dl-runtime".into(),
                json!(micros(budget, || what("budget"))?),
            );
            properties.insert(
                "dl-period".into(),
                json!(micros(period, || what("period"))?),
            );
        }
        (BackendKind::None, ..) => {}
        (BackendKind::Fifo, ..) => {
            properties.insert("policy".into(), json!("SCHED_FIFO"));
            properties.insert("priority".into(), json!(reservation.priority.0));
        }
        (BackendKind::Nice, ..) => {
            let NiceValue(nice) = reservation.options.nice.unwrap_or(NiceValue::FIRST);
            properties.insert("policy".into(), json!("SCHED_OTHER"));
            properties.insert("priority".into(), json!(nice));
        }
        (
            BackendKind::DsFreeze
            | BackendKind::TimePartitions
            | BackendKind::RtGroup
            | BackendKind::Hcbs
            | BackendKind::Deadline,
            ..,
        ) => {
            properties.insert("policy".into(), json!("SCHED_FIFO"));
            properties.insert("priority".into(), json!(reservation.priority.0));
            comments.push(format!(
                "domain {name} has its priority but no budget: rt-app cannot limit it"
            ));
        }
        (
            BackendKind::CfsQuota
            | BackendKind::Weight
            | BackendKind::Dedicated
            | BackendKind::XenRtds,
            ..,
        ) => {
            comments.push(format!(
                "domain {name} has its CPUs but no reservation: rt-app cannot make one"
            ));
        }
    }
    Ok(properties)
}

/// What a periodic task does.
fn periodic(name: &str, task: &Task, thread: &mut Map<String, Json>) -> Result<(), NotExportable> {
    let Arrivals::Periodic { period, offset } = &task.arrivals else {
        return Err(NotExportable::NotPeriodic { task: name.into() });
    };
    let ExecutionTime::Constant { value } = &task.execution_time else {
        return Err(NotExportable::NotConstant { task: name.into() });
    };
    let what = |key: &str| format!("the {key} of {name}");
    if !offset.is_zero() {
        thread.insert("delay".into(), json!(micros(*offset, || what("offset"))?));
    }
    if task.clients > 1 {
        thread.insert("instance".into(), json!(task.clients));
    }
    thread.insert("loop".into(), json!(-1));
    thread.insert(
        "run".into(),
        json!(micros(*value, || what("execution time"))?),
    );
    let period = micros(*period, || what("period"))?;
    let timer = json!({ "ref": "unique", "period": period, "mode": "absolute" });
    thread.insert("timer".into(), timer);
    Ok(())
}

fn micros(length: Duration, what: impl Fn() -> String) -> Result<u64, NotExportable> {
    let nanoseconds = length.as_nanos();
    match nanoseconds % 1_000 {
        0 => Ok(nanoseconds / 1_000),
        _ => Err(NotExportable::NotMicroseconds {
            what: what(),
            length,
        }),
    }
}
