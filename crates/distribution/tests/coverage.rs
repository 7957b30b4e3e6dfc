//! Confidence intervals cover what they promise, by a seeded Monte-Carlo experiment.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tailbound_distribution::{
    Arrival, Distribution, Evidence, IntervalMethod, Provenance, QuantileInterval,
};
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
            .quantile_interval(probability, confidence)
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

/// `Queue` is a server that serves requests one after the other, in the order of their arrival, with exponential
/// times of service of mean 1 us and between arrivals: its response times are exponential, too.
struct Queue {
    load: f64,
}

impl Queue {
    fn response_times(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<Duration> {
        /// Requests before the first that counts.
        const WARM_UP: usize = 3_000;
        let mut exponential = |mean: f64| -(1.0 - random.random::<f64>()).ln() * mean;
        let mut backlog = 0.0_f64;
        let mut times = Vec::with_capacity(count);
        for index in 0..WARM_UP + count {
            let response = backlog + exponential(1e3);
            backlog = (response - exponential(1e3 / self.load)).max(0.0);
            if index >= WARM_UP {
                times.push(Duration::from_nanos(response as u64));
            }
        }
        times
    }

    fn quantile(&self, probability: f64) -> Duration {
        Duration::from_nanos((-(1.0 - probability).ln() * 1e3 / (1.0 - self.load)) as u64)
    }
}

/// The counts of what became of a percentile's intervals in many runs.
#[derive(Debug, Default)]
struct Tally {
    runs: u32,
    too_short: u32,
    wrong: u32,
    /// Lower ends beyond the true quantile, whether too short or not.
    beyond: u32,
}

impl Tally {
    fn count(&mut self, interval: &QuantileInterval, truth: Duration) {
        self.runs += 1;
        self.too_short += u32::from(interval.too_short);
        let holds = interval.low <= truth && interval.high.is_none_or(|high| truth <= high);
        self.wrong += u32::from(!holds && !interval.too_short);
        self.beyond += u32::from(interval.low > truth);
    }

    /// The share of those that were not too short that held.
    fn coverage(&self) -> f64 {
        1.0 - f64::from(self.wrong) / f64::from((self.runs - self.too_short).max(1))
    }
}

fn provenance() -> Provenance {
    Provenance::new(Evidence::Sample, "queue", "drawn")
}

/// The intervals of a percentile of many runs, by the order of arrival and without it.
fn tallies(load: f64, requests: usize, probability: f64, runs: u64) -> [Tally; 2] {
    let queue = Queue { load };
    let truth = queue.quantile(probability);
    let mut tallies = [Tally::default(), Tally::default()];
    for run in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(run);
        let times = queue.response_times(requests, &mut random);
        let arrivals = times.iter().copied().map(Arrival::Known).collect();
        let ordered = Distribution::from_arrivals(provenance(), arrivals);
        let sorted = Distribution::from_samples(provenance(), times);
        for (tally, sample) in tallies.iter_mut().zip([ordered, sorted]) {
            let interval = sample.quantile_interval(probability, 0.95).unwrap();
            tally.count(&interval, truth);
        }
    }
    tallies
}

#[test]
fn intervals_of_latencies_that_depend_on_each_other_hold_where_order_statistics_do_not() {
    for (load, requests, probability) in [
        (0.48, 1_600, 0.9),
        (0.8, 16_000, 0.5),
        (0.8, 16_000, 0.9),
        (0.6, 16_000, 0.95),
        (0.3, 16_000, 0.99),
    ] {
        let [ordered, sorted] = tallies(load, requests, probability, 150);
        let at = format!("load {load}, p{probability}: {ordered:?}, sorted {sorted:?}");
        assert!(ordered.coverage() >= 0.90, "{at}");
        assert!(ordered.too_short <= ordered.runs / 4, "{at}");
        assert!(sorted.coverage() < 0.85, "{at}");
    }
}

#[test]
fn runs_that_are_too_short_say_so_and_claim_no_lower_end_too_high() {
    for (load, requests, probability) in [(0.9, 1_600, 0.9), (0.8, 1_600, 0.99), (0.6, 400, 0.95)] {
        let [ordered, _] = tallies(load, requests, probability, 200);
        let at = format!("load {load}, p{probability}: {ordered:?}");
        assert!(ordered.too_short >= ordered.runs * 8 / 10, "{at}");
        assert!(ordered.wrong <= ordered.runs / 20, "{at}");
        assert!(ordered.beyond <= ordered.runs / 25, "{at}");
    }
}

/// Overload has no quantile that a longer run would find; what is certain is that the latency is long.
#[test]
fn a_run_in_overload_is_too_short_with_a_long_lower_end() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let times = Queue { load: 1.5 }.response_times(5_000, &mut random);
    let arrivals = times.into_iter().map(Arrival::Known).collect();
    let measured = Distribution::from_arrivals(provenance(), arrivals);
    let interval = measured.quantile_interval(0.95, 0.95).unwrap();
    assert!(interval.too_short && interval.high.is_none());
    assert!(interval.low > measured.min().unwrap().low, "{interval:?}");
    assert_eq!(interval.method, IntervalMethod::BatchMeans);
}

/// Repetitions with the same arrivals say hardly more than one.
#[test]
fn runs_with_the_same_arrivals_make_no_interval_narrower() {
    let queue = Queue { load: 0.6 };
    let drawn = |seed: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let times = queue.response_times(8_000, &mut random);
        let arrivals = times.into_iter().map(Arrival::Known).collect();
        Distribution::from_arrivals(provenance(), arrivals)
    };
    let width = |parts: &[&Distribution]| {
        let together = tailbound_distribution::merge(parts).unwrap();
        let interval = together.quantile_interval(0.9, 0.95).unwrap();
        interval.high.unwrap().as_secs_f64() / interval.low.as_secs_f64() - 1.0
    };
    let (one, other, another) = (drawn(1), drawn(2), drawn(3));
    let alone = width(&[&one]);
    assert!(width(&[&one, &one, &one]) > 0.9 * alone);
    assert!(width(&[&one, &other, &another]) < 0.8 * alone);
}
