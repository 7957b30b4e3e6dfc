//! The windows of time partitions in `tailbound status`, with what their managers saw of them.

use tailbound_control::ReservationStatus;
use tailbound_enforcement::DomainStatus;
use tailbound_time::Duration;

use crate::output::table;

const HEADER: [&str; 12] = [
    "partition",
    "frame",
    "windows",
    "served",
    "missed",
    "late by host",
    "by partition",
    "by manager",
    "worst start",
    "overruns",
    "longest",
    "slack used",
];

/// The table; none without time partitions.
pub fn of_reservations(reservations: &[ReservationStatus]) -> Option<String> {
    let rows: Vec<Vec<String>> = reservations.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| table(&HEADER, &rows))
}

fn row(reservation: &ReservationStatus) -> Option<Vec<String>> {
    let domain = &reservation.enforced;
    let windows = domain.interface.windows.iter();
    let windows: Vec<String> = windows
        .map(|window| format!("{} at {}", window.length, window.offset))
        .collect();
    if windows.is_empty() {
        return None;
    }
    let mut row = vec![
        domain.domain.clone(),
        domain.interface.period.to_string(),
        windows.join(", "),
    ];
    let seen = domain.ledger.as_ref();
    let seen = seen.and_then(|ledger| Some((ledger, ledger.windows.as_ref()?)));
    row.extend(match seen {
        None => ["-"; 9].map(String::from),
        Some((ledger, windows)) => [
            ledger.periods.to_string(),
            ledger.skipped.to_string(),
            windows.late_by_host.edges.to_string(),
            windows.late_by_partition.edges.to_string(),
            windows.late_by_manager.edges.to_string(),
            windows.worst_start.to_string(),
            windows.overruns.to_string(),
            windows.longest_run_on.to_string(),
            slack_in_words(domain, windows.slack_used),
        ],
    });
    Some(row)
}

/// The CPU time that a partition used in windows of others; a partition that may run in none has none to use.
fn slack_in_words(domain: &DomainStatus, used: Duration) -> String {
    match domain.interface.slack.is_empty() {
        true => "-".to_owned(),
        false => used.to_string(),
    }
}
