//! Laws of times as point masses.

use tailbound_distribution::{StepCdf, StepCdfError};
use tailbound_time::Duration;

/// The shares of equal probability that a law is cut into, each of which stands at its middle.
const SHARES: u32 = 96;

/// The most points of a law that others are added to.
const MOST_POINTS: usize = 512;

/// The most points of a law that is an answer.
const MOST_STEPS: usize = 4096;

/// The points that are gathered before they are thinned.
const MOST_GATHERED: usize = 1 << 20;

/// A law of times, in nanoseconds, as points with probabilities that sum up to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PointMasses {
    /// In ascending order.
    points: Vec<(i64, f64)>,
    /// The probability of each point and all before it.
    cumulative: Vec<f64>,
}

impl PointMasses {
    /// A time that never varies.
    pub fn constant(time: Duration) -> Self {
        Self::gathered(vec![(signed(time), 1.0)])
    }

    /// A law by the time that a share of all values does not exceed.
    pub fn of_quantiles(quantile: impl Fn(f64) -> Duration) -> Self {
        let shares = (0..SHARES).map(|share| {
            let middle = (f64::from(share) + 0.5) / f64::from(SHARES);
            (signed(quantile(middle)), 1.0 / f64::from(SHARES))
        });
        Self::gathered(shares.collect())
    }

    /// The law of points in any order, of which there may be more than a law has.
    pub(super) fn gathered(points: Vec<(i64, f64)>) -> Self {
        let points = thinned(points, MOST_POINTS);
        let mut sum = 0.0;
        let cumulative = points.iter().map(|(_, mass)| {
            sum += mass;
            sum
        });
        Self {
            cumulative: cumulative.collect(),
            points,
        }
    }

    /// The points, in ascending order.
    pub(super) fn points(&self) -> &[(i64, f64)] {
        &self.points
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        let sum_ns: f64 = self.points.iter().map(|(at, mass)| *at as f64 * mass).sum();
        Duration::from_nanos(sum_ns.round() as u64)
    }

    /// The probability of no more than this time.
    pub(super) fn share_until(&self, at_ns: i64) -> f64 {
        let within = self.points.partition_point(|(point, _)| *point <= at_ns);
        match within.checked_sub(1) {
            Some(_) if within == self.points.len() => 1.0,
            Some(last) => self.cumulative[last],
            None => 0.0,
        }
    }
}

pub(super) fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The points in ascending order, each time once. Where these are more than `most`, neighbours are joined at their mean, within
/// equal parts of the range.
fn thinned(mut points: Vec<(i64, f64)>, most: usize) -> Vec<(i64, f64)> {
    let ends = points.iter().map(|(at, _)| *at);
    let (Some(least), Some(longest)) = (ends.clone().min(), ends.max()) else {
        return points;
    };
    if points.len() <= most {
        points.sort_unstable_by_key(|(at, _)| *at);
        points.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
        return points;
    }
    let width_ns = ((longest - least) / most as i64 + 1).max(1);
    let mut parts = vec![(0.0, 0.0); most];
    for (at, mass) in points {
        let from_least = at - least;
        let (weight, moment) = &mut parts[(from_least / width_ns) as usize];
        *weight += mass;
        *moment += mass * from_least as f64;
    }
    let parts = parts.into_iter().filter(|(weight, _)| *weight > 0.0);
    parts
        .map(|(weight, moment)| (least + (moment / weight).round() as i64, weight))
        .collect()
}

/// Values with weights, of which the law is sought.
#[derive(Default)]
pub(super) struct WeightedTimes {
    points: Vec<(i64, f64)>,
}

impl WeightedTimes {
    pub(super) fn push(&mut self, time_ns: i64, weight: f64) {
        if self.points.len() >= MOST_GATHERED {
            self.points = thinned(std::mem::take(&mut self.points), MOST_GATHERED / 16);
        }
        self.points.push((time_ns.max(0), weight));
    }

    /// The distribution function; fails without a value.
    pub(super) fn law(self) -> Result<StepCdf, StepCdfError> {
        let points = thinned(self.points, MOST_STEPS);
        let total: f64 = points.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let steps = points.iter().map(|(at, weight)| {
            sum += weight / total;
            (Duration::from_nanos(at.unsigned_abs()), sum.min(1.0))
        });
        let mut steps: Vec<(Duration, f64)> = steps.collect();
        if let Some(last) = steps.last_mut() {
            last.1 = 1.0;
        }
        StepCdf::new(steps)
    }
}
