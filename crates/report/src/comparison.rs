//! Comparisons of distributions, against the noise of the host.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use tailbound_distribution::{
    DistanceError, Distribution, Interval, IntervalMethod, Wasserstein1, wasserstein1,
    wasserstein1_up_to,
};
use tailbound_model::Percentile;
use tailbound_time::{Duration, nanoseconds};

use crate::{CONFIDENCE, Comparison};

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
    let mut distance = wasserstein1(left, right);
    for probability in PARTIAL {
        if !matches!(distance, Err(DistanceError::UnknownTail { .. })) {
            break;
        }
        distance = wasserstein1_up_to(left, right, probability);
    }
    distance
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
            if let Ok(distance) = distance(left, right) {
                largest = largest.max(Some(distance.midpoint));
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

/// A percentile in two distributions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantilePair {
    /// The percentile.
    #[serde(serialize_with = "as_text")]
    pub percentile: Percentile,
    /// Its upper bound in one, if it has one.
    #[serde(rename = "left_ns", with = "nanoseconds::optional")]
    pub left: Option<Duration>,
    /// Its upper bound in the other.
    #[serde(rename = "right_ns", with = "nanoseconds::optional")]
    pub right: Option<Duration>,
    /// The values that the true percentile of one may have.
    pub left_interval: Option<PossibleValues>,
    /// The values that the true percentile of the other may have.
    pub right_interval: Option<PossibleValues>,
    /// The order of the two.
    pub order: QuantileOrder,
}

/// The values that a percentile may have: of a sample its confidence interval, else its bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PossibleValues {
    /// The ends.
    #[serde(flatten)]
    pub ends: Interval,
    /// The way to the confidence interval of a sample; `None` for what was computed.
    pub method: Option<IntervalMethod>,
}

/// The order of a percentile in two distributions, as far as it is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuantileOrder {
    /// The left one is shorter, whatever values the two have in their intervals.
    LeftShorter,
    /// The right one is shorter.
    RightShorter,
    /// The intervals overlap, or one is not known.
    Undecided,
}

fn as_text<S: Serializer>(percentile: &Percentile, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(percentile)
}

impl QuantilePair {
    /// A percentile of two distributions.
    ///
    /// Two intervals of 95% that lie apart by chance are rarer than one of them being wrong: the order is
    /// claimed too seldom rather than too often (Schenker and Gentleman, The American Statistician 55, 2001).
    pub fn of(percentile: Percentile, left: &Distribution, right: &Distribution) -> Self {
        let probability = percentile.probability();
        let upper = |one: &Distribution| one.quantile(probability)?.high;
        let (left_interval, right_interval) = (
            PossibleValues::of(left, probability),
            PossibleValues::of(right, probability),
        );
        let shorter = |one: &Option<PossibleValues>, other: &Option<PossibleValues>| {
            let end = one.as_ref().and_then(|one| one.ends.high);
            end.is_some_and(|end| other.as_ref().is_some_and(|other| end < other.ends.low))
        };
        let order = if shorter(&left_interval, &right_interval) {
            QuantileOrder::LeftShorter
        } else if shorter(&right_interval, &left_interval) {
            QuantileOrder::RightShorter
        } else {
            QuantileOrder::Undecided
        };
        Self {
            percentile,
            left: upper(left),
            right: upper(right),
            left_interval,
            right_interval,
            order,
        }
    }
}

impl PossibleValues {
    fn of(distribution: &Distribution, probability: f64) -> Option<Self> {
        let sampled = distribution.quantile_interval(probability, CONFIDENCE);
        let ends = match &sampled {
            Some(interval) => interval.ends(),
            None => distribution.quantile(probability)?,
        };
        Some(Self {
            ends,
            method: sampled.map(|interval| interval.method),
        })
    }
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
        let pairs = PERCENTILES.iter().map(|&(_, probability)| {
            QuantilePair::of(Percentile(probability * 100.0), left, right)
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
    use tailbound_distribution::{Arrival, Evidence, Provenance, StepCdf};

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
        let comparison = compare("redis", ("a", &left), ("b", &right), Some(NS(10))).unwrap();
        assert_eq!((comparison.wasserstein1, comparison.covered), (NS(30), 1.0));
        assert!(
            comparison
                .quantile_differences_ns
                .values()
                .all(|difference| *difference == -30)
        );
        assert_eq!(comparison.quantile_differences_ns.len(), PERCENTILES.len());
        assert_eq!(comparison.ratio_to_noise(), Some(3.0));
    }

    #[test]
    fn unknown_tails_narrow_what_is_compared() {
        let curve = StepCdf::new(vec![(NS(100), 0.995)]).unwrap();
        let left = Distribution::from_curve(provenance(), curve);
        let comparison = compare("redis", ("a", &left), ("b", &sampled([100])), None).unwrap();
        assert_eq!((comparison.covered, comparison.wasserstein1), (0.99, NS(0)));
        assert!(!comparison.quantile_differences_ns.contains_key("p99.9"));
        assert_eq!(comparison.ratio_to_noise(), None);
        let mostly_lost = Distribution::from_censored(provenance(), vec![NS(1)], vec![NS(1); 9]);
        assert!(compare("redis", ("a", &mostly_lost), ("b", &left), None).is_err());
    }

    #[test]
    fn an_order_is_claimed_where_intervals_lie_apart() {
        let order = |left: &Distribution, right: &Distribution| {
            QuantilePair::of(Percentile(90.0), left, right).order
        };
        let (short, long) = (sampled(1_000..2_000), sampled(1_100..2_100));
        let alike = sampled(1_005..2_005);
        assert_eq!(order(&short, &long), QuantileOrder::LeftShorter);
        assert_eq!(order(&long, &short), QuantileOrder::RightShorter);
        assert_eq!(order(&short, &alike), QuantileOrder::Undecided);
        // A few values say nothing of a rare latency.
        assert_eq!(order(&sampled(1..9), &long), QuantileOrder::Undecided);
        let below = StepCdf::new(vec![(NS(1_500), 1.0)]).unwrap();
        let computed = Distribution::from_curve(provenance(), below);
        let pair = QuantilePair::of(Percentile(90.0), &long, &computed);
        assert_eq!(pair.order, QuantileOrder::RightShorter);
        assert_eq!(pair.right_interval.unwrap().method, None);
    }

    #[test]
    fn latencies_that_depend_on_each_other_claim_no_order_of_their_own() {
        // Ten busy periods of a hundred requests each: the second run has one more long one.
        let run = |long: usize| {
            let slow = |index: usize| if index / 100 < long { 1_000 } else { 10 };
            let arrivals = (0..1_000).map(|index| Arrival::Known(NS(slow(index) + index as u64)));
            Distribution::from_arrivals(provenance(), arrivals.collect())
        };
        let pair = |left, right| QuantilePair::of(Percentile(50.0), left, right);
        let (few, many) = (run(4), run(6));
        assert_eq!(pair(&few, &many).order, QuantileOrder::Undecided);
        let unordered =
            |run: &Distribution| Distribution::from_samples(provenance(), run.samples().to_vec());
        let claimed = pair(&unordered(&few), &unordered(&many)).order;
        assert_eq!(claimed, QuantileOrder::LeftShorter);
    }

    #[test]
    fn the_floor_is_the_largest_distance() {
        let (a, b, c) = (sampled([10]), sampled([12]), sampled([17]));
        assert_eq!(noise_floor(&[&a, &b, &c]), Some(NS(7)));
        assert_eq!(noise_floor(&[&a]), None);
        assert_eq!(noise_floor(&[&a, &sampled([])]), None);
    }
}
