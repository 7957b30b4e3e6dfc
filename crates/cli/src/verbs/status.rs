//! `tailbound status`: what is in force, and what it gave out.

use tailbound_control::{Client, ClientError, ReservationStatus};
use tailbound_enforcement::{AuditSummary, LedgerSummary, standing_reservations, state_directory};
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::{Output, table};
use crate::subsystems;

/// The note of verbs that show what is in force, where no daemon runs: daemon and watchdog may have been killed together,
/// and what they left behind then stands until somebody starts or reverts.
pub fn without_daemon() -> String {
    let standing = standing_reservations(&state_directory()).unwrap_or_default();
    let domains: Vec<&str> = standing.iter().map(|one| one.domain.as_str()).collect();
    match domains.as_slice() {
        [] => "no daemon is running, so nothing is in force".to_owned(),
        domains => format!(
            "no daemon is running, but one that was killed has left {} as it was, perhaps stopped; `tailbound revert` \
             takes it back",
            domains.join(", ")
        ),
    }
}

/// Prints the active reservations.
pub fn carry_out(output: &Output) -> Result<(), Failure> {
    let header = [
        "domain",
        "back end",
        "budget",
        "period",
        "CPUs",
        "periods",
        "depleted",
        "used",
        "overrun p99",
        "state",
    ];
    let mut client = match Client::connect(&state_directory()) {
        Ok(client) => client,
        Err(ClientError::NotRunning { .. }) => {
            output.note(without_daemon());
            return output.rows(&header, &[], &serde_json::json!({ "reservations": [] }));
        }
        Err(error) => return Err(Failure::from_error(error)),
    };
    let status = client.status().map_err(Failure::from_error)?;
    let rows: Vec<Vec<String>> = status.reservations.iter().map(row).collect();
    for reservation in &status.reservations {
        let origin = super::revert::origin(reservation);
        output.detail(format!("{}: {origin}", reservation.enforced.domain));
    }
    let for_people = || {
        let table = std::iter::once(table(&header, &rows));
        let partitions = super::partition_table::of_reservations(&status.reservations);
        let topics = super::topic_table::of_reservations(&status.reservations);
        let sections = table.chain(partitions).chain(topics);
        let sections = sections.chain(subsystems::sections(&status));
        sections.map(|line| line + "\n").collect()
    };
    output.rows_with(for_people, &header, &rows, &status)?;
    for reservation in &status.reservations {
        let domain = &reservation.enforced;
        if let Some(notice) = domain.audit.as_ref().and_then(escapes) {
            output.note(format!("domain \"{}\": {notice}", domain.domain));
        }
    }
    Ok(())
}

/// The row of a reservation.
fn row(reservation: &ReservationStatus) -> Vec<String> {
    let domain = &reservation.enforced;
    let cpus = domain.interface.cpus.iter();
    let cpus: Vec<String> = cpus.map(ToString::to_string).collect();
    let [budget, period] = match domain.backend {
        // Contracts of topics in the kernel are held as domains that get no CPU time.
        BackendKind::UNRESERVED => ["-", "-"].map(String::from),
        _ => [domain.interface.budget, domain.interface.period].map(|one| one.to_string()),
    };
    let mut row = vec![
        domain.domain.clone(),
        domain.backend.to_string(),
        budget,
        period,
        cpus.join(","),
    ];
    row.extend(ledger(domain.ledger.as_ref()));
    row.push(reservation.presence.in_words());
    row
}

/// What threads did to get away, if any did.
fn escapes(audit: &AuditSummary) -> Option<String> {
    (audit.escapes() > 0).then(|| {
        format!(
            "{} times a thread left its CPUs and was brought back, {} times one rose above its priority \
             and was set back, {} threads left its groups, or its CPUs too often, and lost the priority",
            audit.brought_back, audit.set_back, audit.demoted
        )
    })
}

fn ledger(ledger: Option<&LedgerSummary>) -> [String; 4] {
    match ledger {
        None => ["-", "-", "-", "-"].map(String::from),
        Some(ledger) => [
            ledger.periods.to_string(),
            ledger.depletions.to_string(),
            ledger.consumed.to_string(),
            length_in_words(ledger.overrun_p99),
        ],
    }
}

/// A length that may not be known yet.
pub fn length_in_words(length: Option<Duration>) -> String {
    length.map_or_else(|| "-".into(), |length| length.to_string())
}
