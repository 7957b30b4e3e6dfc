//! What holds for every distribution.

use proptest::prelude::*;
use tailbound_distribution::{
    DistanceError, Distribution, Evidence, Interval, MergeError, Provenance, Shape, StepCdf,
    kolmogorov_smirnov, merge, mixture, wasserstein1, wasserstein1_up_to,
};
use tailbound_time::Duration;

const NS: fn(u64) -> Duration = Duration::from_nanos;

fn provenance() -> Provenance {
    Provenance::new(Evidence::Sample, "latency of a test", "made up")
}

fn sampled(values: &[u64]) -> Distribution {
    Distribution::from_samples(provenance(), values.iter().copied().map(NS).collect())
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0_u64..2_000, 1..40)
}

fn samples() -> impl Strategy<Value = Distribution> {
    values().prop_map(|values| sampled(&values))
}

fn curve(complete: bool) -> impl Strategy<Value = StepCdf> {
    prop::collection::btree_map(0_u64..2_000, 1_u32..100, 1..20).prop_map(move |rises| {
        let spare = u32::from(!complete) * 10;
        let total: u32 = rises.values().sum::<u32>() + spare;
        let mut sum = 0;
        let steps = rises.into_iter().map(|(at, rise)| {
            sum += rise;
            (NS(at), f64::from(sum) / f64::from(total))
        });
        StepCdf::new(steps.collect()).unwrap()
    })
}

/// Any shape, known mass or not.
fn any_distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        samples(),
        (values(), values()).prop_map(|(samples, unknown)| Distribution::from_censored(
            provenance(),
            samples.into_iter().map(NS).collect(),
            unknown.into_iter().map(NS).collect(),
        )),
        any::<bool>()
            .prop_flat_map(curve)
            .prop_map(|curve| Distribution::from_curve(provenance(), curve)),
        (any::<bool>(), 0_u64..500)
            .prop_flat_map(|(complete, gap)| (curve(complete), Just(gap)))
            .prop_map(|(optimistic, gap)| {
                let later = optimistic.steps().iter().map(|(at, p)| (*at + NS(gap), *p));
                let pessimistic = StepCdf::new(later.collect()).unwrap();
                Distribution::from_bracket(provenance(), optimistic, pessimistic)
            }),
    ]
}

fn distance(left: &Distribution, right: &Distribution) -> Duration {
    wasserstein1(left, right).unwrap().midpoint
}

#[test]
fn quantiles_use_the_nearest_rank_despite_float_rounding() {
    let hundred = sampled(&(1..=100).collect::<Vec<_>>());
    for percent in 1..=100_u64 {
        let probability = percent as f64 / 100.0;
        let expected = Some(Interval::exactly(NS(percent)));
        assert_eq!(hundred.quantile(probability), expected, "p{percent}");
    }
    let thousand = sampled(&(1..=1_000).collect::<Vec<_>>());
    let p999 = thousand.quantile(99.9 / 100.0);
    assert_eq!(p999, Some(Interval::exactly(NS(999))));
    assert_eq!(sampled(&[]).quantile(0.5), None);
}

#[test]
fn censored_mass_has_no_upper_end() {
    let samples = (1..=90).map(NS).collect();
    let distribution = Distribution::from_censored(provenance(), samples, vec![NS(50); 10]);
    assert_eq!(distribution.count(), Some(100));
    let median = distribution.quantile(0.5).unwrap();
    assert_eq!((median.low, median.high), (NS(50), Some(NS(50))));
    let p90 = distribution.quantile(0.9).unwrap();
    assert_eq!((p90.low, p90.high), (NS(80), Some(NS(90))));
    let p95 = distribution.quantile(0.95).unwrap();
    assert_eq!((p95.low, p95.high), (NS(85), None));
    assert_eq!(distribution.cdf(NS(49)), (0.49, 0.49));
    assert_eq!(distribution.cdf(NS(50)), (0.5, 0.6));
    assert_eq!(distribution.max().unwrap().high, None);
    assert_eq!(distribution.mean().unwrap().high, None);
}

#[test]
fn distances_of_known_examples() {
    let left = sampled(&[0, 10]);
    let right = sampled(&[5, 15, 25]);
    // Quantiles in sixths: |0-5| 2, |0-15| 1, |10-15| 1, |10-25| 2: (10 + 15 + 5 + 30) / 6.
    assert_eq!(distance(&left, &right), NS(10));
    let (low, high) = kolmogorov_smirnov(&left, &right).unwrap();
    assert!((low - 2.0 / 3.0).abs() < 1e-12 && low == high);
}

#[test]
fn unknown_tails_are_an_error_and_can_be_left_out() {
    let short = StepCdf::new(vec![(NS(10), 0.5), (NS(20), 0.99)]).unwrap();
    let short = Distribution::from_curve(provenance(), short);
    let zero = sampled(&[0]);
    let Err(DistanceError::UnknownTail {
        which,
        mass,
        beyond,
    }) = wasserstein1(&short, &zero)
    else {
        panic!("a tail of unknown place has no distance");
    };
    assert_eq!((which, beyond), ("left", NS(20)));
    assert!((mass - 0.01).abs() < 1e-12);
    let distance = wasserstein1_up_to(&short, &zero, 0.9).unwrap();
    assert_eq!(distance.midpoint, NS(13)); // 0.5 x 10 + 0.4 x 20
    assert!(wasserstein1_up_to(&short, &zero, 0.0).is_err());
    assert!(wasserstein1_up_to(&short, &zero, f64::NAN).is_err());
}

#[test]
fn brackets_bound_the_distance() {
    let step = |at| StepCdf::new(vec![(NS(at), 1.0)]).unwrap();
    let bracket = Distribution::from_bracket(provenance(), step(10), step(20));
    let inside = wasserstein1(&bracket, &sampled(&[15])).unwrap();
    assert_eq!(
        (inside.low, inside.midpoint, inside.high),
        (NS(0), NS(0), NS(5))
    );
    let outside = wasserstein1(&bracket, &sampled(&[100])).unwrap();
    assert_eq!(
        (outside.low, outside.midpoint, outside.high),
        (NS(80), NS(85), NS(90))
    );
}

#[test]
fn mixtures_weigh_curves_and_refuse_what_has_no_weight() {
    let step =
        |at| Distribution::from_curve(provenance(), StepCdf::new(vec![(NS(at), 1.0)]).unwrap());
    let mixed = mixture(&[(3.0, &step(10)), (1.0, &step(20))]).unwrap();
    assert_eq!(mixed.cdf(NS(10)), (0.75, 0.75));
    assert_eq!(mixed.cdf(NS(20)), (1.0, 1.0));
    assert!(matches!(
        merge(&[&sampled(&[1]), &step(10)]),
        Err(MergeError::WeightUnknown { index: 1 })
    ));
    assert!(matches!(
        mixture(&[(0.0, &step(10))]),
        Err(MergeError::WeightInvalid { index: 0, .. })
    ));
    assert!(matches!(merge(&[]), Err(MergeError::Nothing)));
}

#[test]
fn decimation_keeps_the_tail_and_stays_close() {
    let many = sampled(&(1..=100_000).collect::<Vec<_>>());
    let few = many.decimate(200).unwrap();
    let Shape::Curve(curve) = &few.shape else {
        panic!("samples become a curve");
    };
    assert!(curve.steps().len() <= 200, "{}", curve.steps().len());
    for probability in [0.5, 0.9, 0.99, 0.999, 0.9999] {
        let exact = many.quantile(probability).unwrap().low.as_nanos() as f64;
        let kept = few.quantile(probability).unwrap().low.as_nanos() as f64;
        let (tail, kept_tail) = (1e5 - exact, 1e5 - kept);
        assert!(
            kept >= exact && kept_tail > tail * 0.8,
            "p{probability}: {kept} for {exact}"
        );
    }
    assert_eq!(few.max(), many.max());
    assert_eq!(few.min(), many.min());
}

#[test]
fn empty_samples_answer_nothing() {
    let empty = sampled(&[]);
    assert_eq!((empty.mean(), empty.min(), empty.max()), (None, None, None));
    assert_eq!((empty.count(), empty.cdf(NS(5))), (Some(0), (0.0, 1.0)));
    assert!(empty.decimate(10).is_none());
    assert!(empty.quantile_interval(0.5, 0.95).is_none());
    assert!(wasserstein1(&empty, &sampled(&[1])).is_err());
    assert!(kolmogorov_smirnov(&sampled(&[1]), &empty).is_err());
}

proptest! {
    #[test]
    fn the_quantile_is_the_least_value_that_reaches_its_probability(
        distribution in any_distribution(), probability in 0.001_f64..1.0, at in 0_u64..2_500,
    ) {
        let quantile = distribution.quantile(probability).unwrap();
        let (low, high) = distribution.cdf(NS(at));
        let clear = |reached: f64| (reached - probability).abs() > 1e-12;
        if clear(high) {
            prop_assert_eq!(quantile.low <= NS(at), high >= probability);
        }
        if clear(low) {
            let within = quantile.high.is_some_and(|end| end <= NS(at));
            prop_assert_eq!(within, low >= probability);
        }
    }

    #[test]
    fn intervals_are_ordered(distribution in any_distribution(), probability in 0.0_f64..=1.0) {
        let answers = [
            distribution.quantile(probability), distribution.mean(),
            distribution.min(), distribution.max(),
        ];
        for interval in answers.into_iter().flatten() {
            prop_assert!(interval.high.is_none_or(|high| interval.low <= high));
        }
        let min = distribution.min().unwrap().low;
        prop_assert!(min <= distribution.mean().unwrap().low);
        prop_assert!(distribution.mean().unwrap().low <= distribution.max().unwrap().low);
    }

    #[test]
    fn wasserstein_is_a_metric(a in samples(), b in samples(), c in samples()) {
        prop_assert_eq!(distance(&a, &a), Duration::ZERO);
        prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        let detour = distance(&a, &b) + distance(&b, &c);
        prop_assert!(distance(&a, &c) <= detour + NS(2), "more than rounding to 1 ns allows");
    }

    #[test]
    fn shifting_by_c_is_a_distance_of_c(values in values(), shift in 0_u64..1_000_000) {
        let shifted: Vec<u64> = values.iter().map(|value| value + shift).collect();
        prop_assert_eq!(distance(&sampled(&values), &sampled(&shifted)), NS(shift));
    }

    #[test]
    fn samples_and_their_curves_are_equally_far(a in samples(), b in samples()) {
        let as_curve = |distribution: &Distribution| {
            let curve = distribution.pessimistic().unwrap().into_owned();
            Distribution::from_curve(provenance(), curve)
        };
        let exact = distance(&a, &b).as_nanos();
        let computed = distance(&as_curve(&a), &b).as_nanos();
        prop_assert!(exact.abs_diff(computed) <= 1, "{exact} {computed}");
    }

    #[test]
    fn distances_of_brackets_are_ordered(a in any_distribution(), b in any_distribution()) {
        if let Ok(distance) = wasserstein1_up_to(&a, &b, 0.5) {
            prop_assert!(distance.low <= distance.midpoint && distance.midpoint <= distance.high);
        }
        let (low, high) = kolmogorov_smirnov(&a, &b).unwrap();
        prop_assert!(low <= high && low >= 0.0 && high <= 1.0);
    }

    #[test]
    fn merging_keeps_every_value(parts in prop::collection::vec(samples(), 1..5)) {
        let borrowed: Vec<&Distribution> = parts.iter().collect();
        let merged = merge(&borrowed).unwrap();
        let total: u64 = parts.iter().filter_map(Distribution::count).sum();
        prop_assert_eq!(merged.count(), Some(total));
        let weighted: Vec<(f64, &Distribution)> =
            parts.iter().map(|part| (part.count().unwrap() as f64, part)).collect();
        let (mixed, at) = (mixture(&weighted).unwrap(), NS(1_000));
        prop_assert!((mixed.cdf(at).0 - merged.cdf(at).0).abs() < 1e-9);
    }

    #[test]
    fn json_round_trips(distribution in any_distribution()) {
        let text = serde_json::to_string(&distribution).unwrap();
        let back: Distribution = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back, distribution);
    }

    #[test]
    fn csv_round_trips(
        distribution in any_distribution(),
        subject in "\\PC{0,20}|[ \\n\\r\\\\a]{0,8}", seed: Option<u64>,
    ) {
        let mut distribution = distribution;
        distribution.provenance.subject = subject.clone();
        distribution.provenance.host = Some(subject.clone());
        distribution.provenance.assumptions = vec![subject, "second".into()];
        distribution.provenance.seed = seed;
        let back = Distribution::from_csv(&distribution.to_csv());
        prop_assert_eq!(back, Ok(distribution));
    }
}
