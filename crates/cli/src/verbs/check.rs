//! `tailbound check`: whether a description is well-formed, fits its hosts and is schedulable.

use tailbound_experiment::host_check::{CheckedReservation, HostCheck};
use tailbound_experiment::host_set::HostSet;
use tailbound_linux::HostCapabilities;
use tailbound_model::{BudgetScope, Description};

use super::{protocols, transitions};
use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 8] = [
    "variant",
    "host",
    "domain",
    "back end",
    "budget",
    "period",
    "bandwidth",
    "CPUs",
];

/// Loads, resolves every variant and admits it; applies nothing. Status 2 if one does not fit.
pub fn carry_out(arguments: &CheckArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(&arguments.file, output)?;
    let description = &loaded.description;
    super::inputs(&loaded)?;
    let hosts = host_set(description, arguments)?;
    let check = HostCheck::of(description, &hosts).map_err(Failure::from_error)?;
    for one in &check.lacking {
        let (variant, reason) = (&one.variant, &one.reason);
        output.note(format!(
            "warning: variant {variant} cannot be enforced here: {reason}"
        ));
    }
    for one in &check.transitions {
        output.detail(transitions::line(one));
    }
    note_absent_cpus(description, &hosts, output);
    if hosts.are_several() && !hosts.has_here() && !arguments.elsewhere {
        output.note(
            "note: the description has several hosts, and each is judged by its description alone; if this machine is \
             one of them, name it with --host",
        );
    }
    output.note(format!("{}: well-formed", arguments.file.display()));
    tell(&check, output)
}

/// The hosts of the description, with which of them is this machine.
fn host_set(description: &Description, arguments: &CheckArguments) -> Result<HostSet, Failure> {
    if arguments.elsewhere {
        return Ok(HostSet::elsewhere(description));
    }
    let here = HostCapabilities::probe();
    match &arguments.host {
        None => Ok(HostSet::with_only_here(description, &here)),
        Some(name) => HostSet::with_here(description, name, &here).map_err(Failure::from_error),
    }
}

/// Prints what was found; status 2 if something stands against it.
fn tell(check: &HostCheck, output: &Output) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = check.reservations.iter().map(row).collect();
    let for_people = || {
        let changes = protocols::table_of(&check.protocols);
        format!("{}\n{changes}", table(&HEADER, &rows))
    };
    output.rows_with(for_people, &HEADER, &rows, check)?;
    let objections = check.objections();
    match objections.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(objections.join("\n"))),
    }
}

fn row(reservation: &CheckedReservation) -> Vec<String> {
    let cpus: Vec<String> = reservation.cpus.iter().map(ToString::to_string).collect();
    vec![
        reservation.variant.clone(),
        reservation.host.clone(),
        reservation.domain.clone(),
        reservation.backend.to_string(),
        reservation.budget.to_string(),
        reservation.period.to_string(),
        format!("{:.1}%", reservation.bandwidth * 100.0),
        match reservation.budget_scope {
            BudgetScope::EachCpu => cpus.join(","),
            BudgetScope::AllCpus => cpus.join("+"),
        },
    ]
}

/// CPUs that no reservation needs are no error.
fn note_absent_cpus(description: &Description, hosts: &HostSet, output: &Output) {
    for (name, host) in &description.hosts {
        let Some(view) = hosts.get(name) else {
            continue;
        };
        let online = &view.capabilities().online_cpus;
        let absent: Vec<String> = host
            .cpus
            .iter()
            .filter(|cpu| !online.contains(&cpu.0))
            .map(ToString::to_string)
            .collect();
        if !absent.is_empty() {
            let list = absent.join(", ");
            output.note(format!(
                "warning: host \"{name}\": CPU {list} is not online on this machine (if the \
                 description is for another one, add --elsewhere)"
            ));
        }
    }
}
