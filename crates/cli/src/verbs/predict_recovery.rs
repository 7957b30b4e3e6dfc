//! `tailbound predict recovery`: bounds of a ZooKeeper ensemble's recovery against measured ones.

mod breakdown;
mod judgement;

use std::collections::BTreeSet;

use serde::Serialize;
use tailbound_time::Duration;

use crate::arguments::RecoveryArguments;
use crate::failure::Failure;
use crate::output::Output;
use breakdown::Breakdown;
use judgement::{Case, judge};

/// A row of the answer: one phase of the recoveries of one kind.
#[derive(Serialize)]
struct Row {
    variant: String,
    cause: String,
    servers: u32,
    phase: &'static str,
    /// Nothing if there was nothing to predict it from.
    predicted_ns: Option<u64>,
    measured_max_ns: u64,
    recoveries: usize,
    holds: Option<bool>,
}

/// The answer, as JSON spells it.
#[derive(Serialize)]
struct Answer {
    phases: Vec<Row>,
    methods: BTreeSet<String>,
    assumptions: BTreeSet<String>,
}

/// Reads a breakdown and tells for each phase the predicted bound and the measured maximum.
pub fn carry_out(arguments: &RecoveryArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let breakdown = Breakdown::read(&arguments.breakdown)?;
    let mut answer = Answer {
        phases: Vec::new(),
        methods: BTreeSet::new(),
        assumptions: BTreeSet::new(),
    };
    for case in breakdown.cases() {
        let judged = judge(&breakdown, &case, arguments.margin)?;
        answer.methods.insert(judged.method);
        answer.assumptions.extend(judged.assumptions);
        answer
            .phases
            .extend(judged.phases.into_iter().map(|phase| row(&case, phase)));
    }
    answer
        .methods
        .iter()
        .for_each(|method| output.note(format!("predicted by: {method}")));
    print(&answer, output)?;
    let broken = answer
        .phases
        .iter()
        .filter(|row| row.holds == Some(false))
        .count();
    if broken > 0 {
        return Err(Failure::Verdict(format!(
            "{broken} of {} bounds were exceeded",
            answer.phases.len()
        )));
    }
    Ok(())
}

fn row(case: &Case, phase: judgement::Phase) -> Row {
    Row {
        variant: case.variant.clone(),
        cause: case.cause.clone(),
        servers: case.servers,
        phase: phase.name,
        predicted_ns: phase.predicted.map(Duration::as_nanos),
        measured_max_ns: phase.measured.as_nanos(),
        recoveries: phase.recoveries,
        holds: phase.predicted.map(|bound| phase.measured <= bound),
    }
}

fn print(answer: &Answer, output: &Output) -> Result<(), Failure> {
    const HEADER: [&str; 8] = [
        "variant",
        "cause",
        "servers",
        "phase",
        "predicted_ns",
        "measured_max_ns",
        "recoveries",
        "holds",
    ];
    let cells = |row: &Row, time: &dyn Fn(u64) -> String| {
        let holds = row
            .holds
            .map_or("-", |holds| if holds { "yes" } else { "no" });
        vec![
            row.variant.clone(),
            row.cause.clone(),
            row.servers.to_string(),
            row.phase.to_owned(),
            row.predicted_ns.map_or_else(|| "-".to_owned(), time),
            time(row.measured_max_ns),
            row.recoveries.to_string(),
            holds.to_owned(),
        ]
    };
    let told = |ns: u64| format!("{:.3} ms", Duration::from_nanos(ns).as_millis_f64());
    let for_people: Vec<_> = answer.phases.iter().map(|row| cells(row, &told)).collect();
    let rows: Vec<_> = answer
        .phases
        .iter()
        .map(|row| cells(row, &|ns| ns.to_string()))
        .collect();
    let header = [
        "variant",
        "cause",
        "servers",
        "phase",
        "predicted",
        "measured max",
        "recoveries",
        "holds",
    ];
    let table = || format!("{}\n", crate::output::table(&header, &for_people));
    output.rows_with(table, &HEADER, &rows, answer)
}
