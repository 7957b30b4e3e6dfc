//! The applications of a division as rows.

use serde::Deserialize;
use tailbound_balance::HoldReason;
use tailbound_balance_manager::control::{BalanceSummary, SUBSYSTEM};
use tailbound_balance_manager::{ApplicationState, DivisionState};
use tailbound_control::DaemonStatus;
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::{Output, table};

/// The columns of the answer.
const HEADER: [&str; 7] = [
    "application",
    "capacity",
    "mean",
    "matching",
    "level",
    "held",
    "reason",
];

/// Prints a row for each application.
pub fn print(state: &DivisionState, output: &Output) -> Result<(), Failure> {
    output.rows(&HEADER, &rows(state), state)
}

/// What `status` says of divisions.
pub fn section(status: &DaemonStatus) -> Vec<String> {
    let section = status.subsystems.get(SUBSYSTEM);
    let summary = section.and_then(|section| BalanceSummary::deserialize(section).ok());
    let divisions = summary.into_iter().flat_map(|summary| summary.divisions);
    let lines = divisions.flat_map(|state| {
        let line = format!(
            "\"{}\" divides {} every {}, {} intervals so far",
            state.name,
            Duration::from_nanos(state.whole_ns),
            Duration::from_nanos(state.interval_ns),
            state.intervals
        );
        [line, table(&HEADER, &rows(&state))]
    });
    lines.collect()
}

fn rows(state: &DivisionState) -> Vec<Vec<String>> {
    let share = |capacity_ns: u64| {
        let percent = capacity_ns as f64 / state.whole_ns.max(1) as f64 * 100.0;
        format!("{percent:.1}%")
    };
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |one| format!("{one:.2}"));
    let row = |one: &ApplicationState| {
        vec![
            one.name.clone(),
            share(one.capacity_ns),
            share(one.mean_capacity_ns),
            number(one.matching_value),
            number(one.service_level),
            format!("{} of {}", one.held_intervals, state.intervals),
            one.hold_reason
                .as_ref()
                .map_or(String::new(), HoldReason::to_string),
        ]
    };
    state.applications.iter().map(row).collect()
}
