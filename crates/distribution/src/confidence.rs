//! Confidence intervals for quantiles, from order statistics alone.
//!
//! The count of samples at or below the true quantile is binomial whatever the distribution is,
//! so two order statistics enclose the quantile with a probability that the binomial distribution
//! gives exactly (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). It takes the
//! samples for independent; latencies of one queue are not quite that, so with long busy periods
//! the interval is narrower than it should be.

use tailbound_time::Duration;

use crate::distribution::order_statistic;
use crate::{Distribution, Interval, Shape};

/// Weights of the binomial distribution below this share of the largest one are left out.
const NEGLIGIBLE_WEIGHT: f64 = 1e-30;

impl Distribution {
    /// An interval that encloses the true `probability` quantile with at least `confidence`, both
    /// between 0 and 1, with the same chance of error on either side.
    ///
    /// Where the samples are too few for an upper end (there are `n` and `probability^n` is above
    /// half the allowed error), or it falls among censored values, the upper end is `None`; where
    /// they are too few for a lower one, it is zero. `None` for curves, brackets, empty samples
    /// and arguments out of range.
    pub fn confidence_interval(&self, probability: f64, confidence: f64) -> Option<Interval> {
        if matches!(self.shape, Shape::Curve(_) | Shape::Bracket { .. }) {
            return None;
        }
        let inside = |share: f64| share > 0.0 && share < 1.0;
        if !inside(probability) || !inside(confidence) {
            return None;
        }
        let (samples, censored) = (self.samples(), self.censored());
        let count = samples.len() + censored.len();
        if count == 0 {
            return None;
        }
        let error = (1.0 - confidence) / 2.0;
        let ranks = Ranks::enclosing(count, probability, error);
        let low = match ranks.lower {
            Some(rank) => order_statistic(samples, censored, rank - 1)?,
            None => Duration::ZERO,
        };
        let high = ranks.upper.and_then(|rank| samples.get(rank - 1).copied());
        Some(Interval { low, high })
    }
}

/// Ranks, from 1, of the order statistics that enclose a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ranks {
    lower: Option<usize>,
    upper: Option<usize>,
}

impl Ranks {
    /// With `K` binomial over `count` samples: the greatest `lower` with Pr(K < lower) <= `error`
    /// and the least `upper` with Pr(K >= upper) <= `error`.
    fn enclosing(count: usize, probability: f64, error: f64) -> Self {
        let (first, weights) = binomial_weights(count, probability);
        let total: f64 = weights.iter().sum();
        let allowed = error * total;
        let mut below = 0.0;
        let mut lower = first;
        for weight in &weights {
            below += weight;
            if below > allowed {
                break;
            }
            lower += 1;
        }
        let mut above = 0.0;
        let mut upper = first + weights.len();
        for weight in weights.iter().rev() {
            above += weight;
            if above > allowed {
                break;
            }
            upper -= 1;
        }
        debug_assert!(
            lower <= upper,
            "the ranks enclose the quantile: {lower} to {upper}"
        );
        Self {
            lower: (lower >= 1).then_some(lower),
            upper: (upper <= count).then_some(upper),
        }
    }
}

/// The binomial probabilities of `first`, `first + 1`, ..., up to a common factor.
///
/// They follow from the largest one by the ratio of neighbours, so nothing overflows and no
/// approximation comes in; what is left out on either side is below 10^-30 of the largest.
fn binomial_weights(count: usize, probability: f64) -> (usize, Vec<f64>) {
    let odds = probability / (1.0 - probability);
    let mode = (((count + 1) as f64 * probability).floor() as usize).min(count);
    let mut rising = Vec::new();
    let mut weight = 1.0;
    for k in mode + 1..=count {
        weight *= (count - k + 1) as f64 / k as f64 * odds;
        if weight < NEGLIGIBLE_WEIGHT {
            break;
        }
        rising.push(weight);
    }
    let mut weights = Vec::new();
    let mut weight = 1.0;
    let mut first = mode;
    for k in (0..mode).rev() {
        weight *= (k + 1) as f64 / (count - k) as f64 / odds;
        if weight < NEGLIGIBLE_WEIGHT {
            break;
        }
        weights.push(weight);
        first = k;
    }
    weights.reverse();
    weights.push(1.0);
    weights.append(&mut rising);
    (first, weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Evidence, Provenance};

    fn counted(count: u64) -> Distribution {
        Distribution::from_samples(
            Provenance::new(Evidence::Sample, "test", "counting"),
            (1..=count).map(Duration::from_nanos).collect(),
        )
    }

    fn exactly(low: u64, high: Option<u64>) -> Option<Interval> {
        Some(Interval {
            low: Duration::from_nanos(low),
            high: high.map(Duration::from_nanos),
        })
    }

    /// Ranks from published tables of the distribution-free interval for the median: for n = 10
    /// and 95% ranks 2 and 9 (98% reached), for n = 20 ranks 6 and 15.
    #[test]
    fn median_ranks_are_those_of_the_tables() {
        assert_eq!(
            counted(10).confidence_interval(0.5, 0.95),
            exactly(2, Some(9))
        );
        assert_eq!(
            counted(20).confidence_interval(0.5, 0.95),
            exactly(6, Some(15))
        );
    }

    /// For five samples the largest possible interval reaches only 1 - 2 / 32 = 93.75%.
    #[test]
    fn too_few_samples_leave_the_ends_open() {
        assert_eq!(counted(5).confidence_interval(0.5, 0.95), exactly(0, None));
        assert_eq!(
            counted(5).confidence_interval(0.5, 0.93),
            exactly(1, Some(5))
        );
    }

    /// An upper end for p99 at 95% needs 0.99^n <= 0.025, so n >= 368.
    #[test]
    fn tail_quantiles_need_enough_samples() {
        let high = |count| counted(count).confidence_interval(0.99, 0.95).unwrap().high;
        assert_eq!(high(367), None);
        assert_eq!(high(368), Some(Duration::from_nanos(368)));
    }

    #[test]
    fn censored_values_open_the_upper_end() {
        let provenance = Provenance::new(Evidence::Sample, "test", "counting");
        let samples = (1..=900).map(Duration::from_nanos).collect();
        let censored = vec![Duration::from_nanos(500); 100];
        let distribution = Distribution::from_censored(provenance, samples, censored);
        let tail = distribution.confidence_interval(0.95, 0.95).unwrap();
        assert_eq!(tail.high, None);
        assert!(tail.low > Duration::from_nanos(500));
        assert!(
            distribution
                .confidence_interval(0.5, 0.95)
                .unwrap()
                .high
                .is_some()
        );
    }

    #[test]
    fn huge_counts_neither_overflow_nor_lose_the_middle() {
        let ranks = Ranks::enclosing(10_000_000, 0.999, 0.025);
        let (lower, upper) = (ranks.lower.unwrap(), ranks.upper.unwrap());
        // Standard deviation 99.95, times 1.96, on either side of 9,990,000.
        assert!((9_989_800..9_989_808).contains(&lower), "{lower}");
        assert!((9_990_193..9_990_202).contains(&upper), "{upper}");
    }
}
