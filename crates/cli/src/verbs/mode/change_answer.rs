//! The outcome of a change of modes, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_modes::change_phases::{ChangePhase, change_phases, since};
use tailbound_modes::manager::Report;
use tailbound_modes::transition::{Cause, Ending, Settled, Timeline};
use tailbound_time::Duration;

use crate::output::table;

/// The columns of [`rows`].
pub const HEADER: [&str; 6] = ["course", "domain", "step", "after", "took", "remark"];

/// A row per phase of the change, and of what took it back.
pub fn rows(report: &Report) -> Vec<Vec<String>> {
    let course = |report: &Report, name: &str| -> Vec<Vec<String>> {
        let with_name = |row: Vec<String>| [vec![name.to_owned()], row].concat();
        phase_rows(report).into_iter().map(with_name).collect()
    };
    let mut rows = course(report, "change");
    if let Some(back) = &report.rolled_back {
        rows.extend(course(back, "back"));
    }
    rows
}

fn phase_rows(report: &Report) -> Vec<Vec<String>> {
    let rows = change_phases(report).into_iter().map(|phase| {
        vec![
            phase.domain,
            phase.kind.word().to_owned(),
            phase.after.to_string(),
            phase
                .took
                .map_or_else(|| "-".into(), |took| took.to_string()),
            phase.remark,
        ]
    });
    rows.collect()
}

/// The whole answer for people.
pub fn text(report: &Report) -> String {
    let mut text = summary(report) + "\n";
    let rows = phase_rows(report);
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
pub struct ChangeAnswer<'a> {
    from: &'a str,
    to: &'a str,
    ending: &'static str,
    is_there: bool,
    causes: Vec<CauseAnswer<'a>>,
    latency_ns: Option<u64>,
    /// From the request to the instant at which the last reservation is in force.
    in_force_after_ns: Option<u64>,
    domains: &'a BTreeMap<String, Settled>,
    parts: Vec<ChangePhase>,
    timeline: &'a Timeline,
    rolled_back: Option<Box<ChangeAnswer<'a>>>,
}

#[derive(Serialize)]
struct CauseAnswer<'a> {
    #[serde(flatten)]
    cause: &'a Cause,
    message: String,
}

/// The change as JSON.
pub fn for_programs(report: &Report) -> ChangeAnswer<'_> {
    let timeline = &report.timeline;
    let (ending, causes): (_, Vec<&Cause>) = match &report.outcome.ending {
        Ending::Completed => ("completed", Vec::new()),
        Ending::Partly(causes) => ("partly", causes.values().collect()),
        Ending::GivenUp(cause) => ("given-up", vec![cause]),
    };
    let causes = causes.into_iter().map(|cause| CauseAnswer {
        cause,
        message: cause.to_string(),
    });
    let in_force_at = timeline.in_force_at();
    ChangeAnswer {
        from: &report.from,
        to: &report.to,
        ending,
        is_there: report.is_there(),
        causes: causes.collect(),
        latency_ns: timeline.latency().map(Duration::as_nanos),
        in_force_after_ns: in_force_at.map(|at| since(timeline, at).as_nanos()),
        domains: &report.outcome.domains,
        parts: change_phases(report),
        timeline,
        rolled_back: report
            .rolled_back
            .as_deref()
            .map(for_programs)
            .map(Box::new),
    }
}

#[cfg(test)]
pub mod example;
#[cfg(test)]
mod tests;
