//! Confidence intervals cover what they promise, by a seeded Monte-Carlo experiment.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_time::Duration;

/// The share of 4,000 experiments in which the interval held the true quantile. The distribution
/// is uniform over so many values that ties do not matter; the method knows no shape anyway.
fn covered(samples: usize, probability: f64, confidence: f64, seed: u64) -> f64 {
    const EXPERIMENTS: u32 = 4_000;
    const RANGE: f64 = 1e12;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let truth = Duration::from_nanos((RANGE * probability) as u64);
    let mut held = 0;
    for _ in 0..EXPERIMENTS {
        let values = (0..samples)
            .map(|_| Duration::from_nanos((random.random::<f64>() * RANGE) as u64))
            .collect();
        let provenance = Provenance::new(Evidence::Sample, "uniform", "drawn");
        let interval = Distribution::from_samples(provenance, values)
            .confidence_interval(probability, confidence)
            .unwrap();
        let within = interval.low <= truth && interval.high.is_none_or(|high| truth <= high);
        held += u32::from(within);
    }
    f64::from(held) / f64::from(EXPERIMENTS)
}

#[test]
fn intervals_hold_the_quantile_as_often_as_promised() {
    // The standard deviation of the share is at most 0.008; discreteness only adds coverage.
    for (samples, probability, confidence) in [
        (30, 0.5, 0.90),
        (100, 0.9, 0.95),
        (500, 0.99, 0.95),
        (200, 0.5, 0.5),
    ] {
        let share = covered(samples, probability, confidence, 20_260_101);
        let slack = if confidence > 0.8 { 0.07 } else { 0.12 };
        assert!(
            share >= confidence - 0.03 && share <= (confidence + slack).min(1.0),
            "{samples} samples, p{probability}: promised {confidence}, held {share}"
        );
    }
}
