//! How far two distributions are apart.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use crate::{Distribution, Shape, StepCdf};

/// Unknown mass up to this is left out of a distance: computed curves end within a rounding error
/// of 1, or where an analysis stopped a negligible tail.
const NEGLIGIBLE_MASS: f64 = 1e-9;

/// Why there is no distance.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistanceError {
    /// One of the samples is empty.
    #[error("the {which} distribution is an empty sample")]
    Empty {
        /// Left or right.
        which: &'static str,
    },
    /// Some mass lies nobody knows where, so the distance has no upper bound.
    #[error(
        "{mass} of the {which} distribution's mass lies beyond {beyond}, unknown where; \
         measure the distance up to a probability of at most {}", 1.0 - mass
    )]
    UnknownTail {
        /// Left or right.
        which: &'static str,
        /// How much.
        mass: f64,
        /// What is known of it.
        beyond: Duration,
    },
    /// The probability to measure up to is out of range.
    #[error("a distance up to probability {0} has no meaning; it must lie above 0 and not above 1")]
    Probability(f64),
}

/// The Wasserstein-1 distance of two distributions: the mean distance between their quantiles at
/// the same probability, which is the area between their distribution functions (Vallender 1973).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wasserstein1 {
    /// No pair of functions within the brackets is closer.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The distance between the quantiles halfway through the brackets; the distance itself where
    /// nothing is a bracket.
    #[serde(rename = "midpoint_ns", with = "nanoseconds")]
    pub midpoint: Duration,
    /// No pair of functions within the brackets is further apart.
    #[serde(rename = "high_ns", with = "nanoseconds")]
    pub high: Duration,
    /// The probability up to which quantiles were compared; 1 for the whole distributions.
    pub covered: f64,
}

/// The distance over the whole distributions; exact to the nanosecond for two samples.
///
/// # Errors
/// [`DistanceError::UnknownTail`] where more than 10^-9 of one's mass lies nobody knows where, as
/// with censored values or curves that stop short; [`wasserstein1_up_to`] leaves the tail out.
pub fn wasserstein1(
    left: &Distribution,
    right: &Distribution,
) -> Result<Wasserstein1, DistanceError> {
    if let (Shape::Samples(left), Shape::Samples(right)) = (&left.shape, &right.shape)
        && !left.is_empty()
        && !right.is_empty()
    {
        let distance = between_samples(left, right);
        return Ok(Wasserstein1 {
            low: distance,
            midpoint: distance,
            high: distance,
            covered: 1.0,
        });
    }
    wasserstein1_up_to(left, right, 1.0)
}

/// The same over the quantiles from 0 to `probability` alone: the integral of their distance,
/// which leaves out what lies beyond.
///
/// # Errors
/// [`DistanceError::UnknownTail`] where one's quantiles are not known up to `probability`.
pub fn wasserstein1_up_to(
    left: &Distribution,
    right: &Distribution,
    probability: f64,
) -> Result<Wasserstein1, DistanceError> {
    if !(probability > 0.0 && probability <= 1.0) {
        return Err(DistanceError::Probability(probability));
    }
    let left = DistributionEnds::of(left, "left", probability)?;
    let right = DistributionEnds::of(right, "right", probability)?;
    let mut cursors = [
        Cursor::new(&left.optimistic),
        Cursor::new(&left.pessimistic),
        Cursor::new(&right.optimistic),
        Cursor::new(&right.pessimistic),
    ];
    let (mut low, mut midpoint, mut high) = (0.0, 0.0, 0.0);
    let mut level = 0.0;
    while level < probability {
        let next = cursors
            .iter_mut()
            .map(|cursor| cursor.advance(level))
            .fold(probability, f64::min);
        let [a, b, c, d] = [0, 1, 2, 3].map(|index: usize| cursors[index].value_ns());
        let (left_low, left_high) = (a.min(b), a.max(b));
        let (right_low, right_high) = (c.min(d), c.max(d));
        let width = next - level;
        low += width * (right_low - left_high).max(left_low - right_high).max(0.0);
        high += width * (right_high - left_low).max(left_high - right_low);
        midpoint += width * ((left_low + left_high) - (right_low + right_high)).abs() / 2.0;
        level = next;
    }
    debug_assert!(low <= midpoint + 1.0 + 1e-9 * high && midpoint <= high + 1.0 + 1e-9 * high);
    let nearest = |sum_ns: f64| Duration::from_nanos(sum_ns.round() as u64);
    Ok(Wasserstein1 {
        low: nearest(low),
        midpoint: nearest(midpoint),
        high: nearest(high),
        covered: probability,
    })
}

/// The Kolmogorov-Smirnov distance, the largest difference of the two distribution functions, as
/// its lower and upper bound; they are the same where nothing is a bracket and all mass is known.
///
/// # Errors
/// [`DistanceError::Empty`] for an empty sample.
pub fn kolmogorov_smirnov(
    left: &Distribution,
    right: &Distribution,
) -> Result<(f64, f64), DistanceError> {
    let mut points: Vec<Duration> = Vec::new();
    for (distribution, which) in [(left, "left"), (right, "right")] {
        let optimistic = distribution.optimistic();
        let pessimistic = distribution.pessimistic();
        for function in [optimistic, pessimistic] {
            let function = function.ok_or(DistanceError::Empty { which })?;
            points.extend(function.steps().iter().map(|(at, _)| *at));
        }
    }
    points.sort_unstable();
    points.dedup();
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for at in points {
        let (left_low, left_high) = left.cdf(at);
        let (right_low, right_high) = right.cdf(at);
        low = low.max(right_low - left_high).max(left_low - right_high);
        high = high.max(right_high - left_low).max(left_high - right_low);
    }
    debug_assert!(low <= high, "the bounds of a distance: {low} to {high}");
    Ok((low, high))
}

/// The two functions that enclose a distribution.
struct DistributionEnds<'a> {
    optimistic: Cow<'a, StepCdf>,
    pessimistic: Cow<'a, StepCdf>,
}

impl<'a> DistributionEnds<'a> {
    fn of(
        distribution: &'a Distribution,
        which: &'static str,
        probability: f64,
    ) -> Result<Self, DistanceError> {
        let empty = DistanceError::Empty { which };
        let optimistic = distribution.optimistic().ok_or(empty.clone())?;
        let pessimistic = distribution.pessimistic().ok_or(empty)?;
        let mass = pessimistic.unknown_mass();
        if mass > (1.0 - probability) + NEGLIGIBLE_MASS {
            return Err(DistanceError::UnknownTail {
                which,
                mass,
                beyond: pessimistic.last(),
            });
        }
        Ok(Self {
            optimistic,
            pessimistic,
        })
    }
}

/// Walks up a function by its probability.
struct Cursor<'a> {
    steps: &'a [(Duration, f64)],
    index: usize,
}

impl<'a> Cursor<'a> {
    fn new(function: &'a StepCdf) -> Self {
        Self {
            steps: function.steps(),
            index: 0,
        }
    }

    /// Moves to the step that holds the quantiles just above `level`, and tells where it ends; the
    /// last step holds all that is left.
    fn advance(&mut self, level: f64) -> f64 {
        while self.index + 1 < self.steps.len() && self.steps[self.index].1 <= level {
            self.index += 1;
        }
        let end = self.steps[self.index].1;
        if end > level { end } else { f64::INFINITY }
    }

    fn value_ns(&self) -> f64 {
        self.steps[self.index].0.as_nanos() as f64
    }
}

/// The mean distance of the quantiles of two sorted samples, in integers: every one of `left` has
/// the weight of the count of `right`, and the other way round.
fn between_samples(left: &[Duration], right: &[Duration]) -> Duration {
    let (left_weight, right_weight) = (right.len() as u128, left.len() as u128);
    let (mut left_rest, mut right_rest) = (left_weight, right_weight);
    let (mut left_index, mut right_index) = (0, 0);
    let mut sum: u128 = 0;
    while left_index < left.len() && right_index < right.len() {
        let weight = left_rest.min(right_rest);
        let gap = left[left_index]
            .as_nanos()
            .abs_diff(right[right_index].as_nanos());
        sum = sum.saturating_add(u128::from(gap).saturating_mul(weight));
        left_rest -= weight;
        right_rest -= weight;
        if left_rest == 0 {
            left_index += 1;
            left_rest = left_weight;
        }
        if right_rest == 0 {
            right_index += 1;
            right_rest = right_weight;
        }
    }
    let total = left_weight * right_weight;
    let mean = (sum + total / 2) / total;
    Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
}
