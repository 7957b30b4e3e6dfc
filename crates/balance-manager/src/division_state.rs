//! What became of the applications while a manager divided.

use serde::Serialize;
use tailbound_balance::{HoldReason, LevelReport};
use tailbound_balance_manager::{CapacityManager, IntervalOutcome};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::Output;

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

/// `DivisionState` is the state of a division.
#[derive(Clone, Debug, Serialize)]
pub struct DivisionState {
    /// The capacity that is divided, per period.
    whole_ns: u64,
    /// The intervals that have passed.
    intervals: u64,
    /// The changes of budgets that the daemon refused.
    refused_changes: u64,
    applications: Vec<ApplicationState>,
}

/// An application of a division.
#[derive(Clone, Debug, Serialize)]
struct ApplicationState {
    name: String,
    /// The capacity that holds now.
    capacity_ns: u64,
    /// The sum over all intervals.
    #[serde(skip)]
    total_ns: u128,
    /// The mean over all intervals.
    mean_capacity_ns: u64,
    /// The latest matching value.
    matching_value: Option<f64>,
    /// The latest service level.
    service_level: Option<f64>,
    /// The intervals without a measurement.
    held_intervals: u64,
    /// Why the last interval had none.
    hold_reason: Option<HoldReason>,
}

impl DivisionState {
    /// The state before the first interval.
    pub fn of(manager: &CapacityManager) -> Self {
        let each = manager.names().zip(manager.capacities());
        let applications = each.map(|(name, capacity)| ApplicationState {
            name: name.to_owned(),
            capacity_ns: capacity.as_nanos(),
            total_ns: 0,
            mean_capacity_ns: capacity.as_nanos(),
            matching_value: None,
            service_level: None,
            held_intervals: 0,
            hold_reason: None,
        });
        Self {
            whole_ns: manager.whole().as_nanos(),
            intervals: 0,
            refused_changes: 0,
            applications: applications.collect(),
        }
    }

    /// Enters an interval in which the capacities `held` were in force; returns what people want to hear of it.
    pub fn enter(&mut self, held: &[Duration], outcome: &IntervalOutcome) -> Vec<String> {
        self.intervals += 1;
        let mut news = Vec::new();
        if self.refused_changes == 0 {
            let refused = outcome.refused.iter();
            news.extend(refused.map(|(domain, reason)| {
                format!("{domain}: the budget stays for now, and is tried again: {reason}")
            }));
        }
        self.refused_changes += outcome.refused.len() as u64;
        for (place, application) in self.applications.iter_mut().enumerate() {
            application.total_ns += u128::from(held[place].as_nanos());
            application.mean_capacity_ns =
                (application.total_ns / u128::from(self.intervals)) as u64;
            application.capacity_ns = outcome.capacities[place].as_nanos();
            news.extend(application.enter(&outcome.reports[place]));
        }
        news
    }

    /// Prints a row for each application.
    pub fn print(&self, output: &Output) -> Result<(), Failure> {
        let share = |capacity_ns: u64| {
            let percent = capacity_ns as f64 / self.whole_ns.max(1) as f64 * 100.0;
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
                format!("{} of {}", one.held_intervals, self.intervals),
                one.hold_reason
                    .as_ref()
                    .map_or(String::new(), HoldReason::to_string),
            ]
        };
        let rows: Vec<Vec<String>> = self.applications.iter().map(row).collect();
        output.rows(&HEADER, &rows, self)
    }
}

impl ApplicationState {
    /// Enters a report; says so where the application falls silent, or speaks again.
    fn enter(&mut self, report: &Result<LevelReport, HoldReason>) -> Option<String> {
        let name = &self.name;
        let (before, reason) = (self.hold_reason.take(), report.as_ref().err().cloned());
        if let Ok(report) = report {
            self.matching_value = Some(report.matching_value.as_f64());
            self.service_level = report.service_level;
        } else {
            self.held_intervals += 1;
        }
        let news = match (&before, &reason) {
            (None, Some(reason)) => Some(format!("{name}: the capacity is held: {reason}")),
            (Some(_), None) => Some(format!("{name}: takes part again")),
            _ => None,
        };
        self.hold_reason = reason;
        news
    }
}
