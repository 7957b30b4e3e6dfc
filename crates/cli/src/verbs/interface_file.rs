//! `tailbound interface FILE`: the least interfaces of the domains of a description, and of its CPUs.

use std::path::Path;

use tailbound_assessment::AssessmentError;
use tailbound_assessment::interface::InterfaceChoice;
use tailbound_assessment::interface::description::{
    CpuInterface, DescriptionInterfaces, DescriptionQuery, DomainInterface, DomainOrder,
    ModeInterfaces, description_interfaces,
};

use super::interface::{CSV, columns, csv_cells, in_words, periods, query};
use crate::arguments::{ComponentScheduling, InterfaceArguments};
use crate::failure::Failure;
use crate::output::{Output, table};

/// Searches the interfaces of every mode.
pub fn carry_out(
    file: &Path,
    arguments: &InterfaceArguments,
    output: &Output,
) -> Result<(), Failure> {
    let order = match arguments.scheduling {
        ComponentScheduling::EarliestDeadlineFirst => DomainOrder::EarliestDeadlineFirst,
        ComponentScheduling::RateMonotonic => DomainOrder::RateMonotonic,
        ComponentScheduling::DeadlineMonotonic => DomainOrder::DeadlineMonotonic,
        ComponentScheduling::FixedPriority | ComponentScheduling::Fifo => {
            return Err(Failure::with_help(
                "with a FILE, --scheduling is the order of the domains on each CPU: \
                 earliest-deadline-first, rate-monotonic or deadline-monotonic",
                "leave it out; the order of the tasks of a service is its `scheduling`",
            ));
        }
    };
    let question = DescriptionQuery {
        query: query(arguments, periods(arguments).unwrap_or_default())?,
        domain: arguments.domain.clone(),
        order,
        compose: arguments.compose,
    };
    let loaded = super::load(file, output)?;
    let inputs = super::inputs(&loaded)?;
    let answer = description_interfaces(&loaded.description, &inputs, &question);
    let answer = answer.map_err(|error| match error {
        AssessmentError::Empty { .. } => Failure::with_help(
            error.to_string(),
            "describe a service with tasks, or name them: tailbound interface --task 10ms/100ms",
        ),
        error => Failure::from_assessment(error),
    })?;
    render(&answer, output)?;
    let objections = answer.objections();
    match objections.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(objections.join("\n"))),
    }
}

const CPUS: [&str; 6] = [
    "mode",
    "CPU",
    "interfaces of",
    "bandwidth",
    "holds them",
    "interface of the CPU",
];

fn render(answer: &DescriptionInterfaces, output: &Output) -> Result<(), Failure> {
    for mode in &answer.modes {
        for domain in &mode.domains {
            if let Some(method) = &domain.method {
                output.detail(format!("{}: {method}", domain.domain));
            }
        }
        for cpu in &mode.cpus {
            if let Some(method) = &cpu.method {
                output.detail(format!("{} CPU {}: {method}", cpu.host, cpu.cpu));
            }
        }
    }
    let for_people = || {
        let domains = domain_table(answer);
        let cpus: Vec<Vec<String>> = (answer.modes.iter())
            .flat_map(|mode| mode.cpus.iter().map(|cpu| cpu_cells(mode, cpu)))
            .collect();
        match cpus.is_empty() {
            true => format!("{domains}\n"),
            false => format!("{domains}\n\n{}\n", table(&CPUS, &cpus)),
        }
    };
    let header: Vec<&str> = [
        "mode",
        "kind",
        "name",
        "described_budget_ns",
        "is_best",
        "holds",
    ]
    .into_iter()
    .chain(CSV)
    .collect();
    output.rows_with(for_people, &header, &csv_rows(answer), answer)
}

fn mode_name(mode: &ModeInterfaces) -> String {
    mode.mode.clone().unwrap_or_else(|| "-".into())
}

/// Every period of every domain; the best of several is marked.
fn domain_table(answer: &DescriptionInterfaces) -> String {
    let rows = answer.modes.iter().flat_map(|mode| {
        let rows = mode
            .domains
            .iter()
            .flat_map(|domain| domain.interfaces.iter().map(move |row| (domain, row)));
        rows.map(move |(domain, row)| (mode, domain, row))
    });
    let rows: Vec<(&ModeInterfaces, &DomainInterface, &InterfaceChoice)> = rows.collect();
    let choices: Vec<InterfaceChoice> = rows.iter().map(|(_, _, row)| (*row).clone()).collect();
    let (header, cells) = columns(&choices);
    let header: Vec<&str> = ["mode", "domain", "described"]
        .into_iter()
        .chain(header)
        .collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .zip(cells)
        .map(|((mode, domain, row), cells)| {
            let is_best = domain.interfaces.len() > 1 && domain.choice() == Some(*row);
            let name = match (is_best, domain.is_as_described) {
                (true, _) => format!("{} (least)", domain.domain),
                (_, true) => format!("{} (as described)", domain.domain),
                _ => domain.domain.clone(),
            };
            let mut line = vec![mode_name(mode), name, described(domain)];
            line.extend(cells);
            line
        })
        .collect();
    table(&header, &cells)
}

fn described(domain: &DomainInterface) -> String {
    match (domain.described_budget, domain.described_period) {
        (Some(budget), Some(period)) => format!("{budget}/{period}"),
        _ => "-".into(),
    }
}

fn cpu_cells(mode: &ModeInterfaces, cpu: &CpuInterface) -> Vec<String> {
    let holds = match (&cpu.why, cpu.schedulable) {
        (_, true) => "yes".into(),
        (Some(why), false) => format!("no: {why}"),
        (None, false) => "no".into(),
    };
    let interface = cpu.interface.as_ref().map(|row| match row.budget {
        Some(_) => in_words(row),
        None => "none".into(),
    });
    vec![
        mode_name(mode),
        format!("{} {}", cpu.host, cpu.cpu),
        cpu.domains.join(", "),
        format!("{:.2} %", cpu.bandwidth * 100.0),
        holds,
        interface.unwrap_or_else(|| "-".into()),
    ]
}

fn csv_rows(answer: &DescriptionInterfaces) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for mode in &answer.modes {
        let name = mode.mode.clone().unwrap_or_default();
        for domain in &mode.domains {
            let described = domain
                .described_budget
                .map(|budget| budget.as_nanos().to_string());
            for row in &domain.interfaces {
                let is_best = domain.choice() == Some(row);
                let mut line = vec![
                    name.clone(),
                    "domain".into(),
                    domain.domain.clone(),
                    described.clone().unwrap_or_default(),
                    is_best.to_string(),
                    String::new(),
                ];
                line.extend(csv_cells(row));
                lines.push(line);
            }
        }
        for cpu in &mode.cpus {
            let mut line = vec![
                name.clone(),
                "cpu".into(),
                format!("{} {}", cpu.host, cpu.cpu),
                String::new(),
                String::new(),
                cpu.schedulable.to_string(),
            ];
            let row = cpu.interface.clone().unwrap_or_else(|| InterfaceChoice {
                bandwidth: Some(cpu.bandwidth),
                why: cpu.why.clone(),
                ..InterfaceChoice::default()
            });
            line.extend(csv_cells(&row));
            lines.push(line);
        }
    }
    lines
}
