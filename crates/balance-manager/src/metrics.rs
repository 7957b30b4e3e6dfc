//! Divisions as Prometheus text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tailbound_subsystem::metrics::MetricKind;

use crate::division_state::{ApplicationState, DivisionState};

/// `BalanceMetrics` is what the metrics say of divisions at one instant.
#[derive(Debug)]
pub struct BalanceMetrics {
    /// All that are under way.
    pub divisions: Vec<DivisionState>,
}

impl Collector for BalanceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let name = "tailbound_balance_capacity_seconds";
        let help = "The CPU time per period that an application has of a division.";
        self.gauge(encoder, (name, help), |one| {
            Some(one.capacity_ns as f64 / 1e9)
        })?;
        let name = "tailbound_balance_matching_value";
        let help = "The latest matching value of an application.";
        self.gauge(encoder, (name, help), |one| one.matching_value)?;
        let name = "tailbound_balance_service_level";
        let help = "The latest service level of an application.";
        self.gauge(encoder, (name, help), |one| one.service_level)?;
        let name = "tailbound_balance_reports_missing";
        let help = "Intervals in which an application had no measurement.";
        let missing = self.each().map(|(division, one)| {
            let labels = [("division", division), ("application", one.name.as_str())];
            (labels, one.held_intervals as f64)
        });
        MetricKind::Counter.encode(encoder, (name, help), missing)?;
        let of_divisions = |number: fn(&DivisionState) -> u64| {
            let divisions = self.divisions.iter();
            divisions.map(move |one| ([("division", one.name.as_str())], number(one) as f64))
        };
        let name = "tailbound_balance_intervals";
        let help = "Intervals of a division.";
        MetricKind::Counter.encode(encoder, (name, help), of_divisions(|one| one.intervals))?;
        let name = "tailbound_balance_changes_refused";
        let help = "Changes of budgets that a division wanted and that were refused.";
        let refused = of_divisions(|one| one.refused_changes);
        MetricKind::Counter.encode(encoder, (name, help), refused)
    }
}

impl BalanceMetrics {
    /// Every application, with the name of its division.
    fn each(&self) -> impl Iterator<Item = (&str, &ApplicationState)> {
        let divisions = self.divisions.iter();
        divisions.flat_map(|division| {
            let applications = division.applications.iter();
            applications.map(|one| (division.name.as_str(), one))
        })
    }

    fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        about: (&str, &str),
        number: impl Fn(&ApplicationState) -> Option<f64>,
    ) -> fmt::Result {
        let samples = self.each().filter_map(|(division, one)| {
            let labels = [("division", division), ("application", one.name.as_str())];
            Some((labels, number(one)?))
        });
        MetricKind::Gauge.encode(encoder, about, samples)
    }
}
