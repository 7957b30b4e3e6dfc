//! `tailbound analyze FILE`: whether the tasks of a description meet their deadlines on the
//! reservations of their domains, and whether the CPUs can hold all reservations.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::resolution::{with_agents, with_fallen};
use tailbound_experiment::schedulability::{
    CpuVerdict, ModeVerdict, ServiceVerdict, TaskVerdict, Verdict, judge,
};
use tailbound_time::Duration;

use super::protocols::{self, OneProtocol};
use super::transitions::{self, OneTransition};
use crate::failure::Failure;
use crate::output::{Output, table};

/// All answers, as JSON spells them.
#[derive(Serialize)]
struct Answer {
    schedulable: bool,
    modes: Vec<Mode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transitions: Vec<OneTransition>,
    /// What the protocol of mode changes keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    protocols: Vec<OneProtocol>,
}

#[derive(Serialize)]
struct Mode {
    mode: Option<String>,
    schedulable: bool,
    tasks: Vec<Task>,
    services: Vec<OneService>,
    cpus: Vec<OneCpu>,
}

#[derive(Serialize)]
struct Task {
    domain: String,
    /// None of a task that the domain has of its own.
    service: Option<String>,
    task: String,
    execution_ns: Option<u64>,
    period_ns: Option<u64>,
    deadline_ns: Option<u64>,
    deadline_is_described: bool,
    response_bound_ns: Option<u64>,
    verdict: Verdict,
    why: Option<String>,
    method: Option<String>,
}

impl Task {
    /// As descriptions name it.
    fn name(&self) -> String {
        let owner = self.service.as_ref().unwrap_or(&self.domain);
        format!("{owner}.{}", self.task)
    }
}

/// A service that serves the earliest deadline first.
#[derive(Serialize)]
struct OneService {
    service: String,
    verdict: Verdict,
    first_shortage: Option<FirstShortage>,
    why: Option<String>,
    method: Option<String>,
}

#[derive(Serialize)]
struct FirstShortage {
    at_ns: u64,
    demand_ns: u64,
    supply_ns: u64,
    excess_ns: u64,
    due: Vec<Due>,
}

#[derive(Serialize)]
struct Due {
    task: String,
    jobs: u64,
    work_ns: u64,
}

#[derive(Serialize)]
struct OneCpu {
    host: String,
    cpu: u32,
    domains: Vec<String>,
    load: f64,
    admitted: bool,
    failures: Vec<String>,
    method: String,
}

/// Judges every mode of the description.
pub fn carry_out(file: &Path, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    super::refuse_what_is_only_simulated(&loaded.description)?;
    let inputs = loaded.inputs().map_err(|problems| Failure::Description {
        problems,
        text: loaded.text.clone(),
    })?;
    let fallen = with_fallen(&loaded.description).map_err(Failure::from_error)?;
    let judged = with_agents(&fallen.description);
    let found = judge(&judged, &inputs).map_err(Failure::from_error)?;
    if found
        .iter()
        .all(|mode| mode.tasks.is_empty() && mode.cpus.is_empty())
    {
        return Err(Failure::with_help(
            "the description has neither tasks nor reservations, so there is nothing to analyse",
            "describe a service with tasks, or name them here: tailbound analyze --task 10ms/100ms",
        ));
    }
    let of_protocol = protocols::of(&loaded.description)?;
    let against: Vec<String> = of_protocol
        .iter()
        .filter_map(OneProtocol::objection)
        .collect();
    let answer = Answer {
        schedulable: found.iter().all(ModeVerdict::holds) && against.is_empty(),
        modes: found.iter().map(mode).collect(),
        transitions: transitions::of(&loaded.description)?,
        protocols: of_protocol,
    };
    render(&answer, output)?;
    verdict(&found, against)
}

fn mode(found: &ModeVerdict) -> Mode {
    Mode {
        mode: found.mode.clone(),
        schedulable: found.holds(),
        tasks: found.tasks.iter().map(task).collect(),
        services: found.services.iter().map(service).collect(),
        cpus: found.cpus.iter().map(cpu).collect(),
    }
}

fn task(found: &TaskVerdict) -> Task {
    let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
    Task {
        domain: found.domain.clone(),
        service: found.service.clone(),
        task: found.task.clone(),
        execution_ns: ns(found.execution),
        period_ns: ns(found.period),
        deadline_ns: ns(found.deadline),
        deadline_is_described: found.deadline_is_described,
        response_bound_ns: ns(found.response_bound),
        verdict: found.verdict,
        why: found.why.clone(),
        method: found.method.clone(),
    }
}

fn service(found: &ServiceVerdict) -> OneService {
    let shortage = found.shortage.as_ref().map(|short| FirstShortage {
        at_ns: short.at.as_nanos(),
        demand_ns: short.demand.as_nanos(),
        supply_ns: short.supply.as_nanos(),
        excess_ns: short.excess().as_nanos(),
        due: short
            .due
            .iter()
            .map(|due| Due {
                task: due.task.clone(),
                jobs: due.jobs,
                work_ns: due.work.as_nanos(),
            })
            .collect(),
    });
    OneService {
        service: found.service.clone(),
        verdict: found.verdict,
        first_shortage: shortage,
        why: found.why.clone(),
        method: found.method.clone(),
    }
}

fn cpu(found: &CpuVerdict) -> OneCpu {
    OneCpu {
        host: found.host.clone(),
        cpu: found.cpu.0,
        domains: found.domains.clone(),
        load: found.load,
        admitted: found.admitted,
        failures: found.failures.clone(),
        method: found.method.clone(),
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
fn render(answer: &Answer, output: &Output) -> Result<(), Failure> {
    let rows = |of: fn(&Mode) -> Vec<Vec<String>>| answer.modes.iter().flat_map(of).collect();
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
        let cells = |one: &OneService| {
            let verdict = verdict_cell(one.verdict, one.why.as_deref());
            vec![name.into(), one.service.clone(), verdict]
        };
        mode.services.iter().map(cells).collect()
    });
    for mode in &answer.modes {
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
    if !answer.transitions.is_empty() {
        output.detail(format!("changes of mode: {}", transitions::METHOD));
    }
    let for_people = || {
        let middle = match services.is_empty() {
            true => String::new(),
            false => format!("{}\n\n", table(&SERVICES, &services)),
        };
        let changes: Vec<Vec<String>> = answer.transitions.iter().map(|one| one.cells()).collect();
        let end = match changes.is_empty() {
            true => String::new(),
            false => format!("\n{}\n", table(&transitions::HEADER, &changes)),
        };
        let under = protocols::table_of(&answer.protocols);
        let (tasks, cpus) = (table(&TASKS, &tasks), table(&CPUS, &cpus));
        format!("{tasks}\n\n{middle}{cpus}\n{end}{under}")
    };
    output.rows_with(for_people, &CSV, &csv_rows(answer), answer)
}

fn task_cells(mode: &str, task: &Task) -> Vec<String> {
    let text = |ns: Option<u64>| ns.map_or("-".into(), |ns| Duration::from_nanos(ns).to_string());
    let deadline = match task.deadline_is_described || task.deadline_ns.is_none() {
        true => text(task.deadline_ns),
        false => format!("{} (period)", text(task.deadline_ns)),
    };
    let verdict = verdict_cell(task.verdict, task.why.as_deref());
    vec![
        mode.into(),
        task.name(),
        text(task.execution_ns),
        text(task.period_ns),
        deadline,
        text(task.response_bound_ns),
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

fn cpu_cells(mode: &str, cpu: &OneCpu) -> Vec<String> {
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

fn csv_rows(answer: &Answer) -> Vec<Vec<String>> {
    let number = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    let mut rows = Vec::new();
    for mode in &answer.modes {
        let name = mode.mode.clone().unwrap_or_default();
        for task in &mode.tasks {
            rows.push(vec![
                name.clone(),
                "task".into(),
                task.name(),
                number(task.execution_ns),
                number(task.period_ns),
                number(task.deadline_ns),
                number(task.response_bound_ns),
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
    rows.extend(answer.transitions.iter().map(OneTransition::csv_row));
    rows.extend(answer.protocols.iter().map(OneProtocol::csv_row));
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

fn verdict(found: &[ModeVerdict], against: Vec<String>) -> Result<(), Failure> {
    let mut no = Vec::new();
    for mode in found {
        let place = match &mode.mode {
            Some(mode) => format!(" in mode {mode}"),
            None => String::new(),
        };
        let named = |wanted: Verdict| -> Vec<String> {
            let tasks = mode.tasks.iter().filter(|task| task.verdict == wanted);
            tasks.map(TaskVerdict::name).collect()
        };
        let (missed, undecided) = (named(Verdict::Missed), named(Verdict::Undecided));
        if !missed.is_empty() {
            no.push(format!(
                "a deadline can be missed{place}: {}",
                missed.join(", ")
            ));
        }
        if !undecided.is_empty() {
            no.push(format!(
                "not shown to meet its deadline{place}: {}",
                undecided.join(", ")
            ));
        }
        for cpu in mode.cpus.iter().filter(|cpu| !cpu.admitted) {
            let (host, number) = (&cpu.host, cpu.cpu);
            no.push(format!(
                "CPU {number} of host {host} cannot hold its reservations{place}: {}",
                cpu.failures.join("; ")
            ));
        }
    }
    no.extend(against);
    if no.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(no.join("\n")))
}
