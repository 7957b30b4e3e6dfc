//! Comparisons of distributions, against the noise of the host.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_distribution::{
    DistanceError, Distribution, Interval, Wasserstein1, wasserstein1, wasserstein1_up_to,
};
use tailbound_time::{Duration, nanoseconds};

use crate::Comparison;

/// The percentiles that reports show.
pub const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// Probabilities up to which a distance is tried where a tail is not known, the best first.
const PARTIAL: [f64; 4] = [0.999, 0.99, 0.95, 0.9];

/// How far `right` is from `left`, with the label of each; `noise_floor` is the distance of two
/// measurements of the same thing, if there are any (see [`noise_floor`]).
///
/// Where one of them has a tail that is not known, the distance leaves out as little of it as
/// helps, and [`Comparison::covered`] says how much was compared.
///
/// # Errors
/// [`DistanceError`] for empty samples and for those of which more than a tenth is not known.
pub fn compare(
    service: &str,
    left: (&str, &Distribution),
    right: (&str, &Distribution),
    noise_floor: Option<Duration>,
) -> Result<Comparison, DistanceError> {
    let distance = distance(left.1, right.1)?;
    let mut quantile_differences_ns = BTreeMap::new();
    for (name, probability) in PERCENTILES {
        let ends = left
            .1
            .quantile(probability)
            .zip(right.1.quantile(probability));
        if let Some(difference) = ends.and_then(|(left, right)| difference_ns(left, right)) {
            quantile_differences_ns.insert(name.to_owned(), difference);
        }
    }
    Ok(Comparison {
        service: service.into(),
        left: left.0.into(),
        right: right.0.into(),
        wasserstein1: distance.midpoint,
        wasserstein1_bounds: Some(Interval {
            low: distance.low,
            high: Some(distance.high),
        }),
        covered: distance.covered,
        noise_floor,
        quantile_differences_ns,
    })
}

fn distance(left: &Distribution, right: &Distribution) -> Result<Wasserstein1, DistanceError> {
    let mut found = wasserstein1(left, right);
    for probability in PARTIAL {
        if !matches!(found, Err(DistanceError::UnknownTail { .. })) {
            break;
        }
        found = wasserstein1_up_to(left, right, probability);
    }
    found
}

/// Right minus left, of the middles of the two; `None` where one has no upper end or the
/// difference does not fit.
fn difference_ns(left: Interval, right: Interval) -> Option<i64> {
    let doubled = |interval: Interval| {
        let high = interval.high?;
        Some(i128::from(interval.low.as_nanos()) + i128::from(high.as_nanos()))
    };
    i64::try_from((doubled(right)? - doubled(left)?) / 2).ok()
}

/// The largest distance between any two repetitions of the same measurement: differences below it
/// mean nothing on this host. `None` with fewer than two that can be compared.
pub fn noise_floor(repetitions: &[&Distribution]) -> Option<Duration> {
    let mut largest = None;
    for (index, left) in repetitions.iter().enumerate() {
        for right in &repetitions[index + 1..] {
            if let Ok(found) = distance(left, right) {
                largest = largest.max(Some(found.midpoint));
            }
        }
    }
    largest
}

impl Comparison {
    /// How many times the noise floor the distance is; `None` without a floor above zero.
    pub fn ratio_to_noise(&self) -> Option<f64> {
        let floor = self.noise_floor.filter(|floor| !floor.is_zero())?;
        Some(self.wasserstein1.as_nanos() as f64 / floor.as_nanos() as f64)
    }
}

/// Two distributions side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Their Wasserstein-1 distance.
    #[serde(rename = "wasserstein1_ns", with = "nanoseconds")]
    pub wasserstein1: Duration,
    /// The distance between two measurements of the same thing.
    #[serde(rename = "noise_floor_ns", with = "nanoseconds::optional")]
    pub noise_floor: Option<Duration>,
    /// How many times the noise floor the distance is; `None` without a floor above zero.
    pub ratio_to_noise_floor: Option<f64>,
    /// The percentiles of both.
    pub quantiles: Vec<QuantilePair>,
}

/// The upper bounds of a percentile in two distributions, where they have one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantilePair {
    /// The percentile.
    pub percentile: &'static str,
    /// In one.
    #[serde(rename = "left_ns", with = "nanoseconds::optional")]
    pub left: Option<Duration>,
    /// In the other.
    #[serde(rename = "right_ns", with = "nanoseconds::optional")]
    pub right: Option<Duration>,
}

impl Difference {
    /// The quantiles of two distributions beside their distance.
    pub fn of(
        left: &Distribution,
        right: &Distribution,
        distance: Duration,
        noise_floor: Option<Duration>,
    ) -> Self {
        let floor = noise_floor.filter(|floor| !floor.is_zero());
        let pairs = PERCENTILES.iter().map(|&(percentile, probability)| {
            let upper = |one: &Distribution| one.quantile(probability)?.high;
            QuantilePair {
                percentile,
                left: upper(left),
                right: upper(right),
            }
        });
        Self {
            wasserstein1: distance,
            noise_floor,
            ratio_to_noise_floor: floor.map(|floor| distance.as_secs_f64() / floor.as_secs_f64()),
            quantiles: pairs.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use tailbound_distribution::{Evidence, Provenance, StepCdf};

    const NS: fn(u64) -> Duration = Duration::from_nanos;

    fn provenance() -> Provenance {
        Provenance::new(Evidence::Sample, "s", "m")
    }

    fn sampled(values: impl IntoIterator<Item = u64>) -> Distribution {
        Distribution::from_samples(provenance(), values.into_iter().map(NS).collect())
    }

    #[test]
    fn a_shift_shows_in_distance_and_quantiles() {
        let (left, right) = (sampled(100..200), sampled(70..170));
        let found = compare("redis", ("a", &left), ("b", &right), Some(NS(10))).unwrap();
        assert_eq!((found.wasserstein1, found.covered), (NS(30), 1.0));
        assert!(
            found
                .quantile_differences_ns
                .values()
                .all(|difference| *difference == -30)
        );
        assert_eq!(found.quantile_differences_ns.len(), PERCENTILES.len());
        assert_eq!(found.ratio_to_noise(), Some(3.0));
    }

    #[test]
    fn unknown_tails_narrow_what_is_compared() {
        let curve = StepCdf::new(vec![(NS(100), 0.995)]).unwrap();
        let left = Distribution::from_curve(provenance(), curve);
        let found = compare("redis", ("a", &left), ("b", &sampled([100])), None).unwrap();
        assert_eq!((found.covered, found.wasserstein1), (0.99, NS(0)));
        assert!(!found.quantile_differences_ns.contains_key("p99.9"));
        assert_eq!(found.ratio_to_noise(), None);
        let mostly_lost = Distribution::from_censored(provenance(), vec![NS(1)], vec![NS(1); 9]);
        assert!(compare("redis", ("a", &mostly_lost), ("b", &left), None).is_err());
    }

    #[test]
    fn the_floor_is_the_largest_distance() {
        let (a, b, c) = (sampled([10]), sampled([12]), sampled([17]));
        assert_eq!(noise_floor(&[&a, &b, &c]), Some(NS(7)));
        assert_eq!(noise_floor(&[&a]), None);
        assert_eq!(noise_floor(&[&a, &sampled([])]), None);
    }
}
