//! Tasks: when they come, how long they run, what they ask.

use tailbound_time::Duration;

use super::{Check, workload};
use crate::description::{Domain, ExecutionTime, Protocol, Request, Scheduling, Service, Task};
use crate::parser::KeyPath;
use crate::workload::Arrivals;

/// Who decides the order of tasks.
#[derive(Clone, Copy)]
struct Orderer {
    scheduling: Scheduling,
    /// "service" or "domain".
    what: &'static str,
}

/// Checks one task of `service`.
pub(super) fn task(check: &mut Check<'_>, place: &KeyPath, service: &Service, task: &Task) {
    let orderer = Orderer {
        scheduling: service.scheduling,
        what: "service",
    };
    times(check, place, orderer, task);
    if matches!(service.protocol, Protocol::Synthetic | Protocol::IcmpEcho) {
        workload::never_calibrated(check, &place.key("execution_time"), task);
    }
    super::locks::none(check, place, task);
    if task.vcpu.is_some() {
        check.error(
            &place.key("vcpu"),
            "a service is one queue, which is on one virtual CPU",
            "leave it out; it is for a domain's own tasks",
        );
    }
    if task.boost.is_some() {
        check.error(
            &place.key("boost"),
            "a service's jobs boost nothing",
            "leave it out; it is for a domain's own tasks",
        );
    }
    let here = place.key("request");
    match (&task.request, service.protocol) {
        (Some(sent), protocol) => {
            request(check, &here, protocol, sent);
            once(check, &here, sent, "a job is one request");
        }
        (None, Protocol::Synthetic | Protocol::IcmpEcho) => {}
        (None, Protocol::Redis) => check.error(
            place,
            "nothing says what is sent",
            "add `request`, such as { command = [\"GET\", \"key:1\"] }",
        ),
        (None, Protocol::Http) => check.error(
            place,
            "nothing says what is sent",
            "add `request`, such as { path = \"/\" }",
        ),
        (None, Protocol::Postgresql) => check.error(
            place,
            "nothing says what is sent",
            "add `request`, such as { query = \"SELECT 1\" }",
        ),
    }
}

/// Refuses a request that is to be sent several times, for the reason `why`.
pub(super) fn once(check: &mut Check<'_>, place: &KeyPath, sent: &Request, why: &str) {
    if sent.repeat() > 1 {
        check.error(
            &place.key("repeat"),
            why,
            "leave `repeat` out; it is for `setup`",
        );
    }
}

/// A domain and how many virtual CPUs it has.
#[derive(Clone, Copy)]
pub(super) struct TaskOwner<'a> {
    pub(super) domain: &'a Domain,
    pub(super) vcpus: usize,
    /// Whether the task has no place among the others.
    pub(super) is_soft: bool,
}

/// Checks one of a domain's own tasks.
pub(super) fn own_task(check: &mut Check<'_>, place: &KeyPath, owner: TaskOwner<'_>, task: &Task) {
    let orderer = Orderer {
        scheduling: owner.domain.scheduling,
        what: "domain",
    };
    match owner.is_soft {
        true => content(check, place, task),
        false => times(check, place, orderer, task),
    }
    if matches!(task.execution_time, ExecutionTime::Calibrated { .. }) {
        check.error(
            &place.key("execution_time"),
            "a calibration sends requests, and a domain's own task takes none",
            "use constant, uniform, exponential, lognormal or samples, or describe a service",
        );
    }
    if matches!(task.arrivals, Arrivals::Users {}) {
        check.error(
            &place.key("arrivals"),
            "a domain's own task has no users",
            "use arrivals of another kind, or describe a service with `users`",
        );
    }
    if task.request.is_some() {
        check.error(
            &place.key("request"),
            "a domain's own task is not asked by requests",
            "leave it out, or describe a service",
        );
    }
    if let Some(boost) = task.boost {
        let here = place.key("boost");
        check.above_zero(&here, "the boost", boost);
        if owner.domain.reservation.is_none() {
            check.error(
                &here,
                "there is no reservation that could be boosted",
                "reserve CPU time for the domain, or leave it out",
            );
        }
    }
    if let Some(vcpu) = task
        .vcpu
        .filter(|vcpu| *vcpu as usize >= owner.vcpus && owner.vcpus > 0)
    {
        let message = format!("there is no virtual CPU {vcpu} in this domain");
        check.error(
            &place.key("vcpu"),
            message,
            format!("they count from 0 to {}", owner.vcpus - 1),
        );
    }
}

/// Complains of what cannot be pinned, or boosted.
pub(super) fn one_queue(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    let given = [
        ("vcpu", task.vcpu.is_some()),
        ("boost", task.boost.is_some()),
    ];
    let message = |_: &str| {
        "the tasks of this domain have no virtual CPU of their own: they share one queue".into()
    };
    let remedy = "leave it out, or leave `placement` out of the domain";
    check.none_of(place, &given, message, remedy);
}

fn times(check: &mut Check<'_>, place: &KeyPath, orderer: Orderer, task: &Task) {
    content(check, place, task);
    priority(check, place, orderer, task);
    blocking(check, place, orderer, task);
}

/// Lower priorities block higher ones, so there has to be an order by priorities.
fn blocking(check: &mut Check<'_>, place: &KeyPath, orderer: Orderer, task: &Task) {
    let Orderer { scheduling, what } = orderer;
    let by_priority = match scheduling {
        Scheduling::RateMonotonic | Scheduling::DeadlineMonotonic | Scheduling::FixedPriority => {
            true
        }
        Scheduling::Fifo | Scheduling::EarliestDeadlineFirst | Scheduling::RoundRobin => false,
    };
    if !task.blocking.is_zero() && !by_priority {
        check.error(
            &place.key("blocking"),
            format!("blocking is by lower priorities, and the {what} does not serve by priorities"),
            format!(
                "leave it out, or add scheduling = \"fixed-priority\", \"rate-monotonic\" or \
                 \"deadline-monotonic\" to the {what}"
            ),
        );
    }
}

fn jitter(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    if task.jitter.is_zero() {
        return;
    }
    let here = place.key("jitter");
    if task.least_gap().is_none() {
        check.error(
            &here,
            "jitter is for arrivals with a least distance, and these have none",
            "leave it out, or make the arrivals periodic or sporadic",
        );
    }
    if let Some(deadline) = task.relative_deadline()
        && task.jitter >= deadline
    {
        let message = format!(
            "a job may become ready {} after its arrival, and its deadline is {deadline} after it",
            task.jitter
        );
        check.warning(
            &here,
            message,
            "such a job is late even on a CPU of its own; lengthen the deadline",
        );
    }
}

/// Checks what a task's jobs are, but not its place among others.
fn content(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    workload::arrivals(check, &place.key("arrivals"), &task.arrivals);
    workload::execution_time(check, &place.key("execution_time"), task);
    deadline(check, place, task);
    jitter(check, place, task);
}

fn deadline(check: &mut Check<'_>, place: &KeyPath, task: &Task) {
    let Some(deadline) = task.deadline else {
        return;
    };
    let here = place.key("deadline");
    check.above_zero(&here, "the deadline", deadline);
    if let Some(longest) = task.execution_time.longest()
        && longest > deadline
        && !deadline.is_zero()
    {
        let message = format!("a job may run for {longest}, longer than its deadline {deadline}");
        check.warning(
            &here,
            message,
            "such a job is late even on a CPU of its own; lengthen the deadline",
        );
    }
}

fn priority(check: &mut Check<'_>, place: &KeyPath, orderer: Orderer, task: &Task) {
    let Orderer { scheduling, what } = orderer;
    match (scheduling, task.priority) {
        (Scheduling::FixedPriority, None) => check.error(
            place,
            format!("the {what} serves by priority, and this task has none"),
            "add `priority`, from 1 to 90; the higher number runs first",
        ),
        (Scheduling::FixedPriority, Some(_)) | (_, None) => {}
        (_, Some(_)) => check.error(
            &place.key("priority"),
            format!("the {what} does not serve by the tasks' priorities"),
            format!("leave it out, or add scheduling = \"fixed-priority\" to the {what}"),
        ),
    }
    if scheduling == Scheduling::RateMonotonic && task.least_gap().is_none() {
        check.error(
            &place.key("arrivals"),
            "rate-monotonic scheduling goes by periods, and this task has none",
            "make it periodic or sporadic, or use another `scheduling`",
        );
    }
    let by_deadline = match scheduling {
        Scheduling::DeadlineMonotonic => "deadline-monotonic scheduling",
        Scheduling::EarliestDeadlineFirst => "earliest-deadline-first scheduling",
        Scheduling::Fifo
        | Scheduling::RateMonotonic
        | Scheduling::FixedPriority
        | Scheduling::RoundRobin => return,
    };
    if task.relative_deadline().is_none() {
        check.error(
            &place.key("arrivals"),
            format!("{by_deadline} goes by deadlines, and this task has neither one nor a period"),
            "add `deadline`, or make it periodic or sporadic: the period then stands for it",
        );
    }
}

/// Checks one request to a service that speaks `protocol`.
pub(super) fn request(
    check: &mut Check<'_>,
    place: &KeyPath,
    protocol: Protocol,
    request: &Request,
) {
    match (protocol, request) {
        (Protocol::Redis, Request::Redis { command, .. }) => redis(check, place, command),
        (Protocol::Http, Request::Http { path }) => http(check, place, path),
        (Protocol::Postgresql, Request::Postgresql { query, .. }) => sql(check, place, query),
        (Protocol::Redis, _) => check.error(
            place,
            "this is no Redis request",
            "write { command = [\"GET\", \"key:1\"] }",
        ),
        (Protocol::Http, _) => {
            check.error(place, "this is no HTTP request", "write { path = \"/\" }")
        }
        (Protocol::Postgresql, _) => {
            check.error(place, "this is no query", "write { query = \"SELECT 1\" }")
        }
        (Protocol::Synthetic, _) => check.error(
            place,
            "the synthetic service takes no request",
            "leave it out; `execution_time` says what a job does",
        ),
        (Protocol::IcmpEcho, _) => check.error(
            place,
            "the kernel answers echo requests whatever is in them",
            "leave it out; `message_size` says how long they are",
        ),
    }
}

fn redis(check: &mut Check<'_>, place: &KeyPath, command: &[String]) {
    let here = place.key("command");
    if command.first().is_none_or(String::is_empty) {
        check.error(
            &here,
            "the command is empty",
            "write the command and its arguments, such as [\"GET\", \"key:1\"]",
        );
    }
    for (index, word) in command.iter().enumerate() {
        busy_times(check, &here.index(index), word);
    }
}

/// Checks every `{busy:...}` of a text.
fn busy_times(check: &mut Check<'_>, here: &KeyPath, text: &str) {
    for (at, open) in text.match_indices("{busy:") {
        let rest = &text[at + open.len()..];
        let length = rest
            .split_once('}')
            .map(|(length, _)| length.parse::<Duration>());
        match length {
            Some(Ok(length)) => check.above_zero(here, "the busy time", length),
            Some(Err(error)) => {
                let error = error.to_string();
                let (message, remedy) = error.split_once("; ").unwrap_or((&error, ""));
                check.error(here, format!("in {{busy:...}}: {message}"), remedy);
            }
            None => check.error(here, "{busy: is not closed", "write {busy:2ms}"),
        }
    }
}

fn sql(check: &mut Check<'_>, place: &KeyPath, query: &str) {
    let here = place.key("query");
    if query.trim().is_empty() || query.contains('\0') {
        check.error(
            &here,
            "the query is empty, or has a zero byte",
            "write SQL, such as \"SELECT 1\"",
        );
    }
    busy_times(check, &here, query);
}

fn http(check: &mut Check<'_>, place: &KeyPath, path: &str) {
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    if !path.starts_with('/') || !plain {
        let message = format!("{path:?} is no path of a request");
        check.error(
            &place.key("path"),
            message,
            "begin it with /, and write spaces and the like as %20",
        );
    }
}
