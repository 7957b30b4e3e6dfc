//! `tailbound analyze FILE`: whether the tasks of a description meet their deadlines on the
//! reservations of their domains, and whether the CPUs can hold all reservations.

use std::path::Path;

use tailbound_analysis::transitions::METHOD;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::{Analysis, analyze, refuse_what_is_only_simulated};
use tailbound_assessment::schedulability::{
    CpuVerdict, ModeVerdict, ServiceVerdict, TaskVerdict, Verdict,
};
use tailbound_time::Duration;

use super::{protocols, transitions};
use crate::failure::Failure;
use crate::output::{Output, table};

/// Judges every mode of the description.
pub fn carry_out(file: &Path, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    refuse_what_is_only_simulated(&loaded.description)?;
    let inputs = super::inputs(&loaded)?;
    let analysis = analyze(&loaded.description, &inputs).map_err(|error| match error {
        AssessmentError::Empty { .. } => Failure::with_help(
            error.to_string(),
            "describe a service with tasks, or name them here: tailbound analyze --task 10ms/100ms",
        ),
        error => Failure::from_assessment(error),
    })?;
    render(&analysis, output)?;
    let objections = analysis.objections();
    match objections.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(objections.join("\n"))),
    }
}

const TASKS: [&str; 7] = [
    "mode",
    "task",
    "execution",
    "period",
    "deadline",
    "response time",
    "deadline is met",
];

const SERVICES: [&str; 3] = [
    "mode",
    "service (earliest deadline first)",
    "deadlines are met",
];

const CPUS: [&str; 5] = ["mode", "CPU", "reservations", "load", "admitted"];

/// Tasks, services under EDF, CPUs and changes of mode as tables for people, and as one with a row for each in CSV.
fn render(analysis: &Analysis, output: &Output) -> Result<(), Failure> {
    let rows =
        |of: fn(&ModeVerdict) -> Vec<Vec<String>>| analysis.modes.iter().flat_map(of).collect();
    let tasks: Vec<Vec<String>> = rows(|mode| {
        let name = mode.mode.as_deref().unwrap_or("-");
        mode.tasks
            .iter()
            .map(|task| task_cells(name, task))
            .collect()
    });
    let cpus: Vec<Vec<String>> = rows(|mode| {
        let name = mode.mode.as_deref().unwrap_or("-");
        mode.cpus.iter().map(|cpu| cpu_cells(name, cpu)).collect()
    });
    let services: Vec<Vec<String>> = rows(|mode| {
        let name = mode.mode.as_deref().unwrap_or("-");
        let cells = |one: &ServiceVerdict| {
            let verdict = verdict_cell(one.verdict, one.why.as_deref());
            vec![name.into(), one.service.clone(), verdict]
        };
        mode.services.iter().map(cells).collect()
    });
    for mode in &analysis.modes {
        for service in &mode.services {
            if let Some(method) = &service.method {
                output.detail(format!("{}: {method}", service.service));
            }
        }
        for task in &mode.tasks {
            if let Some(method) = &task.method {
                output.detail(format!("{}: {method}", task.name()));
            }
        }
        for cpu in &mode.cpus {
            output.detail(format!("{} CPU {}: {}", cpu.host, cpu.cpu, cpu.method));
        }
    }
    if !analysis.transitions.is_empty() {
        output.detail(format!("changes of mode: {}", METHOD));
    }
    let for_people = || {
        let middle = match services.is_empty() {
            true => String::new(),
            false => format!("{}\n\n", table(&SERVICES, &services)),
        };
        let changes: Vec<Vec<String>> = analysis
            .transitions
            .iter()
            .map(transitions::cells)
            .collect();
        let end = match changes.is_empty() {
            true => String::new(),
            false => format!("\n{}\n", table(&transitions::HEADER, &changes)),
        };
        let under = protocols::table_of(&analysis.protocols);
        let (tasks, cpus) = (table(&TASKS, &tasks), table(&CPUS, &cpus));
        format!("{tasks}\n\n{middle}{cpus}\n{end}{under}")
    };
    output.rows_with(for_people, &CSV, &csv_rows(analysis), analysis)
}

fn task_cells(mode: &str, task: &TaskVerdict) -> Vec<String> {
    let text = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
    let deadline = match task.deadline_is_described || task.deadline.is_none() {
        true => text(task.deadline),
        false => format!("{} (period)", text(task.deadline)),
    };
    let verdict = verdict_cell(task.verdict, task.why.as_deref());
    vec![
        mode.into(),
        task.name(),
        text(task.execution),
        text(task.period),
        deadline,
        text(task.response_bound),
        verdict,
    ]
}

fn verdict_cell(verdict: Verdict, why: Option<&str>) -> String {
    let why = why.unwrap_or_default();
    match verdict {
        Verdict::Met => "yes".to_owned(),
        Verdict::Missed => format!("no: {why}"),
        Verdict::Undecided => format!("unknown: {why}"),
        Verdict::NoDeadline => format!("none: {why}"),
    }
}

fn cpu_cells(mode: &str, cpu: &CpuVerdict) -> Vec<String> {
    vec![
        mode.into(),
        format!("{} {}", cpu.host, cpu.cpu),
        cpu.domains.join(", "),
        format!("{:.2} %", cpu.load * 100.0),
        if cpu.admitted {
            "yes".into()
        } else {
            format!("no: {}", cpu.failures.join("; "))
        },
    ]
}

const CSV: [&str; 11] = [
    "mode",
    "kind",
    "name",
    "execution_ns",
    "period_ns",
    "deadline_ns",
    "response_bound_ns",
    "load",
    "verdict",
    "why",
    "method",
];

fn csv_rows(analysis: &Analysis) -> Vec<Vec<String>> {
    let number =
        |time: Option<Duration>| time.map_or(String::new(), |time| time.as_nanos().to_string());
    let mut rows = Vec::new();
    for mode in &analysis.modes {
        let name = mode.mode.clone().unwrap_or_default();
        for task in &mode.tasks {
            rows.push(vec![
                name.clone(),
                "task".into(),
                task.name(),
                number(task.execution),
                number(task.period),
                number(task.deadline),
                number(task.response_bound),
                String::new(),
                verdict_word(task.verdict).into(),
                task.why.clone().unwrap_or_default(),
                task.method.clone().unwrap_or_default(),
            ]);
        }
        for service in &mode.services {
            let mut row = vec![name.clone(), "service".into(), service.service.clone()];
            row.extend([(); 5].map(|()| String::new()));
            row.push(verdict_word(service.verdict).into());
            row.push(service.why.clone().unwrap_or_default());
            row.push(service.method.clone().unwrap_or_default());
            rows.push(row);
        }
        for cpu in &mode.cpus {
            let verdict = if cpu.admitted { "admitted" } else { "refused" };
            let mut row = vec![
                name.clone(),
                "cpu".into(),
                format!("{} {}", cpu.host, cpu.cpu),
            ];
            row.extend([(); 4].map(|()| String::new()));
            row.push(cpu.load.to_string());
            row.push(verdict.into());
            row.push(cpu.failures.join("; "));
            row.push(cpu.method.clone());
            rows.push(row);
        }
    }
    rows.extend(analysis.transitions.iter().map(transitions::csv_row));
    rows.extend(analysis.protocols.iter().map(protocols::csv_row));
    rows
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::Undecided => "undecided",
        Verdict::NoDeadline => "no-deadline",
    }
}
