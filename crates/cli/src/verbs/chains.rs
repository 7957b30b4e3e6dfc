//! Verdicts on chains, as `analyze` tells them.

use tailbound_analysis::chains::{ChainPart, PartKind};
use tailbound_assessment::chains::ChainVerdict;
use tailbound_time::Duration;

use super::analyze_file::{CsvRow, verdict_cell, verdict_word};
use crate::output::table;

const HEADER: [&str; 7] = [
    "mode",
    "chain",
    "data age and reaction time",
    "by periods alone",
    "data age allowed",
    "reaction time allowed",
    "kept",
];

const PARTS: [&str; 4] = ["chain", "where", "part", "time"];

/// The table of verdicts, and that of the parts of each bound, for people; nothing without chains.
pub fn tables_of(all: &[ChainVerdict]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all.iter().map(cells).collect();
    let parts: Vec<Vec<String>> = all.iter().flat_map(part_rows).collect();
    let parts = match parts.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", table(&PARTS, &parts)),
    };
    format!("\n{}\n{parts}", table(&HEADER, &rows))
}

fn cells(one: &ChainVerdict) -> Vec<String> {
    let text = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
    let answer = one.answer.as_ref();
    let bounds = match (&one.displaced, one.reaction_bound()) {
        (None, _) => text(answer.map(|answer| answer.bound)),
        (Some(_), reaction) => format!(
            "{} and {}",
            text(answer.map(|answer| answer.bound)),
            reaction.map_or("unbounded".into(), |bound| bound.to_string())
        ),
    };
    vec![
        one.mode.clone().unwrap_or_else(|| "-".into()),
        one.chain.clone(),
        bounds,
        text(answer.map(|answer| answer.baseline)),
        text(one.data_age),
        text(one.reaction_time),
        verdict_cell(one.verdict, one.why.as_deref()),
    ]
}

fn part_rows(one: &ChainVerdict) -> Vec<Vec<String>> {
    let parts = one.answer.iter().flat_map(|answer| &answer.parts);
    let row = |part: &ChainPart| {
        vec![
            one.chain.clone(),
            part.at.clone(),
            part_name(part.kind).into(),
            part.length.to_string(),
        ]
    };
    parts.map(row).collect()
}

fn part_name(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Wait => "waits for the next job",
        PartKind::Response => "response time",
        PartKind::Transport => "transport",
    }
}

/// The methods of the bounds of a chain; `None` without a bound.
pub fn methods(one: &ChainVerdict) -> Option<String> {
    let displaced = one.displaced.as_ref();
    let of_reaction = displaced.and_then(|displaced| displaced.method);
    let mut methods = one.answer.as_ref()?.methods.clone();
    methods.extend(of_reaction);
    Some(methods.join("; "))
}

/// A row of the CSV that tasks and CPUs are in, too. The deadline is the shorter one of the two.
pub fn csv_row(one: &ChainVerdict) -> CsvRow {
    let deadlines = [one.data_age, one.reaction_time];
    CsvRow {
        mode: one.mode.clone().unwrap_or_default(),
        kind: "chain",
        name: one.chain.clone(),
        deadline: deadlines.into_iter().flatten().min(),
        response_bound: one.answer.as_ref().map(|answer| answer.bound),
        verdict: verdict_word(one.verdict),
        why: one.why.clone().unwrap_or_default(),
        method: methods(one).unwrap_or_default(),
        ..CsvRow::default()
    }
}
