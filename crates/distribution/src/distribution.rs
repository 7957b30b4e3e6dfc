//! The distribution type.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::{Provenance, StepCdf};

/// A latency distribution with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// What it is and where it comes from.
    pub provenance: Provenance,
    /// Its values.
    pub shape: Shape,
}

/// The values of a distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Every value there is, sorted, in nanoseconds.
    Samples(Vec<Duration>),
    /// One distribution function.
    Curve(StepCdf),
    /// Two that enclose the true one: `optimistic` lies above it (shorter latencies),
    /// `pessimistic` below.
    Bracket {
        /// The function with the shorter latencies.
        optimistic: StepCdf,
        /// The function with the longer latencies.
        pessimistic: StepCdf,
    },
}

/// A value known to lie between two ends; `high` is `None` where it is not bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: Duration,
    /// The upper end.
    pub high: Option<Duration>,
}

impl Distribution {
    /// A distribution of samples, in any order.
    pub fn from_samples(provenance: Provenance, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self {
            provenance,
            shape: Shape::Samples(samples),
        }
    }

    /// A distribution given by one function.
    pub fn from_curve(provenance: Provenance, curve: StepCdf) -> Self {
        Self {
            provenance,
            shape: Shape::Curve(curve),
        }
    }

    /// A distribution enclosed by two functions.
    pub fn from_bracket(provenance: Provenance, optimistic: StepCdf, pessimistic: StepCdf) -> Self {
        Self {
            provenance,
            shape: Shape::Bracket {
                optimistic,
                pessimistic,
            },
        }
    }

    /// The `probability` quantile (nearest rank for samples). `None` for an empty sample.
    pub fn quantile(&self, probability: f64) -> Option<Interval> {
        match &self.shape {
            Shape::Samples(samples) => {
                let rank = (probability * samples.len() as f64).ceil() as usize;
                let value = *samples.get(rank.clamp(1, samples.len().max(1)) - 1)?;
                Some(Interval {
                    low: value,
                    high: Some(value),
                })
            }
            Shape::Curve(curve) => Some(ends(curve, curve, probability)),
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => Some(ends(optimistic, pessimistic, probability)),
        }
    }
}

fn ends(optimistic: &StepCdf, pessimistic: &StepCdf, probability: f64) -> Interval {
    let last = optimistic
        .steps()
        .last()
        .map_or(Duration::ZERO, |(at, _)| *at);
    Interval {
        low: optimistic.quantile(probability).unwrap_or(last),
        high: pessimistic.quantile(probability),
    }
}
