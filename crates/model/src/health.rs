//! Health monitoring of a domain, as ARINC 653 has it for partitions: the events of a run, and the response to each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The response of `run` to the events of a domain's health. Every event is recorded, whatever the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The response to the end of a program of the domain.
    #[serde(default)]
    pub exit: HealthResponse,
    /// The response to a time partition that uses more CPU time after the end of a window than `overrun_tolerance`
    /// of its reservation's options.
    #[serde(default)]
    pub overrun: HealthResponse,
    /// The response to a window that passes without being opened.
    #[serde(default)]
    pub missed_window: HealthResponse,
    /// The number of restarts within `interval` at most; one more is a stop.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 3))]
    pub restarts: u32,
    /// The time in which `restarts` are counted.
    #[serde(default = "ten_seconds")]
    #[schemars(extend("default" = "10s"))]
    pub interval: Duration,
}

/// The response to an event of a domain's health.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HealthResponse {
    /// None but the record.
    #[default]
    Ignore,
    /// All programs of the domain are killed and started anew, under a new reservation.
    Restart,
    /// All programs of the domain are killed, and its reservation ends.
    Stop,
}

/// The most restarts of a domain within an interval.
pub const MOST_RESTARTS: u32 = 1000;

fn three() -> u32 {
    3
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

impl Default for Health {
    fn default() -> Self {
        Self {
            exit: HealthResponse::default(),
            overrun: HealthResponse::default(),
            missed_window: HealthResponse::default(),
            restarts: three(),
            interval: ten_seconds(),
        }
    }
}

impl Health {
    /// The responses, by the key of the event.
    pub fn responses(&self) -> [(&'static str, HealthResponse); 3] {
        [
            ("exit", self.exit),
            ("overrun", self.overrun),
            ("missed_window", self.missed_window),
        ]
    }
}
