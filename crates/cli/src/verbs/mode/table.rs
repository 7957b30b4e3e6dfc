//! The modes of a host as they are told.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_model::{Cpu, Priority};
use tailbound_modes::table::ModeTable;
use tailbound_modes::transition::DomainMode;

/// What a domain has in a mode, as JSON.
#[derive(Serialize)]
pub struct LocalAnswer {
    local_mode: String,
    budget_ns: u64,
    period_ns: u64,
    priority: Priority,
    cpus: Vec<Cpu>,
    tasks: Vec<String>,
}

/// What a mode is, as JSON: what each domain has in it.
#[derive(Serialize)]
pub struct ModeAnswer {
    name: String,
    domains: BTreeMap<String, LocalAnswer>,
}

/// What holds where the interface is one local mode's and the tasks are another's.
pub fn local(reserved: &DomainMode, running: &DomainMode) -> LocalAnswer {
    let interface = &reserved.interface;
    LocalAnswer {
        local_mode: reserved.name.clone(),
        budget_ns: interface.budget.as_nanos(),
        period_ns: interface.period.as_nanos(),
        priority: interface.priority,
        cpus: interface.cpus.iter().copied().collect(),
        tasks: running.tasks.iter().cloned().collect(),
    }
}

fn locals(table: &ModeTable, mode: &str) -> Vec<(String, DomainMode)> {
    let locals = table.mode(mode).into_iter().flatten();
    locals
        .map(|(domain, one)| (domain.clone(), one.clone()))
        .collect()
}

/// All modes, for JSON.
pub fn modes(table: &ModeTable) -> Vec<ModeAnswer> {
    let mode = |name: &str| ModeAnswer {
        name: name.to_owned(),
        domains: locals(table, name)
            .iter()
            .map(|(domain, one)| (domain.clone(), local(one, one)))
            .collect(),
    };
    table.names().into_iter().map(mode).collect()
}

/// A line per mode.
pub fn lines(table: &ModeTable) -> Vec<String> {
    let line = |name: &str| {
        let domains: Vec<String> = locals(table, name)
            .iter()
            .map(|(domain, one)| {
                let interface = &one.interface;
                let given = format!("{domain} {} every {}", interface.budget, interface.period);
                // Without an agent nothing is switched.
                match table.agent_place(domain) {
                    None => given,
                    Some(_) => format!("{given}, tasks {}", tasks(one)),
                }
            })
            .collect();
        let initial = match name == table.initial() {
            true => " (initial)",
            false => "",
        };
        format!("mode {name}{initial}: {}", domains.join("; "))
    };
    table.names().into_iter().map(line).collect()
}

/// The names of the tasks of a local mode.
pub fn tasks(mode: &DomainMode) -> String {
    let names: Vec<&str> = mode.tasks.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "none".into(),
        names => names.join(" "),
    }
}
