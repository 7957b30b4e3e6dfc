//! A cumulative distribution function as a list of steps.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// Why a list of steps is no distribution function.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepCdfError {
    /// There is no step.
    #[error("a distribution needs at least one step")]
    Empty,
    /// Two steps are out of order.
    #[error("step {index} at {at} does not lie after the one before it")]
    NotIncreasing {
        /// Which step.
        index: usize,
        /// Where it lies.
        at: Duration,
    },
    /// A cumulative probability is out of range or falls.
    #[error(
        "step {index} has cumulative probability {cumulative}; it must not fall and stay in [0, 1]"
    )]
    NotCumulative {
        /// Which step.
        index: usize,
        /// What it has.
        cumulative: f64,
    },
}

/// A right-continuous distribution function: at and after `steps[i].0` its value is `steps[i].1`.
///
/// The last value may be below 1: the rest of the mass lies beyond, unknown where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCdf {
    steps: Vec<(Duration, f64)>,
}

impl StepCdf {
    /// A function with these `steps`, strictly increasing in time, cumulative in probability.
    ///
    /// # Errors
    /// [`StepCdfError`] names the first step that breaks the order.
    pub fn new(steps: Vec<(Duration, f64)>) -> Result<Self, StepCdfError> {
        if steps.is_empty() {
            return Err(StepCdfError::Empty);
        }
        let mut before: Option<(Duration, f64)> = None;
        for (index, &(at, cumulative)) in steps.iter().enumerate() {
            let floor = before.map_or(0.0, |(_, value)| value);
            if before.is_some_and(|(earlier, _)| at <= earlier) {
                return Err(StepCdfError::NotIncreasing { index, at });
            }
            if !(cumulative >= floor && cumulative <= 1.0) {
                return Err(StepCdfError::NotCumulative { index, cumulative });
            }
            before = Some((at, cumulative));
        }
        Ok(Self { steps })
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[(Duration, f64)] {
        &self.steps
    }

    /// Pr(value <= `at`).
    pub fn value(&self, at: Duration) -> f64 {
        let after = self.steps.partition_point(|(step, _)| *step <= at);
        if after == 0 {
            0.0
        } else {
            self.steps[after - 1].1
        }
    }

    /// The least value with at least this cumulative probability; `None` if it lies beyond.
    pub fn quantile(&self, probability: f64) -> Option<Duration> {
        let index = self
            .steps
            .partition_point(|(_, cumulative)| *cumulative < probability);
        self.steps.get(index).map(|(at, _)| *at)
    }
}
