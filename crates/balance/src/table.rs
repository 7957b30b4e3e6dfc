//! The table `[balance]` of a description.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_model::{Check, Section};
use tailbound_time::{Duration, Rate};

use crate::rule::highest_gain;
use crate::source::{SourceAddress, SourceAddressError};

/// The usual gain, as published, for an interval of 5 s.
const USUAL_GAIN: f64 = 0.2;

/// Applications that can serve less, among which `tailbound balance` divides CPU time by their matching values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BalanceTable {
    /// The time from one division to the next.
    #[serde(default = "five_seconds")]
    #[schemars(extend("default" = "5s"))]
    pub interval: Duration,
    /// The share of a matching value that a division corrects, at most 1 / the number of applications; 0.2 if left out, or that
    /// limit where 0.2 is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 1.0))]
    pub gain: Option<f64>,
    /// The CPU time that is divided, per period of the applications' reservations.
    #[serde(default)]
    pub capacity: Duration,
    /// The CPU time per period that is left to the manager.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub manager: Duration,
    /// Capacities change once one of them is off by so much per period; at once if left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hysteresis: Duration,
    /// The age of the last request beyond which a report is no measurement; three intervals if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Duration>,
    /// The time that an application has for its report; half of the interval if left out, which is the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<Duration>,
    /// The applications, by name.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub applications: BTreeMap<String, BalancedApplication>,
}

impl Default for BalanceTable {
    fn default() -> Self {
        Self {
            interval: five_seconds(),
            gain: None,
            capacity: Duration::ZERO,
            manager: Duration::ZERO,
            hysteresis: Duration::ZERO,
            stale_after: None,
            answer_within: None,
            applications: BTreeMap::new(),
        }
    }
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn is_zero(length: &Duration) -> bool {
    length.is_zero()
}

fn one() -> u32 {
    1
}

/// An application that can serve less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BalancedApplication {
    /// The domains of the application, which have reservations; the capacity is divided among them as their described budgets are.
    pub domains: Vec<String>,
    /// The place of the report: `http://IP:PORT/PATH`, `unix:PATH` for a socket, or `prometheus:http://IP:PORT` for a server that
    /// answers `query`.
    pub source: String,
    /// The metric that is the matching value, where the source answers in Prometheus' text format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The query whose one value is the matching value, where the source is a Prometheus server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The least capacity, CPU time per period.
    pub least: Duration,
    /// The most capacity; all of it if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Duration>,
    /// The weight: in an overload capacities are in proportion to weights.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1))]
    pub weight: u32,
    /// The service whose promises, by prediction, say the capacity that is not taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// The model of the application, for `--simulate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedApplication>,
}

/// A model of an application with a service level: requests wait in one queue, which is served at the speed of the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedApplication {
    /// The latency that the service level aims at.
    pub deadline: Duration,
    /// The mean CPU time of the mandatory part of a request, exponentially distributed.
    pub mandatory: Duration,
    /// The mean CPU time of the optional part.
    pub optional: Duration,
    /// The load, phase by phase.
    pub phases: Vec<LoadPhase>,
}

/// A part of a load: an open one with a rate, or a closed one with users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadPhase {
    /// The length of the phase.
    pub length: Duration,
    /// The rate of Poisson arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The number of users, in place of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub users: Option<u32>,
    /// The mean of the time from a reply to the user's next request, exponentially distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Duration>,
    /// The report of the application in this phase.
    #[serde(default, skip_serializing_if = "PhaseReport::is_true")]
    #[schemars(extend("default" = "true"))]
    pub report: PhaseReport,
}

/// The report of a modelled application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseReport {
    /// The matching value by the latencies.
    #[default]
    True,
    /// The least matching value, whatever the latencies are.
    Least,
    /// None.
    None,
}

impl PhaseReport {
    fn is_true(&self) -> bool {
        *self == Self::True
    }
}

impl BalancedApplication {
    /// The place of the report.
    ///
    /// # Errors
    /// If the text is no place; a checked description has none of these.
    pub fn source(&self) -> Result<SourceAddress, SourceAddressError> {
        self.source.parse()
    }
}

impl BalanceTable {
    /// The gain: the described one, or the usual one as far as it is stable.
    pub fn gain(&self) -> f64 {
        let usual = || USUAL_GAIN.min(highest_gain(self.applications.len()));
        self.gain.unwrap_or_else(usual)
    }

    /// The age of the last request beyond which a report is no measurement.
    pub fn stale_after(&self) -> Duration {
        let three = || {
            self.interval
                .saturating_add(self.interval)
                .saturating_add(self.interval)
        };
        self.stale_after.unwrap_or_else(three)
    }

    /// The time that an application has for its report.
    pub fn answer_within(&self) -> Duration {
        let half = || Duration::from_nanos(self.interval.as_nanos() / 2);
        self.answer_within.unwrap_or_else(half)
    }

    /// Whether the description has the table.
    pub fn is_described(&self) -> bool {
        !self.applications.is_empty()
    }
}

impl Section for BalanceTable {
    const KEY: &'static str = "balance";

    fn check(&self, check: &mut Check<'_>) {
        if *self != Self::default() {
            crate::table_check::check(self, check);
        }
    }
}
