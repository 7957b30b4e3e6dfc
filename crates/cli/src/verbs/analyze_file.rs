//! `tailbound analyze FILE`: whether the tasks of a description meet their deadlines on the
//! reservations of their domains, and whether the CPUs can hold all reservations.

use std::path::Path;

use serde::Serialize;
use tailbound_experiment::schedulability::{CpuVerdict, ModeVerdict, TaskVerdict, Verdict, judge};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::{Output, table};

/// All answers, as JSON spells them.
#[derive(Serialize)]
struct Answer {
    schedulable: bool,
    modes: Vec<Mode>,
}

#[derive(Serialize)]
struct Mode {
    mode: Option<String>,
    schedulable: bool,
    tasks: Vec<Task>,
    cpus: Vec<OneCpu>,
}

#[derive(Serialize)]
struct Task {
    service: String,
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
    let inputs = loaded.inputs().map_err(|problems| Failure::Description {
        problems,
        text: loaded.text.clone(),
    })?;
    let found = judge(&loaded.description, &inputs).map_err(Failure::from_error)?;
    if found
        .iter()
        .all(|mode| mode.tasks.is_empty() && mode.cpus.is_empty())
    {
        return Err(Failure::with_help(
            "the description has neither tasks nor reservations, so there is nothing to analyse",
            "describe a service with tasks, or name them here: tailbound analyze --task 10ms/100ms",
        ));
    }
    let answer = Answer {
        schedulable: found.iter().all(ModeVerdict::holds),
        modes: found.iter().map(mode).collect(),
    };
    render(&answer, output)?;
    verdict(&found)
}

fn mode(found: &ModeVerdict) -> Mode {
    Mode {
        mode: found.mode.clone(),
        schedulable: found.holds(),
        tasks: found.tasks.iter().map(task).collect(),
        cpus: found.cpus.iter().map(cpu).collect(),
    }
}

fn task(found: &TaskVerdict) -> Task {
    let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
    Task {
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

const CPUS: [&str; 5] = ["mode", "CPU", "reservations", "load", "admitted"];

/// Tasks and CPUs as two tables for people, and as one with a row for either in CSV.
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
    for mode in &answer.modes {
        for task in &mode.tasks {
            if let Some(method) = &task.method {
                output.detail(format!("{}.{}: {method}", task.service, task.task));
            }
        }
        for cpu in &mode.cpus {
            output.detail(format!("{} CPU {}: {}", cpu.host, cpu.cpu, cpu.method));
        }
    }
    let for_people = || format!("{}\n\n{}\n", table(&TASKS, &tasks), table(&CPUS, &cpus));
    output.rows_with(for_people, &CSV, &csv_rows(answer), answer)
}

fn task_cells(mode: &str, task: &Task) -> Vec<String> {
    let text = |ns: Option<u64>| ns.map_or("-".into(), |ns| Duration::from_nanos(ns).to_string());
    let deadline = match task.deadline_is_described || task.deadline_ns.is_none() {
        true => text(task.deadline_ns),
        false => format!("{} (period)", text(task.deadline_ns)),
    };
    let verdict = match (task.verdict, &task.why) {
        (Verdict::Met, _) => "yes".to_owned(),
        (Verdict::Missed, why) => format!("no: {}", why.as_deref().unwrap_or_default()),
        (Verdict::Undecided, why) => format!("unknown: {}", why.as_deref().unwrap_or_default()),
        (Verdict::NoDeadline, why) => format!("none: {}", why.as_deref().unwrap_or_default()),
    };
    vec![
        mode.into(),
        format!("{}.{}", task.service, task.task),
        text(task.execution_ns),
        text(task.period_ns),
        deadline,
        text(task.response_bound_ns),
        verdict,
    ]
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
            let verdict = match task.verdict {
                Verdict::Met => "met",
                Verdict::Missed => "missed",
                Verdict::Undecided => "undecided",
                Verdict::NoDeadline => "no-deadline",
            };
            rows.push(vec![
                name.clone(),
                "task".into(),
                format!("{}.{}", task.service, task.task),
                number(task.execution_ns),
                number(task.period_ns),
                number(task.deadline_ns),
                number(task.response_bound_ns),
                String::new(),
                verdict.into(),
                task.why.clone().unwrap_or_default(),
                task.method.clone().unwrap_or_default(),
            ]);
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
    rows
}

fn verdict(found: &[ModeVerdict]) -> Result<(), Failure> {
    let mut no = Vec::new();
    for mode in found {
        let place = match &mode.mode {
            Some(mode) => format!(" in mode {mode}"),
            None => String::new(),
        };
        let named = |wanted: Verdict| -> Vec<String> {
            let tasks = mode.tasks.iter().filter(|task| task.verdict == wanted);
            tasks
                .map(|task| format!("{}.{}", task.service, task.task))
                .collect()
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
    if no.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(no.join("\n")))
}
