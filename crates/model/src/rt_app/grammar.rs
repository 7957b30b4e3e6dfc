//! What rt-app's workloads say: threads, their properties, and what they do.
//!
//! The grammar is the one of rt-app's tutorial (doc/tutorial.txt): `global`, `tasks`, in a task
//! its properties and events or `phases` of them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::json::{Json, JsonEntry, JsonValue};
use super::log::Log;
use super::timeline::ThreadStep;

/// A scheduling policy of rt-app's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadPolicy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO, or SCHED_RR, which differs from it only among equal priorities.
    Fixed,
    /// SCHED_DEADLINE.
    Deadline,
}

/// A thread as a workload describes it; times in microseconds.
#[derive(Clone, Debug)]
pub(super) struct WorkloadThread {
    /// Its name.
    pub name: String,
    /// The bytes of its name.
    pub span: Range<usize>,
    /// How many there are.
    pub instances: u64,
    /// How long it waits before it starts.
    pub delay_us: u64,
    /// Its policy, if it names one.
    pub policy: Option<ThreadPolicy>,
    /// Its priority under a fixed-priority policy.
    pub priority: Option<u64>,
    /// Its CPUs; all if empty.
    pub cpus: BTreeSet<u32>,
    /// SCHED_DEADLINE's budget.
    pub dl_runtime_us: Option<u64>,
    /// SCHED_DEADLINE's period.
    pub dl_period_us: Option<u64>,
    /// SCHED_DEADLINE's relative deadline.
    pub dl_deadline_us: Option<u64>,
    /// What it does, again and again.
    pub steps: Vec<ThreadStep>,
}

/// The properties of the whole workload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Global {
    /// How long it runs, if it ends.
    pub duration_s: Option<u64>,
    /// The policy of threads that name none.
    pub policy: Option<ThreadPolicy>,
}

/// How many steps phases and their loops may make; the jobs of one cycle come from them.
const MOST_STEPS: usize = 10_000;

/// Names of CPUs of the kernel's end here.
const LAST_CPU: u64 = 8191;

/// Properties of the workload that are about rt-app itself.
const ABOUT_RT_APP: [&str; 11] = [
    "calibration",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

/// Properties of threads and phases that a description does not have.
const NO_COUNTERPART: [&str; 5] = [
    "util_min",
    "util_max",
    "membind_nodes",
    "nodes_membind",
    "taskgroup",
];

/// Events that make a thread wait for another; without them it would run at other times.
const WAITS_FOR_OTHERS: [&str; 4] = ["wait", "sync", "barrier", "suspend"];

/// Events that take no time to speak of, or time that only the real run has.
const LEFT_OUT: [&str; 9] = [
    "lock", "unlock", "signal", "broad", "resume", "yield", "mem", "iorun", "fork",
];

/// The `global` object.
pub(super) fn global(object: &Json, log: &mut Log<'_>) -> Global {
    let mut global = Global::default();
    for entry in entries(object, "global", log) {
        let place = format!("global.{}", entry.key);
        match entry.key.as_str() {
            "duration" => match &entry.value.value {
                JsonValue::Integer(-1) => log.note(
                    &entry.value.span,
                    place,
                    "rt-app would run for ever; the experiment has an end",
                    "change experiment.duration if 10s do not suit",
                ),
                _ => global.duration_s = whole(&entry.value, &place, 1, 100_000_000, log),
            },
            "default_policy" => global.policy = policy(&entry.value, &place, log),
            key if ABOUT_RT_APP.contains(&key) => log.note(
                &entry.key_span,
                place,
                "left out: it is about rt-app itself",
                "nothing need be done",
            ),
            _ => unknown(entry, place, log),
        }
    }
    global
}

/// A thread: an entry of `tasks`.
pub(super) fn thread(entry: &JsonEntry, log: &mut Log<'_>) -> Option<WorkloadThread> {
    let place = format!("tasks.{}", entry.key);
    let errors_before = log.errors();
    let mut thread = WorkloadThread {
        name: entry.key.clone(),
        span: entry.key_span.clone(),
        instances: 1,
        delay_us: 0,
        policy: None,
        priority: None,
        cpus: BTreeSet::new(),
        dl_runtime_us: None,
        dl_period_us: None,
        dl_deadline_us: None,
        steps: Vec::new(),
    };
    let content = entries(&entry.value, &place, log);
    let phases = content.iter().find(|entry| entry.key == "phases");
    let mut own_steps = Vec::new();
    for property in content {
        let here = format!("{place}.{}", property.key);
        if property.key == "phases" || thread_property(&mut thread, property, &here, log) {
            continue;
        }
        event(property, &here, &mut own_steps, log);
    }
    match phases {
        None => thread.steps = own_steps,
        Some(phases) => {
            if !own_steps.is_empty() {
                log.warn(
                    &phases.key_span,
                    place.clone(),
                    "the task has phases and events of its own; only the phases are taken",
                    "put the events into a phase",
                );
            }
            thread.steps = self::phases(phases, &format!("{place}.phases"), log);
        }
    }
    (log.errors() == errors_before).then_some(thread)
}

/// Takes a property of a thread; `false` if it is none.
fn thread_property(
    thread: &mut WorkloadThread,
    entry: &JsonEntry,
    place: &str,
    log: &mut Log<'_>,
) -> bool {
    let value = &entry.value;
    match entry.key.as_str() {
        "instance" => thread.instances = whole(value, place, 0, 256, log).unwrap_or(1),
        "delay" => thread.delay_us = microseconds(value, place, log).unwrap_or(0),
        "policy" => thread.policy = policy(value, place, log),
        "priority" => thread.priority = whole(value, place, 0, 99, log),
        "cpus" => thread.cpus = cpus(value, place, log),
        "dl-runtime" => thread.dl_runtime_us = microseconds(value, place, log),
        "dl-period" => thread.dl_period_us = microseconds(value, place, log),
        "dl-deadline" => thread.dl_deadline_us = microseconds(value, place, log),
        "loop" => {
            if let Some(count @ 0..) = count(value, place, log) {
                log.note(
                    &value.span,
                    place,
                    format!(
                        "rt-app would do this {count} times; here it goes on \
for the whole experiment"
                    ),
                    "nothing need be done",
                );
            }
        }
        key if NO_COUNTERPART.contains(&key) => no_counterpart(entry, place, log),
        _ => return false,
    }
    true
}

fn no_counterpart(entry: &JsonEntry, place: &str, log: &mut Log<'_>) {
    log.warn(
        &entry.key_span,
        place,
        "left out: a description has nothing of the kind",
        "look whether the workload needs it",
    );
}

/// The steps of all phases in a row.
fn phases(phases: &JsonEntry, place: &str, log: &mut Log<'_>) -> Vec<ThreadStep> {
    let mut steps = Vec::new();
    for phase in entries(&phases.value, place, log) {
        let place = format!("{place}.{}", phase.key);
        let mut own = Vec::new();
        let mut times = Some(1);
        for entry in entries(&phase.value, &place, log) {
            let here = format!("{place}.{}", entry.key);
            match entry.key.as_str() {
                "loop" => times = count(&entry.value, &here, log),
                "policy" | "priority" | "cpus" | "dl-runtime" | "dl-period" | "dl-deadline" => log
                    .warn(
                        &entry.key_span,
                        here,
                        "left out: a thread here does not change from phase to phase",
                        "give it to the task",
                    ),
                key if NO_COUNTERPART.contains(&key) => no_counterpart(entry, &here, log),
                _ => event(entry, &here, &mut own, log),
            }
        }
        let Some(times) = times else { continue };
        let Ok(times) = usize::try_from(times) else {
            log.warn(
                &phase.key_span,
                place,
                "the phase is done for ever, so it is all that is taken",
                "take the other phases out, or give it a `loop`",
            );
            return own;
        };
        if own.len().saturating_mul(times).saturating_add(steps.len()) > MOST_STEPS {
            log.error(
                &phase.key_span,
                place,
                format!("the phases have more than {MOST_STEPS} events"),
                "give them shorter loops",
            );
            return Vec::new();
        }
        steps.extend(std::iter::repeat_n(own, times).flatten());
    }
    steps
}

/// What `key` is an event of: rt-app numbers events of one sort, as in `run0`.
fn sort_of(key: &str) -> &str {
    key.trim_end_matches(|c: char| c.is_ascii_digit() || "-_ ".contains(c))
}

/// Takes an event, or says why not.
fn event(entry: &JsonEntry, place: &str, steps: &mut Vec<ThreadStep>, log: &mut Log<'_>) {
    let value = &entry.value;
    match sort_of(&entry.key) {
        "run" => steps.extend(microseconds(value, place, log).map(ThreadStep::Run)),
        "runtime" => {
            log.note(
                &entry.key_span,
                place,
                "taken as CPU time; rt-app ends it by the clock, whether it had the CPU or not",
                "nothing need be done",
            );
            steps.extend(microseconds(value, place, log).map(ThreadStep::Run));
        }
        "sleep" => {
            log.note(
                &entry.key_span,
                place,
                "a sleep counts from where it begins, so delays add up \
in rt-app; here releases keep their distance",
                "use a timer if that is what you want",
            );
            steps.extend(microseconds(value, place, log).map(ThreadStep::Sleep));
        }
        "timer" => steps.extend(timer(value, place, log)),
        waits if WAITS_FOR_OTHERS.contains(&waits) => log.error(
            &entry.key_span,
            place,
            "the thread waits for another, which a description cannot say",
            "give it a timer of its own",
        ),
        left_out if LEFT_OUT.contains(&left_out) => log.warn(
            &entry.key_span,
            place,
            "left out: a description has nothing of the kind",
            "look whether the workload needs it",
        ),
        _ => unknown(entry, place.to_owned(), log),
    }
}

fn timer(value: &Json, place: &str, log: &mut Log<'_>) -> Option<ThreadStep> {
    let mut name = None;
    let mut period_us = None;
    for entry in entries(value, place, log) {
        let here = format!("{place}.{}", entry.key);
        match entry.key.as_str() {
            "ref" => name = text(&entry.value, &here, log),
            "period" => period_us = Some(microseconds(&entry.value, &here, log)?),
            "mode" => match text(&entry.value, &here, log).as_deref() {
                Some("absolute") | None => {}
                Some("relative") => log.note(
                    &entry.value.span,
                    here,
                    "a relative timer starts anew after a late run; here releases keep to the grid",
                    "nothing need be done",
                ),
                Some(_) => log.error(
                    &entry.value.span,
                    here,
                    "unknown mode",
                    "one of: relative, absolute",
                ),
            },
            _ => unknown(entry, here, log),
        }
    }
    let Some(period_us) = period_us else {
        log.error(
            &value.span,
            place,
            "the timer has no period",
            "write { \"ref\" : \"unique\", \"period\" : 10000 }",
        );
        return None;
    };
    let name = name.unwrap_or_else(|| "unique".to_owned());
    if !name.starts_with("unique") {
        log.note(
            &value.span,
            place,
            format!(
                "threads that use the timer `{name}` share it in rt-app; here each has its own"
            ),
            "nothing need be done if only one uses it",
        );
    }
    Some(ThreadStep::Timer { name, period_us })
}

fn entries<'j>(json: &'j Json, place: &str, log: &mut Log<'_>) -> &'j [JsonEntry] {
    match &json.value {
        JsonValue::Object(entries) => entries,
        other => {
            log.error(
                &json.span,
                place,
                format!("expected an object, found {}", other.in_words()),
                "write { ... }",
            );
            &[]
        }
    }
}

/// Warns of a key that is not rt-app's.
pub(super) fn unknown(entry: &JsonEntry, place: String, log: &mut Log<'_>) {
    log.warn(
        &entry.key_span,
        place,
        "unknown to rt-app's grammar; left out",
        "look whether it is misspelt",
    );
}

fn text(json: &Json, place: &str, log: &mut Log<'_>) -> Option<String> {
    match &json.value {
        JsonValue::Text(text) => Some(text.clone()),
        other => {
            log.error(
                &json.span,
                place,
                format!("expected a string, found {}", other.in_words()),
                "write it in quotes",
            );
            None
        }
    }
}

fn whole(json: &Json, place: &str, least: u64, most: u64, log: &mut Log<'_>) -> Option<u64> {
    let number = match &json.value {
        JsonValue::Integer(number) => u64::try_from(*number)
            .ok()
            .filter(|n| (least..=most).contains(n)),
        _ => None,
    };
    if number.is_none() {
        let message = format!(
            "expected a whole number from {least} to {most}, found {}",
            json.value.in_words()
        );
        log.error(
            &json.span,
            place,
            message,
            "write such a number, without quotes",
        );
    }
    number
}

/// A time in microseconds, up to some 30 years.
fn microseconds(json: &Json, place: &str, log: &mut Log<'_>) -> Option<u64> {
    whole(json, place, 0, 1 << 50, log)
}

/// The count of a loop; negative for one without end.
fn count(json: &Json, place: &str, log: &mut Log<'_>) -> Option<i64> {
    match &json.value {
        JsonValue::Integer(count) => Some(*count),
        other => {
            log.error(
                &json.span,
                place,
                format!("expected a count, found {}", other.in_words()),
                "write a whole number; -1 goes on for ever",
            );
            None
        }
    }
}

fn policy(json: &Json, place: &str, log: &mut Log<'_>) -> Option<ThreadPolicy> {
    match text(json, place, log)?.as_str() {
        "SCHED_OTHER" => Some(ThreadPolicy::Other),
        "SCHED_IDLE" => Some(ThreadPolicy::Idle),
        "SCHED_FIFO" => Some(ThreadPolicy::Fixed),
        "SCHED_RR" => {
            log.note(
                &json.span,
                place,
                "taken as SCHED_FIFO; the two differ only among equal priorities",
                "nothing need be done",
            );
            Some(ThreadPolicy::Fixed)
        }
        "SCHED_DEADLINE" => Some(ThreadPolicy::Deadline),
        _ => {
            log.error(
                &json.span,
                place,
                "unknown policy",
                "one of: SCHED_OTHER, SCHED_IDLE, SCHED_RR, SCHED_FIFO, SCHED_DEADLINE",
            );
            None
        }
    }
}

fn cpus(json: &Json, place: &str, log: &mut Log<'_>) -> BTreeSet<u32> {
    match &json.value {
        JsonValue::Array(elements) => elements
            .iter()
            .filter_map(|element| whole(element, place, 0, LAST_CPU, log))
            .filter_map(|cpu| u32::try_from(cpu).ok())
            .collect(),
        other => {
            log.error(
                &json.span,
                place,
                format!("expected an array, found {}", other.in_words()),
                "write it in brackets: [0, 1]",
            );
            BTreeSet::new()
        }
    }
}
