//! `tailbound analyze FILE`: whether the tasks of a description meet their deadlines on the
//! reservations of their domains, and whether the CPUs can hold all reservations.

use std::path::Path;

use tailbound_analysis::transitions::METHOD;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::{Analysis, analyze, refuse_what_is_only_simulated};
use tailbound_assessment::schedulability::{
    CpuVerdict, DeadlineVerdict, ModeVerdict, ServiceVerdict, TaskVerdict,
};
use tailbound_time::Duration;

use super::{chains, protocols, transitions};
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
    for one in &analysis.chains {
        if let Some(methods) = chains::methods(one) {
            output.detail(format!("chain {}: {methods}", one.chain));
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
        let of_chains = chains::tables_of(&analysis.chains);
        let (tasks, cpus) = (table(&TASKS, &tasks), table(&CPUS, &cpus));
        format!("{tasks}\n\n{middle}{cpus}\n{of_chains}{end}{under}")
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

pub(super) fn verdict_cell(verdict: DeadlineVerdict, why: Option<&str>) -> String {
    let why = why.unwrap_or_default();
    match verdict {
        DeadlineVerdict::Met => "yes".to_owned(),
        DeadlineVerdict::Missed => format!("no: {why}"),
        DeadlineVerdict::Undecided => format!("unknown: {why}"),
        DeadlineVerdict::NoDeadline => format!("none: {why}"),
    }
}

fn cpu_cells(mode: &str, cpu: &CpuVerdict) -> Vec<String> {
    vec![
        mode.into(),
        format!("{} {}", cpu.host, cpu.cpu),
        cpu.domains.join(", "),
        load_cell(cpu),
        if cpu.admitted {
            "yes".into()
        } else {
            format!("no: {}", cpu.failures.join("; "))
        },
    ]
}

/// The load of the reservations, and of interference where there is any.
fn load_cell(cpu: &CpuVerdict) -> String {
    let load = format!("{:.2} %", cpu.load * 100.0);
    match cpu.interference {
        Some(share) => format!("{load}, interference {:.2} %", share * 100.0),
        None => load,
    }
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

/// A row of the CSV. A column without a value is an empty field.
#[derive(Default)]
pub(super) struct CsvRow {
    pub mode: String,
    pub kind: &'static str,
    pub name: String,
    pub execution: Option<Duration>,
    pub period: Option<Duration>,
    pub deadline: Option<Duration>,
    pub response_bound: Option<Duration>,
    pub load: Option<f64>,
    pub verdict: &'static str,
    pub why: String,
    pub method: String,
}

impl CsvRow {
    fn fields(self) -> Vec<String> {
        let ns = |time: Option<Duration>| {
            time.map_or_else(String::new, |time| time.as_nanos().to_string())
        };
        vec![
            self.mode,
            self.kind.into(),
            self.name,
            ns(self.execution),
            ns(self.period),
            ns(self.deadline),
            ns(self.response_bound),
            self.load.map_or_else(String::new, |load| load.to_string()),
            self.verdict.into(),
            self.why,
            self.method,
        ]
    }
}

fn csv_rows(analysis: &Analysis) -> Vec<Vec<String>> {
    let modes = analysis.modes.iter().flat_map(|mode| {
        let tasks = mode.tasks.iter().map(task_row);
        let services = mode.services.iter().map(service_row);
        let cpus = mode.cpus.iter().map(cpu_row);
        let rows = tasks.chain(services).chain(cpus);
        rows.map(|row| CsvRow {
            mode: mode.mode.clone().unwrap_or_default(),
            ..row
        })
    });
    let transitions = analysis.transitions.iter().map(transitions::csv_row);
    let protocols = analysis.protocols.iter().map(protocols::csv_row);
    let chains = analysis.chains.iter().map(chains::csv_row);
    let rows = modes.chain(chains).chain(transitions).chain(protocols);
    rows.map(CsvRow::fields).collect()
}

fn task_row(task: &TaskVerdict) -> CsvRow {
    CsvRow {
        kind: "task",
        name: task.name(),
        execution: task.execution,
        period: task.period,
        deadline: task.deadline,
        response_bound: task.response_bound,
        verdict: verdict_word(task.verdict),
        why: task.why.clone().unwrap_or_default(),
        method: task.method.clone().unwrap_or_default(),
        ..CsvRow::default()
    }
}

fn service_row(service: &ServiceVerdict) -> CsvRow {
    CsvRow {
        kind: "service",
        name: service.service.clone(),
        verdict: verdict_word(service.verdict),
        why: service.why.clone().unwrap_or_default(),
        method: service.method.clone().unwrap_or_default(),
        ..CsvRow::default()
    }
}

fn cpu_row(cpu: &CpuVerdict) -> CsvRow {
    CsvRow {
        kind: "cpu",
        name: format!("{} {}", cpu.host, cpu.cpu),
        load: Some(cpu.load),
        verdict: if cpu.admitted { "admitted" } else { "refused" },
        why: cpu.failures.join("; "),
        method: cpu.method.clone(),
        ..CsvRow::default()
    }
}

pub(super) fn verdict_word(verdict: DeadlineVerdict) -> &'static str {
    match verdict {
        DeadlineVerdict::Met => "met",
        DeadlineVerdict::Missed => "missed",
        DeadlineVerdict::Undecided => "undecided",
        DeadlineVerdict::NoDeadline => "no-deadline",
    }
}
