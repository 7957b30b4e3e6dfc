//! `tailbound predict recovery`: bounds of a ZooKeeper ensemble's recovery against measured ones.

mod breakdown;
mod busy_host;
mod judgement;

use std::collections::BTreeSet;

use serde::Serialize;
use tailbound_time::Duration;

use crate::arguments::RecoveryArguments;
use crate::failure::Failure;
use crate::output::Output;
use breakdown::Breakdown;
use busy_host::BusyHost;
use judgement::{Case, judge};

/// A row of the answer: one phase of the recoveries of one kind.
#[derive(Serialize)]
struct Row {
    variant: String,
    cause: String,
    servers: u32,
    phase: &'static str,
    /// What is predicted where all threads of the servers have CPUs, if the host in question is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone_ns: Option<u64>,
    /// Nothing if there was nothing to predict it from.
    predicted_ns: Option<u64>,
    /// `bound` or `estimate`, if the host in question is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
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
    let busy = BusyHost::of_arguments(&arguments.busy)?;
    for case in breakdown.cases() {
        let judged = judge(&breakdown, &case, arguments.margin, busy.as_ref())?;
        if let (true, Some(_)) = (judged.phases.is_empty(), &arguments.busy.against) {
            output.note(format!(
                "no recovery was measured beside others for {}, {} servers, cause {}",
                case.variant, case.servers, case.cause
            ));
        }
        answer.methods.insert(judged.method);
        answer.assumptions.extend(judged.assumptions);
        let rows = judged
            .phases
            .into_iter()
            .map(|phase| row(&case, phase, judged.comparable, busy.as_ref()));
        answer.phases.extend(rows);
    }
    answer
        .methods
        .iter()
        .for_each(|method| output.note(format!("predicted by: {method}")));
    print(&answer, busy.is_some(), output)?;
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

fn row(case: &Case, phase: judgement::Phase, comparable: bool, busy: Option<&BusyHost>) -> Row {
    let kind = |busy: &BusyHost| match busy.share.is_bound() {
        true => "bound",
        false => "estimate",
    };
    let judged = phase.predicted.filter(|_| comparable);
    Row {
        variant: case.variant.clone(),
        cause: case.cause.clone(),
        servers: case.servers,
        phase: phase.name,
        alone_ns: busy.and(phase.alone).map(Duration::as_nanos),
        predicted_ns: phase.predicted.map(Duration::as_nanos),
        kind: busy.map(kind),
        measured_max_ns: phase.measured.as_nanos(),
        recoveries: phase.recoveries,
        holds: judged.map(|bound| phase.measured <= bound),
    }
}

/// The columns by their names in CSV, with those that only a busy host has.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("variant", "variant", false),
    ("cause", "cause", false),
    ("servers", "servers", false),
    ("phase", "phase", false),
    ("alone_ns", "alone", true),
    ("predicted_ns", "predicted", false),
    ("kind", "kind", true),
    ("measured_max_ns", "measured max", false),
    ("recoveries", "recoveries", false),
    ("holds", "holds", false),
];

impl Row {
    /// The cells of all columns, with times as `time` writes them.
    fn cells(&self, time: &dyn Fn(u64) -> String) -> [String; COLUMNS.len()] {
        let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        let holds = self.holds.map(|holds| if holds { "yes" } else { "no" });
        [
            self.variant.clone(),
            self.cause.clone(),
            self.servers.to_string(),
            self.phase.to_owned(),
            or_none(self.alone_ns.map(time)),
            or_none(self.predicted_ns.map(time)),
            or_none(self.kind.map(str::to_owned)),
            time(self.measured_max_ns),
            self.recoveries.to_string(),
            or_none(holds.map(str::to_owned)),
        ]
    }
}

fn print(answer: &Answer, busy: bool, output: &Output) -> Result<(), Failure> {
    let shown = |index: &usize| busy || !COLUMNS[*index].2;
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(shown).collect();
    let lines = |time: &dyn Fn(u64) -> String| -> Vec<Vec<String>> {
        let cells = answer.phases.iter().map(|row| row.cells(time));
        cells
            .map(|cells| columns.iter().map(|&at| cells[at].clone()).collect())
            .collect()
    };
    let header: Vec<&str> = columns.iter().map(|&at| COLUMNS[at].1).collect();
    let names: Vec<&str> = columns.iter().map(|&at| COLUMNS[at].0).collect();
    let in_ms = |ns: u64| format!("{:.3} ms", Duration::from_nanos(ns).as_millis_f64());
    let table = || format!("{}\n", crate::output::table(&header, &lines(&in_ms)));
    output.rows_with(table, &names, &lines(&|ns| ns.to_string()), answer)
}
