//! Confidence intervals of quantiles, by ranks.
//!
//! The count of independent samples at or below the true quantile is binomial whatever the distribution is,
//! so two order statistics enclose the quantile with a probability that the binomial distribution
//! gives exactly (David and Nagaraja, Order Statistics, 3rd ed., section 7.1).
//!
//! Latencies of one queue depend on each other, and say as much as fewer independent ones. Where their order of
//! arrival is known, the ranks are those of so few, as for a sample of clusters (Korn and Graubard, Confidence
//! intervals for proportions with small expected number of positive counts, Survey Methodology 24, 1998); how few
//! comes from batches of consecutive requests (see `dependence.rs`). A run that happens to miss the long busy
//! periods seems short of memory, too, so the upper end asks how few it would be if the quantile lay there.
//! Where the order is not known, latencies are taken for independent, and the interval is too narrow where
//! requests queue.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::arrival::ArrivalOrder;
use crate::dependence::{BATCHES, Inflation, LONG_BATCHES};
use crate::distribution::{nearest_rank, order_statistic};
use crate::{Distribution, Interval, Shape};

/// The relative width on either side to which [`QuantileInterval::length_factor`] refers.
pub const WANTED_WIDTH: f64 = 0.1;
/// A run with fewer independent requests beyond a quantile than this says nothing reliable of it.
pub const LEAST_BEYOND: f64 = 10.0;
/// A run that is fewer times as long as its queue remembers says nothing reliable of any quantile.
const LEAST_MEMORIES: f64 = 30.0;
/// Weights of the binomial distribution below this share of the largest one are left out.
const NEGLIGIBLE_WEIGHT: f64 = 1e-30;

/// How the confidence interval of a measured quantile comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// By order statistics, which take latencies for independent of each other: where requests queue, the interval
    /// is too narrow.
    #[default]
    OrderStatistics,
    /// By batches of consecutive requests, which show how much latencies depend on each other.
    BatchMeans,
    /// By the scatter, from run to run, of the queue that was fitted to the measurement.
    FittedQueue,
}

/// The confidence interval of a quantile of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileInterval {
    /// The lower end; zero where the sample is too small for one.
    pub low: Duration,
    /// The upper end; `None` where the sample is too small for one, or it falls among values that are not known.
    pub high: Option<Duration>,
    /// How it came about: order statistics or batch means.
    pub method: IntervalMethod,
    /// Whether the sample is too small for an upper end.
    pub too_short: bool,
    /// How many times as long a run must be for ends within [`WANTED_WIDTH`] of the quantile, roughly.
    pub length_factor: f64,
}

impl QuantileInterval {
    /// Its ends.
    pub fn ends(&self) -> Interval {
        Interval {
            low: self.low,
            high: self.high,
        }
    }
}

impl Distribution {
    /// An interval that encloses the true `probability` quantile with `confidence`, both between 0 and 1, with the
    /// same chance of error on either side: with at least that confidence where the values are independent of
    /// each other, else nearly so where their order of arrival is known.
    ///
    /// Where the samples say too little for an upper end, or it falls among censored values, the upper end is `None`;
    /// where they say too little for a lower one, it is zero. `None` for curves, brackets, empty samples
    /// and arguments out of range.
    pub fn quantile_interval(&self, probability: f64, confidence: f64) -> Option<QuantileInterval> {
        if matches!(self.shape, Shape::Curve(_) | Shape::Bracket { .. }) {
            return None;
        }
        let inside = |share: f64| share > 0.0 && share < 1.0;
        if !inside(probability) || !inside(confidence) {
            return None;
        }
        let query = SampleQuantile {
            samples: self.samples(),
            censored: self.censored(),
            probability,
            confidence,
            quantile: self.quantile(probability)?.low,
        };
        match &self.arrival_order {
            None => query.of_independent(),
            Some(order) => query.of_dependent(order),
        }
    }
}

/// The question for the interval of a quantile.
struct SampleQuantile<'a> {
    samples: &'a [Duration],
    censored: &'a [Duration],
    probability: f64,
    confidence: f64,
    /// The quantile of the sample.
    quantile: Duration,
}

impl SampleQuantile<'_> {
    fn count(&self) -> usize {
        self.samples.len() + self.censored.len()
    }

    fn of_independent(&self) -> Option<QuantileInterval> {
        let ranks = self.ranks_of(self.count());
        let high = ranks.upper.and_then(|rank| self.value_at(rank));
        let low = self.lower_end(ranks)?;
        Some(QuantileInterval {
            low,
            high,
            method: IntervalMethod::OrderStatistics,
            too_short: ranks.upper.is_none(),
            length_factor: self.length_factor(low, high, self.count() as f64),
        })
    }

    fn of_dependent(&self, order: &ArrivalOrder) -> Option<QuantileInterval> {
        let seen = self.inflation(order, BATCHES);
        let upper = self.upper_rank(seen);
        let ranks = self.ranks_with(seen);
        let mut low = self.lower_end(ranks)?;
        if upper.is_none() {
            // Longer batches hide less of what a short run has seen only once or twice.
            let long = self.ranks_with(self.inflation(order, LONG_BATCHES));
            low = low.min(self.lower_end(long)?);
        }
        let high = upper.and_then(|rank| self.value_at(rank));
        let independent = self.count() as f64 / (seen.at_quantile * seen.uncertainty);
        let mut length_factor = self.length_factor(low, high, independent);
        if upper.is_none() {
            let memories = self.count() as f64 / seen.memory;
            length_factor = length_factor.max(LEAST_MEMORIES / memories);
        }
        Some(QuantileInterval {
            low,
            high,
            method: IntervalMethod::BatchMeans,
            too_short: upper.is_none(),
            length_factor,
        })
    }

    /// The least rank of a value that the quantile does not exceed even if the queue remembered as long as one with
    /// that value for its quantile; `None` where the sample is too small.
    fn upper_rank(&self, seen: Inflation) -> Option<usize> {
        let mut rank = self.ranks_with(seen).upper?;
        loop {
            let Some(value) = self.value_at(rank) else {
                // Among values that are not known: the end is open, but not for a lack of values.
                return Some(rank);
            };
            let ratio = value.as_nanos() as f64 / self.quantile.as_nanos().max(1) as f64;
            let there = seen.of_longer(ratio);
            let asked = self.ranks_with(there).upper?;
            if asked <= rank {
                let memories = self.count() as f64 / there.memory;
                return (memories >= LEAST_MEMORIES).then_some(rank);
            }
            rank = asked;
        }
    }

    fn inflation(&self, order: &ArrivalOrder, batches: usize) -> Inflation {
        let within = |probability| {
            let rank = nearest_rank(probability, self.count());
            let quantile = rank.and_then(|rank| self.samples.get(rank));
            quantile.map_or(self.samples.len(), |quantile| {
                self.samples.partition_point(|value| value <= quantile)
            })
        };
        Inflation::estimate(order, self.probability, self.confidence, batches, within)
    }

    /// The ranks that so many independent values would have, in this sample.
    fn ranks_with(&self, inflation: Inflation) -> Ranks {
        let independent = self.count() as f64 / (inflation.at_quantile * inflation.uncertainty);
        self.ranks_of(independent as usize)
    }

    fn ranks_of(&self, independent: usize) -> Ranks {
        let count = self.count();
        let independent = independent.clamp(1, count);
        let error = (1.0 - self.confidence) / 2.0;
        let ranks = Ranks::enclosing(independent, self.probability, error);
        let scaled = |rank: usize| rank as u128 * count as u128;
        let of = independent as u128;
        Ranks {
            lower: ranks.lower.map(|rank| (scaled(rank - 1) / of) as usize + 1),
            upper: ranks.upper.map(|rank| scaled(rank).div_ceil(of) as usize),
        }
    }

    fn lower_end(&self, ranks: Ranks) -> Option<Duration> {
        match ranks.lower {
            Some(rank) => order_statistic(self.samples, self.censored, rank - 1),
            None => Some(Duration::ZERO),
        }
    }

    /// The value at a rank from 1, where it is known.
    fn value_at(&self, rank: usize) -> Option<Duration> {
        self.samples.get(rank - 1).copied()
    }

    /// How many times as long a run must be: widths shrink with the root of its length, and a run must have enough
    /// `independent` requests beyond the quantile.
    fn length_factor(&self, low: Duration, high: Option<Duration>, independent: f64) -> f64 {
        let log = |value: Duration| (value.as_nanos().max(1) as f64).ln();
        let below = (!low.is_zero()).then(|| log(self.quantile) - log(low));
        let above = high.map(|high| log(high) - log(self.quantile));
        let half = below.into_iter().chain(above).fold(0.0, f64::max);
        let narrow = (half / WANTED_WIDTH.ln_1p()).powi(2);
        let rare = self.probability.min(1.0 - self.probability);
        narrow.max(LEAST_BEYOND / (independent.max(1.0) * rare))
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

    fn ends(distribution: &Distribution, probability: f64, confidence: f64) -> Option<Interval> {
        let interval = distribution.quantile_interval(probability, confidence);
        interval.map(|interval| interval.ends())
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
        assert_eq!(ends(&counted(10), 0.5, 0.95), exactly(2, Some(9)));
        assert_eq!(ends(&counted(20), 0.5, 0.95), exactly(6, Some(15)));
    }

    /// For five samples the largest possible interval reaches only 1 - 2 / 32 = 93.75%.
    #[test]
    fn too_few_samples_leave_the_ends_open() {
        assert_eq!(ends(&counted(5), 0.5, 0.95), exactly(0, None));
        assert_eq!(ends(&counted(5), 0.5, 0.93), exactly(1, Some(5)));
    }

    /// An upper end for p99 at 95% needs 0.99^n <= 0.025, so n >= 368.
    #[test]
    fn tail_quantiles_need_enough_samples() {
        let high = |count| ends(&counted(count), 0.99, 0.95).unwrap().high;
        assert_eq!(high(367), None);
        assert_eq!(high(368), Some(Duration::from_nanos(368)));
    }

    #[test]
    fn censored_values_open_the_upper_end() {
        let provenance = Provenance::new(Evidence::Sample, "test", "counting");
        let samples = (1..=900).map(Duration::from_nanos).collect();
        let censored = vec![Duration::from_nanos(500); 100];
        let distribution = Distribution::from_censored(provenance, samples, censored);
        let tail = ends(&distribution, 0.95, 0.95).unwrap();
        assert_eq!(tail.high, None);
        assert!(tail.low > Duration::from_nanos(500));
        assert!(ends(&distribution, 0.5, 0.95).unwrap().high.is_some());
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
