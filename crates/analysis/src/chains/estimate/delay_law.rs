//! Laws of single delays, in the forms that the two methods take.

use tailbound_time::Duration;

use super::point_masses::{PointMasses, signed};

/// The parts of equal probability that times are drawn from, each of which stands at its middle.
const DRAWN_PARTS: u32 = 4096;

/// The law of a delay: the few point masses that others are added to, and the many times of equal probability that one is drawn
/// from.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayLaw {
    masses: PointMasses,
    /// In ascending order; never empty.
    times_ns: Vec<i64>,
}

impl DelayLaw {
    /// A time that never varies.
    pub fn constant(time: Duration) -> Self {
        Self {
            masses: PointMasses::constant(time),
            times_ns: vec![signed(time)],
        }
    }

    /// A law by the time that a share of all values does not exceed.
    pub fn of_quantiles(quantile: impl Fn(f64) -> Duration) -> Self {
        let middles = (0..DRAWN_PARTS).map(|part| (f64::from(part) + 0.5) / f64::from(DRAWN_PARTS));
        Self {
            times_ns: middles.map(|share| signed(quantile(share))).collect(),
            masses: PointMasses::of_quantiles(quantile),
        }
    }

    /// Any time between two with the same probability.
    pub fn uniform(least: Duration, most: Duration) -> Self {
        if most <= least {
            return Self::constant(least);
        }
        let width_ns = most.saturating_sub(least).as_nanos() as f64;
        Self::of_quantiles(|share| {
            least.saturating_add(Duration::from_nanos((share * width_ns).round() as u64))
        })
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        self.masses.mean()
    }

    pub(super) fn masses(&self) -> &PointMasses {
        &self.masses
    }

    /// The time that a share of all values, from 0 to less than 1, does not exceed.
    pub(super) fn time_at(&self, share: f64) -> i64 {
        let part = (share * self.times_ns.len() as f64) as usize;
        self.times_ns[part.min(self.times_ns.len() - 1)]
    }
}
