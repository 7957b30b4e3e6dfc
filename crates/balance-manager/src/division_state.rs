//! What became of the applications while a manager divided.

use serde::{Deserialize, Serialize};
use tailbound_balance::{HoldReason, LevelReport};
use tailbound_time::Duration;

use crate::manager::{CapacityManager, IntervalOutcome};

/// `DivisionState` is the state of a division.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DivisionState {
    /// The number of the division, by which it is asked for.
    pub number: u64,
    /// The name of the description.
    pub name: String,
    /// The time from one interval to the next.
    pub interval_ns: u64,
    /// The capacity that is divided, per period.
    pub whole_ns: u64,
    /// The intervals that have passed.
    pub intervals: u64,
    /// The changes of budgets that were refused.
    pub refused_changes: u64,
    /// The applications, by name.
    pub applications: Vec<ApplicationState>,
}

/// `ApplicationState` is an application of a division.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationState {
    /// The name.
    pub name: String,
    /// The capacity that holds now.
    pub capacity_ns: u64,
    /// The sum over all intervals.
    #[serde(skip)]
    total_ns: u128,
    /// The mean over all intervals.
    pub mean_capacity_ns: u64,
    /// The latest matching value.
    pub matching_value: Option<f64>,
    /// The latest service level.
    pub service_level: Option<f64>,
    /// The intervals without a measurement.
    pub held_intervals: u64,
    /// Why the last interval had none.
    pub hold_reason: Option<HoldReason>,
}

/// `PassedInterval` is an interval that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassedInterval {
    /// Its number, from 1.
    pub number: u64,
    /// The time since the division began.
    pub at_ns: u64,
    /// The applications, in the order of the state.
    pub entries: Vec<IntervalEntry>,
    /// What people want to hear of it.
    pub news: Vec<String>,
    /// The domains whose reservations have ended.
    pub ended: Vec<String>,
}

/// `IntervalEntry` is an application in an interval that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalEntry {
    /// The capacity that was in force.
    pub capacity_ns: u64,
    /// The reported matching value.
    pub matching_value: Option<f64>,
    /// The reported service level.
    pub service_level: Option<f64>,
    /// The longest latency of the window.
    pub latency_ns: Option<u64>,
    /// Why there is no report.
    pub hold_reason: Option<HoldReason>,
}

impl IntervalEntry {
    fn new(held: Duration, report: &Result<LevelReport, HoldReason>) -> Self {
        let measured = report.as_ref().ok();
        let latency = measured.and_then(|one| one.latency);
        Self {
            capacity_ns: held.as_nanos(),
            matching_value: measured.map(|one| one.matching_value.as_f64()),
            service_level: measured.and_then(|one| one.service_level),
            latency_ns: latency.map(Duration::as_nanos),
            hold_reason: report.as_ref().err().cloned(),
        }
    }
}

impl DivisionState {
    /// The state before the first interval.
    pub fn of(manager: &CapacityManager, number: u64, name: String) -> Self {
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
            number,
            name,
            interval_ns: manager.interval().as_nanos(),
            whole_ns: manager.whole().as_nanos(),
            intervals: 0,
            refused_changes: 0,
            applications: applications.collect(),
        }
    }

    /// Enters an interval that ended `at` since the begin, and in which the capacities `held` were in force.
    pub fn enter(
        &mut self,
        at: Duration,
        held: &[Duration],
        reports: &[Result<LevelReport, HoldReason>],
        outcome: &IntervalOutcome,
    ) -> PassedInterval {
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
            news.extend(application.enter(&reports[place]));
        }
        let entries = held.iter().zip(reports);
        let entries = entries.map(|(held, report)| IntervalEntry::new(*held, report));
        PassedInterval {
            number: self.intervals,
            at_ns: at.as_nanos(),
            entries: entries.collect(),
            news,
            ended: outcome.ended.clone(),
        }
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
