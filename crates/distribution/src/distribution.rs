//! The distribution type.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use crate::arrival::{ArrivalOrder, DistributionDocument};
use crate::step::PROBABILITY_TOLERANCE;
use crate::{Provenance, StepCdf};

/// A latency distribution with its provenance.
///
/// As JSON all times are integers of nanoseconds in fields whose names end in `_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "DistributionDocument")]
pub struct Distribution {
    /// What it is and where it comes from.
    pub provenance: Provenance,
    /// Its values.
    pub shape: Shape,
    /// The order in which its values arrived, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arrival_order: Option<Box<ArrivalOrder>>,
}

/// The values of a distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Every value there is, sorted, in nanoseconds.
    #[serde(rename = "samples_ns")]
    Samples(#[serde(with = "nanoseconds::sorted")] Vec<Duration>),
    /// Values of which some are known only to be at least so long, such as the latencies of
    /// requests that were never answered while the run lasted.
    Censored {
        /// The values that are known, sorted.
        #[serde(rename = "samples_ns", with = "nanoseconds::sorted")]
        samples: Vec<Duration>,
        /// For each of the others a value that it is not below, sorted.
        #[serde(rename = "at_least_ns", with = "nanoseconds::sorted")]
        censored: Vec<Duration>,
    },
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
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The upper end.
    #[serde(rename = "high_ns", with = "nanoseconds::optional")]
    pub high: Option<Duration>,
}

impl Interval {
    /// A value that is known.
    pub const fn exactly(value: Duration) -> Self {
        Self {
            low: value,
            high: Some(value),
        }
    }

    /// A value between two ends, in either order: two bounds computed in floats may cross by a
    /// rounding error, and the interval must hold both.
    pub fn between(one: Duration, other: Option<Duration>) -> Self {
        match other {
            Some(end) => Self {
                low: one.min(end),
                high: Some(one.max(end)),
            },
            None => Self {
                low: one,
                high: None,
            },
        }
    }

    /// The value, where both ends are the same.
    pub fn exact(&self) -> Option<Duration> {
        self.high.filter(|high| *high == self.low)
    }
}

impl Distribution {
    /// A distribution of samples, in any order.
    pub fn from_samples(provenance: Provenance, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self {
            provenance,
            shape: Shape::Samples(samples),
            arrival_order: None,
        }
    }

    /// A distribution of samples and of values known only to be at least as long as the entries
    /// of `censored`, both in any order. Without any such value the shape is [`Shape::Samples`].
    pub fn from_censored(
        provenance: Provenance,
        mut samples: Vec<Duration>,
        mut censored: Vec<Duration>,
    ) -> Self {
        if censored.is_empty() {
            return Self::from_samples(provenance, samples);
        }
        samples.sort_unstable();
        censored.sort_unstable();
        Self {
            provenance,
            shape: Shape::Censored { samples, censored },
            arrival_order: None,
        }
    }

    /// A distribution given by one function.
    pub fn from_curve(provenance: Provenance, curve: StepCdf) -> Self {
        Self {
            provenance,
            shape: Shape::Curve(curve),
            arrival_order: None,
        }
    }

    /// A distribution enclosed by two functions. Where they cross, the outer of the two counts.
    pub fn from_bracket(provenance: Provenance, optimistic: StepCdf, pessimistic: StepCdf) -> Self {
        Self {
            provenance,
            shape: Shape::Bracket {
                optimistic,
                pessimistic,
            },
            arrival_order: None,
        }
    }

    /// The bracket with what is known at single points beside it: quantiles by their probabilities, and the
    /// lower and upper end of the cumulative probability at single times. Any other shape stays as it is.
    ///
    /// Before the low end of a quantile the cumulative probability is below its probability by twice
    /// [`PROBABILITY_TOLERANCE`], since [`Distribution::quantile`] takes less for equal.
    #[must_use]
    pub fn tightened(
        mut self,
        quantiles: &[(f64, Interval)],
        shares: &[(Duration, (f64, f64))],
    ) -> Self {
        if let Shape::Bracket {
            optimistic,
            pessimistic,
        } = &mut self.shape
        {
            for (probability, at) in quantiles {
                *optimistic =
                    optimistic.capped_before(at.low, probability - 2.0 * PROBABILITY_TOLERANCE);
                if let Some(high) = at.high {
                    *pessimistic = pessimistic.raised_from(high, *probability);
                }
            }
            for (at, (low, high)) in shares {
                let after = at.saturating_add(Duration::from_nanos(1));
                *optimistic = optimistic.capped_before(after, high.clamp(0.0, 1.0));
                *pessimistic = pessimistic.raised_from(*at, low.clamp(0.0, 1.0));
            }
        }
        self
    }

    /// The known samples, sorted; empty for curves and brackets.
    pub fn samples(&self) -> &[Duration] {
        match &self.shape {
            Shape::Samples(samples) | Shape::Censored { samples, .. } => samples,
            Shape::Curve(_) | Shape::Bracket { .. } => &[],
        }
    }

    /// The values known only to be at least so long, sorted.
    pub fn censored(&self) -> &[Duration] {
        match &self.shape {
            Shape::Censored { censored, .. } => censored,
            _ => &[],
        }
    }

    /// How many values were observed, the censored ones included; `None` for curves and brackets.
    pub fn count(&self) -> Option<u64> {
        match &self.shape {
            Shape::Samples(samples) => Some(samples.len() as u64),
            Shape::Censored { samples, censored } => Some((samples.len() + censored.len()) as u64),
            Shape::Curve(_) | Shape::Bracket { .. } => None,
        }
    }

    /// The `probability` quantile: the least value with at least this cumulative probability
    /// (nearest rank for samples). `None` for an empty sample; the upper end is `None` where the
    /// quantile falls into mass that is not known.
    pub fn quantile(&self, probability: f64) -> Option<Interval> {
        match &self.shape {
            Shape::Samples(samples) => {
                let value = *samples.get(nearest_rank(probability, samples.len())?)?;
                Some(Interval::exactly(value))
            }
            Shape::Censored { samples, censored } => {
                let index = nearest_rank(probability, samples.len() + censored.len())?;
                Some(Interval {
                    low: order_statistic(samples, censored, index)?,
                    high: samples.get(index).copied(),
                })
            }
            Shape::Curve(curve) => Some(ends(curve, curve, probability)),
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => Some(ends(optimistic, pessimistic, probability)),
        }
    }

    /// Pr(value <= `at`), as its lower and upper end; (0, 1) for an empty sample.
    pub fn cdf(&self, at: Duration) -> (f64, f64) {
        match &self.shape {
            Shape::Samples(_) | Shape::Censored { .. } => {
                let (samples, censored) = (self.samples(), self.censored());
                let total = samples.len() + censored.len();
                if total == 0 {
                    return (0.0, 1.0);
                }
                let certain = samples.partition_point(|value| *value <= at);
                let possible = censored.partition_point(|value| *value <= at);
                let share = |count: usize| count as f64 / total as f64;
                (share(certain), share(certain + possible))
            }
            Shape::Curve(curve) => value_ends(curve, curve, at),
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => value_ends(optimistic, pessimistic, at),
        }
    }

    /// The mean, to the nearest nanosecond. `None` for an empty sample; the upper end is `None`
    /// where some mass is not known.
    pub fn mean(&self) -> Option<Interval> {
        match &self.shape {
            Shape::Samples(samples) => Some(Interval::exactly(integer_mean(
                samples,
                &[],
                samples.len(),
            )?)),
            Shape::Censored { samples, censored } => Some(Interval {
                low: integer_mean(samples, censored, samples.len() + censored.len())?,
                high: None,
            }),
            Shape::Curve(curve) => Some(mean_ends(curve, curve)),
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => Some(mean_ends(optimistic, pessimistic)),
        }
    }

    /// The shortest value. `None` for an empty sample.
    pub fn min(&self) -> Option<Interval> {
        match &self.shape {
            Shape::Samples(samples) => samples.first().copied().map(Interval::exactly),
            Shape::Censored { samples, censored } => Some(Interval {
                low: order_statistic(samples, censored, 0)?,
                high: samples.first().copied(),
            }),
            Shape::Curve(_) | Shape::Bracket { .. } => self.quantile(f64::MIN_POSITIVE.max(1e-14)),
        }
    }

    /// The longest value. `None` for an empty sample; its upper end is `None` where some mass is
    /// not known.
    pub fn max(&self) -> Option<Interval> {
        self.quantile(1.0)
    }

    /// The function with the shortest latencies that is still possible: unknown mass lies where
    /// it begins to be unknown. `None` for an empty sample.
    pub fn optimistic(&self) -> Option<Cow<'_, StepCdf>> {
        match &self.shape {
            Shape::Samples(samples) => {
                StepCdf::empirical(samples, samples.len(), Duration::ZERO).map(Cow::Owned)
            }
            Shape::Censored { samples, censored } => {
                let mut all = [samples.as_slice(), censored.as_slice()].concat();
                all.sort_unstable();
                StepCdf::empirical(&all, all.len(), Duration::ZERO).map(Cow::Owned)
            }
            Shape::Curve(curve)
            | Shape::Bracket {
                optimistic: curve, ..
            } => Some(if curve.unknown_mass() > 0.0 {
                Cow::Owned(curve.completed())
            } else {
                Cow::Borrowed(curve)
            }),
        }
    }

    /// The function with the longest latencies that is still possible: unknown mass is left out,
    /// so its last value may stay below 1. `None` for an empty sample.
    pub fn pessimistic(&self) -> Option<Cow<'_, StepCdf>> {
        match &self.shape {
            Shape::Samples(samples) => {
                StepCdf::empirical(samples, samples.len(), Duration::ZERO).map(Cow::Owned)
            }
            Shape::Censored { samples, censored } => {
                let total = samples.len() + censored.len();
                let last_known = censored.last().copied().unwrap_or(Duration::ZERO);
                StepCdf::empirical(samples, total, last_known).map(Cow::Owned)
            }
            Shape::Curve(curve)
            | Shape::Bracket {
                pessimistic: curve, ..
            } => Some(Cow::Borrowed(curve)),
        }
    }

    /// The same distribution as a curve or a bracket of at most about `points` steps each, for a
    /// plot; see [`StepCdf::decimate`]. `None` for an empty sample.
    pub fn decimate(&self, points: usize) -> Option<Self> {
        let pessimistic = self.pessimistic()?.decimate(points);
        let exact = matches!(self.shape, Shape::Samples(_) | Shape::Curve(_));
        let shape = if exact {
            Shape::Curve(pessimistic)
        } else {
            Shape::Bracket {
                optimistic: self.optimistic()?.decimate(points),
                pessimistic,
            }
        };
        Some(Self {
            provenance: self.provenance.clone(),
            shape,
            arrival_order: None,
        })
    }
}

/// The index, from 0, of the value at `probability` among `count` sorted ones by nearest rank.
/// A product that misses an integer only by the rounding of floats counts as that integer.
pub(crate) fn nearest_rank(probability: f64, count: usize) -> Option<usize> {
    if count == 0 || probability.is_nan() {
        return None;
    }
    let product = probability.clamp(0.0, 1.0) * count as f64;
    let rank = (product * (1.0 - PROBABILITY_TOLERANCE)).ceil() as usize;
    Some(rank.clamp(1, count) - 1)
}

/// The value at `index` of the two sorted lists taken together.
pub(crate) fn order_statistic(
    one: &[Duration],
    other: &[Duration],
    index: usize,
) -> Option<Duration> {
    // How many of the first index + 1 come from `one`: the least count that leaves the rest of
    // `other` no smaller than the next of `one`.
    let (mut low, mut high) = (
        (index + 1).saturating_sub(other.len()),
        one.len().min(index + 1),
    );
    if index >= one.len() + other.len() {
        return None;
    }
    while low < high {
        let from_one = low + (high - low) / 2;
        let from_other = index + 1 - from_one;
        if from_other > 0 && one[from_one] < other[from_other - 1] {
            low = from_one + 1;
        } else {
            high = from_one;
        }
    }
    let from_other = index + 1 - low;
    let last_of_one = low.checked_sub(1).map(|last| one[last]);
    let last_of_other = from_other.checked_sub(1).map(|last| other[last]);
    last_of_one.max(last_of_other)
}

fn integer_mean(samples: &[Duration], censored: &[Duration], count: usize) -> Option<Duration> {
    let sum: u128 = samples
        .iter()
        .chain(censored)
        .map(|value| u128::from(value.as_nanos()))
        .sum();
    let count = count as u128;
    let mean = (sum + count / 2).checked_div(count)?;
    Some(Duration::from_nanos(
        u64::try_from(mean).unwrap_or(u64::MAX),
    ))
}

fn ends(optimistic: &StepCdf, pessimistic: &StepCdf, probability: f64) -> Interval {
    let low = optimistic
        .quantile(probability)
        .unwrap_or_else(|| optimistic.last());
    Interval::between(low, pessimistic.quantile(probability))
}

fn value_ends(optimistic: &StepCdf, pessimistic: &StepCdf, at: Duration) -> (f64, f64) {
    let one = pessimistic.value(at);
    let other = if at >= optimistic.last() {
        1.0
    } else {
        optimistic.value(at)
    };
    (one.min(other), one.max(other))
}

fn mean_ends(optimistic: &StepCdf, pessimistic: &StepCdf) -> Interval {
    let is_complete = pessimistic.unknown_mass() <= 0.0;
    Interval::between(
        optimistic.mean_at_least(),
        is_complete.then(|| pessimistic.mean_at_least()),
    )
}
