//! `tailbound check`: whether a description is well-formed, fits its hosts and is schedulable.

use tailbound_experiment::host_check::{CheckedReservation, HostCheck};
use tailbound_linux::HostCapabilities;
use tailbound_model::Description;

use super::{protocols, transitions};
use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 7] = [
    "variant",
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
    let mut host = HostCapabilities::probe();
    if arguments.elsewhere {
        let named = description.hosts.values().flat_map(|host| &host.cpus);
        host.online_cpus = named.map(|cpu| cpu.0).collect();
    }
    let check = HostCheck::of(description, &host).map_err(Failure::from_error)?;
    for one in check.lacking.iter().filter(|_| !arguments.elsewhere) {
        let (variant, reason) = (&one.variant, &one.reason);
        output.note(format!(
            "warning: variant {variant} cannot be enforced here: {reason}"
        ));
    }
    for one in &check.transitions {
        output.detail(transitions::line(one));
    }
    note_absent_cpus(description, &host, output);
    output.note(format!("{}: well-formed", arguments.file.display()));
    tell(&check, output)
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
        reservation.domain.clone(),
        reservation.backend.to_string(),
        reservation.budget.to_string(),
        reservation.period.to_string(),
        format!("{:.1}%", reservation.bandwidth * 100.0),
        cpus.join(","),
    ]
}

/// CPUs that no reservation needs are no error.
fn note_absent_cpus(description: &Description, here: &HostCapabilities, output: &Output) {
    for (name, host) in &description.hosts {
        let absent: Vec<String> = host
            .cpus
            .iter()
            .filter(|cpu| !here.online_cpus.contains(&cpu.0))
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
