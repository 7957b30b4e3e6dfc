//! `tailbound check`: whether a description is well-formed, fits its hosts and is schedulable.

use serde::Serialize;
use tailbound_experiment::resolve::resolve;
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Description};

use crate::arguments::FileArguments;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a str,
    reservations: Vec<CheckedReservation>,
}

#[derive(Serialize)]
struct CheckedReservation {
    variant: String,
    domain: String,
    backend: BackendKind,
    budget_ns: u64,
    period_ns: u64,
    bandwidth: f64,
    cpus: Vec<u32>,
}

/// Loads, resolves every variant and admits it against this host's rules; applies nothing.
pub fn carry_out(arguments: &FileArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(&arguments.file, output)?;
    let description = &loaded.description;
    tailbound_model::load_inputs(description, loaded.base()).map_err(|problems| {
        Failure::Description {
            problems,
            text: loaded.text.clone(),
        }
    })?;
    let mut reservations = Vec::new();
    for variant in &description.experiment.variants {
        let resolved = resolve(description, variant).map_err(Failure::from_error)?;
        for (domain, resolved) in resolved {
            let Some(interface) = resolved.enforced_interface() else {
                continue;
            };
            reservations.push(CheckedReservation {
                variant: variant.name.clone(),
                domain,
                backend: resolved.backend,
                budget_ns: interface.budget.as_nanos(),
                period_ns: interface.period.as_nanos(),
                bandwidth: interface.bandwidth().as_f64(),
                cpus: interface.cpus.iter().map(|cpu| cpu.0).collect(),
            });
        }
    }
    note_absent_cpus(description, output);
    let rows: Vec<Vec<String>> = reservations.iter().map(row).collect();
    let header = [
        "variant",
        "domain",
        "back end",
        "budget",
        "period",
        "bandwidth",
        "CPUs",
    ];
    output.note(format!("{}: well-formed", arguments.file.display()));
    output.rows(
        &header,
        &rows,
        &Checked {
            name: &description.name,
            reservations,
        },
    )
}

fn row(reservation: &CheckedReservation) -> Vec<String> {
    let length = |ns: u64| tailbound_time::Duration::from_nanos(ns).to_string();
    let cpus: Vec<String> = reservation.cpus.iter().map(u32::to_string).collect();
    vec![
        reservation.variant.clone(),
        reservation.domain.clone(),
        tailbound_enforcement::error::backend_name(reservation.backend).into(),
        length(reservation.budget_ns),
        length(reservation.period_ns),
        format!("{:.1}%", reservation.bandwidth * 100.0),
        cpus.join(","),
    ]
}

/// A description may be for another machine, so CPUs that this one lacks are no error here.
fn note_absent_cpus(description: &Description, output: &Output) {
    let online = HostCapabilities::probe().online_cpus;
    for (name, host) in &description.hosts {
        let absent: Vec<String> = host
            .cpus
            .iter()
            .filter(|cpu| !online.contains(&cpu.0))
            .map(ToString::to_string)
            .collect();
        if !absent.is_empty() {
            let list = absent.join(", ");
            output.note(format!(
                "warning: host \"{name}\": CPU {list} is not online on this machine"
            ));
        }
    }
}
