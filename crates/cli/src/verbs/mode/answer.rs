//! What came of a change of modes, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_modes::manager::Report;
use tailbound_modes::parts::{What, parts, since};
use tailbound_modes::transition::{Cause, Ending, Settled, Step, StepKind, Timeline};
use tailbound_time::{Duration, Instant};

use crate::output::table;

/// The columns of [`rows`].
pub const HEADER: [&str; 6] = ["course", "domain", "step", "after", "took", "remark"];

/// A row per part of the change, and of what took it back.
pub fn rows(report: &Report) -> Vec<Vec<String>> {
    let course = |report: &Report, name: &str| -> Vec<Vec<String>> {
        let with_name = |row: Vec<String>| [vec![name.to_owned()], row].concat();
        part_rows(report).into_iter().map(with_name).collect()
    };
    let mut rows = course(report, "change");
    if let Some(back) = &report.rolled_back {
        rows.extend(course(back, "back"));
    }
    rows
}

fn part_rows(report: &Report) -> Vec<Vec<String>> {
    let rows = parts(report).into_iter().map(|part| {
        vec![
            part.domain,
            part.what.word().to_owned(),
            since(&report.timeline, part.begins_at).to_string(),
            part.took
                .map_or_else(|| "-".into(), |took| took.to_string()),
            part.remark,
        ]
    });
    rows.collect()
}

/// The whole answer for people.
pub fn text(report: &Report) -> String {
    let mut text = summary(report) + "\n";
    let rows = part_rows(report);
    if rows.is_empty() {
        text.push_str("nothing had to change\n");
    } else {
        text.push_str(&table(&HEADER[1..], &rows));
        text.push('\n');
    }
    if let Some(back) = &report.rolled_back {
        text.push_str("\ntaken back, ");
        text.push_str(&self::text(back));
    }
    text
}

/// How a change ended, in words.
pub fn ending(report: &Report) -> String {
    match &report.outcome.ending {
        Ending::Completed => "completed".to_owned(),
        Ending::Partly(causes) => {
            let causes: Vec<String> = causes.values().map(ToString::to_string).collect();
            format!("there, but not in every domain: {}", causes.join("; "))
        }
        Ending::GivenUp(cause) => format!("given up: {cause}"),
    }
}

/// The change in a few words: from, to, how it ended, how long it took.
pub fn summary(report: &Report) -> String {
    let ending = ending(report);
    let mut text = format!("{} -> {}: {ending}", report.from, report.to);
    if let Some(latency) = report.timeline.latency() {
        text.push_str(&format!("\ntook {latency}"));
    }
    if let Some(at) = report.timeline.in_force_at() {
        let after = since(&report.timeline, at);
        text.push_str(&format!(
            "; the last reservation is in force {after} after the request"
        ));
    }
    text
}

/// The change as JSON. Instants are in nanoseconds of CLOCK_MONOTONIC.
#[derive(Serialize)]
pub struct Told {
    from: String,
    to: String,
    ending: &'static str,
    is_there: bool,
    causes: Vec<ToldCause>,
    latency_ns: Option<u64>,
    /// From the request to the instant at which the last reservation is in force.
    in_force_after_ns: Option<u64>,
    domains: BTreeMap<String, Settled>,
    parts: Vec<ToldPart>,
    timeline: ToldTimeline,
    rolled_back: Option<Box<Told>>,
}

#[derive(Serialize)]
struct ToldCause {
    cause: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ns: Option<u64>,
}

#[derive(Serialize)]
struct ToldPart {
    domain: String,
    part: What,
    after_ns: u64,
    took_ns: Option<u64>,
    remark: String,
}

#[derive(Serialize)]
struct ToldTimeline {
    began_at_ns: Option<u64>,
    ended_at_ns: Option<u64>,
    steps: Vec<ToldStep>,
}

#[derive(Default, Serialize)]
struct ToldStep {
    at_ns: u64,
    domain: String,
    step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switched_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_back: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ns: Option<u64>,
}

/// The change as JSON.
pub fn told(report: &Report) -> Told {
    let timeline = &report.timeline;
    let (ending, causes) = match &report.outcome.ending {
        Ending::Completed => ("completed", Vec::new()),
        Ending::Partly(causes) => ("partly", causes.values().map(told_cause).collect()),
        Ending::GivenUp(cause) => ("given-up", vec![told_cause(cause)]),
    };
    let parts = parts(report).into_iter().map(|part| ToldPart {
        part: part.what,
        after_ns: since(timeline, part.begins_at).as_nanos(),
        took_ns: part.took.map(Duration::as_nanos),
        domain: part.domain,
        remark: part.remark,
    });
    Told {
        from: report.from.clone(),
        to: report.to.clone(),
        ending,
        is_there: report.is_there(),
        causes,
        latency_ns: timeline.latency().map(Duration::as_nanos),
        in_force_after_ns: timeline
            .in_force_at()
            .map(|at| since(timeline, at).as_nanos()),
        domains: report.outcome.domains.clone(),
        parts: parts.collect(),
        timeline: told_timeline(timeline),
        rolled_back: report.rolled_back.as_deref().map(told).map(Box::new),
    }
}

fn told_cause(cause: &Cause) -> ToldCause {
    let (name, domain, waited) = match cause {
        Cause::Refused { domain, .. } => ("refused", Some(domain), None),
        Cause::Failed { domain, .. } => ("failed", Some(domain), None),
        Cause::NoAnswer { domain, waited } => ("no-answer", Some(domain), Some(*waited)),
        Cause::NoAgent { domain } => ("no-agent", Some(domain), None),
        Cause::Overload(_) => ("overload", None, None),
        Cause::Preempted => ("preempted", None, None),
    };
    ToldCause {
        cause: name,
        domain: domain.cloned(),
        message: cause.to_string(),
        waited_ns: waited.map(Duration::as_nanos),
    }
}

fn told_timeline(timeline: &Timeline) -> ToldTimeline {
    ToldTimeline {
        began_at_ns: timeline.began_at.map(Instant::as_nanos),
        ended_at_ns: timeline.ended_at.map(Instant::as_nanos),
        steps: timeline.steps.iter().map(told_step).collect(),
    }
}

fn told_step(step: &Step) -> ToldStep {
    let mut told = ToldStep {
        at_ns: step.at.as_nanos(),
        domain: step.domain.clone(),
        ..ToldStep::default()
    };
    told.step = match &step.kind {
        StepKind::InterfaceAsked => "interface-asked",
        StepKind::InterfaceAccepted { in_force_at } => {
            told.in_force_at_ns = Some(in_force_at.as_nanos());
            "interface-accepted"
        }
        StepKind::InterfaceRefused { reason } => {
            told.reason = Some(reason.clone());
            "interface-refused"
        }
        StepKind::Sent => "sent",
        StepKind::Boosted => "boosted",
        StepKind::Unboosted => "unboosted",
        StepKind::Acknowledged {
            received_at,
            switched_at,
        } => {
            told.received_at_ns = Some(received_at.as_nanos());
            told.switched_at_ns = Some(switched_at.as_nanos());
            "acknowledged"
        }
        StepKind::Failed {
            reason,
            rolled_back,
        } => {
            told.reason = Some(reason.clone());
            told.rolled_back = Some(*rolled_back);
            "failed"
        }
        StepKind::TimedOut => "timed-out",
        StepKind::Settled => "settled",
        StepKind::Contradicted { task, used, within } => {
            told.task = Some(task.clone());
            told.used_ns = Some(used.as_nanos());
            told.within_ns = Some(within.as_nanos());
            "contradicted"
        }
    };
    told
}

#[cfg(test)]
pub mod example;
#[cfg(test)]
mod tests;
