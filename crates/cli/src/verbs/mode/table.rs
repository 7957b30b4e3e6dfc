//! The modes of a host as they are told.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_modes::table::ModeTable;
use tailbound_modes::transition::DomainMode;

/// What a mode is, as JSON: what each domain has in it.
#[derive(Serialize)]
pub struct ModeAnswer<'a> {
    name: &'a str,
    domains: &'a BTreeMap<String, DomainMode>,
}

/// All modes, for JSON.
pub fn modes(table: &ModeTable) -> Vec<ModeAnswer<'_>> {
    let modes = table.modes().iter();
    modes
        .map(|(name, domains)| ModeAnswer { name, domains })
        .collect()
}

/// A line per mode.
pub fn lines(table: &ModeTable) -> Vec<String> {
    let line = |(name, locals): (&String, &BTreeMap<String, DomainMode>)| {
        let domains: Vec<String> = locals
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
    table.modes().iter().map(line).collect()
}

/// The names of the tasks of a local mode.
pub fn tasks(mode: &DomainMode) -> String {
    let names: Vec<&str> = mode.tasks.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "none".into(),
        names => names.join(" "),
    }
}
