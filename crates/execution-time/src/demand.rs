//! The cycles that a workload needs of each clock, and its time at any set point.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_time::Duration;

use crate::design::inverse_seconds;
use crate::frequency::Frequency;
use crate::run_table::{CORE, SetPoint};

/// A workload as it was measured: its time and its counted events.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedWorkload {
    /// The program.
    pub program: String,
    /// The set point meanwhile; `None` where it was measured on another host than that of the model.
    pub set_point: Option<SetPoint>,
    /// The execution time.
    pub time: Duration,
    /// The counted events by name.
    pub counts: BTreeMap<String, f64>,
}

/// Cycles of each clock in one execution: `C_x` of equation 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CycleDemand {
    /// Cycles by clock. Those of the clock `constant` are nanoseconds that no clock changes.
    pub cycles: BTreeMap<String, f64>,
    /// Whether the terms of the model exceeded the measured time, and were reduced to it: the workload is more bound to
    /// memory than the model can say.
    pub limited: bool,
}

impl CycleDemand {
    /// The execution time at a set point, in seconds: one multiplication a clock.
    pub fn seconds_at(&self, set_point: &SetPoint) -> f64 {
        let parts = self.cycles.iter();
        parts
            .map(|(clock, cycles)| cycles * inverse_seconds(set_point, clock))
            .sum()
    }

    /// The demand of a workload that took `time` at `set_point`, with `cycles` of the clocks other than the core's by
    /// the model; the rest of the time is the core's (equation 4). Cycles that exceed the measured time are reduced to
    /// it.
    pub(crate) fn measured(
        time: Duration,
        set_point: &SetPoint,
        cycles: BTreeMap<String, f64>,
    ) -> Self {
        let mut demand = Self {
            cycles,
            limited: false,
        };
        let others = demand.seconds_at(set_point);
        let measured = time.as_secs_f64();
        if others > measured {
            demand.limited = true;
            for cycles in demand.cycles.values_mut() {
                *cycles *= measured / others;
            }
        }
        let core = (measured - others).max(0.0) * set_point.core().as_hertz_f64();
        *demand.cycles.entry(CORE.to_owned()).or_default() += core;
        demand
    }

    /// The share of the time at a set point that depends on a clock.
    pub fn share_of(&self, clock: &str, set_point: &SetPoint) -> f64 {
        let cycles = self.cycles.get(clock).copied().unwrap_or(0.0);
        let all = self.seconds_at(set_point);
        if all > 0.0 {
            cycles * inverse_seconds(set_point, clock) / all
        } else {
            0.0
        }
    }
}

/// The time of the naive model, in seconds: all cycles are the core's.
pub fn naive_seconds(seconds: f64, from: Frequency, to: Frequency) -> f64 {
    seconds * from.as_hertz_f64() / to.as_hertz_f64()
}
