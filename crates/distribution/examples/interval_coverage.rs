//! How often intervals of measured quantiles hold in simulated queues, by batches of requests and by order statistics.
//!
//! The queues are a server that serves requests of equal length (M/D/1), and one of exponential length (M/M/1). The
//! quantile of the latter is known; that of the former is that of a run of thirty million requests.
//!
//! Usage: interval_coverage [RUNS-OF-1600] [RUNS-OF-16000] [RUNS-OF-160000]; the result is JSON on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tailbound_distribution::{Arrival, Distribution, Evidence, Provenance, QuantileInterval};
use tailbound_time::Duration;

/// The loads.
const LOADS: [f64; 5] = [0.3, 0.48, 0.6, 0.8, 0.9];
/// The probabilities of the quantiles.
const PROBABILITIES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];
/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Requests of a run, with the runs if nothing else is said.
const RUNS: [(usize, u64); 3] = [(1_600, 1_000), (16_000, 400), (160_000, 100)];
/// Requests before the first that counts.
const WARM_UP: usize = 5_000;
/// Requests of the run that tells a quantile.
const LONG_RUN: usize = 30_000_000;
/// The mean time of service, in nanoseconds.
const SERVICE_NS: f64 = 1e6;

/// A queue with Poisson arrivals.
struct Queue {
    name: &'static str,
    load: f64,
    exponential: bool,
}

impl Queue {
    fn response_times(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<Duration> {
        let mut exponential = |mean: f64| -(1.0 - random.random::<f64>()).ln() * mean;
        let mut backlog = 0.0_f64;
        let mut times = Vec::with_capacity(count);
        for index in 0..WARM_UP + count {
            let service = match self.exponential {
                true => exponential(SERVICE_NS),
                false => SERVICE_NS,
            };
            let response = backlog + service;
            backlog = (response - exponential(SERVICE_NS / self.load)).max(0.0);
            if index >= WARM_UP {
                times.push(Duration::from_nanos(response as u64));
            }
        }
        times
    }

    fn quantiles(&self) -> Vec<Duration> {
        let probabilities = PROBABILITIES.iter();
        if self.exponential {
            let at = |probability: &f64| -(1.0 - probability).ln() * SERVICE_NS / (1.0 - self.load);
            return probabilities
                .map(|one| Duration::from_nanos(at(one) as u64))
                .collect();
        }
        let mut random = ChaCha8Rng::seed_from_u64(u64::MAX);
        let long =
            Distribution::from_samples(provenance(), self.response_times(LONG_RUN, &mut random));
        probabilities
            .map(|one| long.quantile(*one).unwrap().low)
            .collect()
    }
}

fn provenance() -> Provenance {
    Provenance::new(Evidence::Sample, "queue", "drawn")
}

/// The counts of what became of a percentile's intervals in many runs.
#[derive(Clone, Copy, Default)]
struct Tally {
    runs: u64,
    too_short: u64,
    wrong: u64,
    low_beyond: u64,
    plain_held: u64,
}

impl Tally {
    fn count(&mut self, interval: &QuantileInterval, plain: &QuantileInterval, truth: Duration) {
        let holds =
            |one: &QuantileInterval| one.low <= truth && one.high.is_none_or(|high| truth <= high);
        self.runs += 1;
        self.too_short += u64::from(interval.too_short);
        self.wrong += u64::from(!interval.too_short && !holds(interval));
        self.low_beyond += u64::from(interval.low > truth);
        self.plain_held += u64::from(holds(plain));
    }

    fn in_json(self) -> serde_json::Value {
        let share = |part: u64, whole: u64| {
            (whole > 0).then(|| (part as f64 / whole as f64 * 1e3).round() / 1e3)
        };
        let judged = self.runs - self.too_short;
        serde_json::json!({
            "held_of_those_not_too_short": share(judged - self.wrong, judged),
            "too_short": share(self.too_short, self.runs),
            "wrong_of_all": share(self.wrong, self.runs),
            "lower_end_beyond": share(self.low_beyond, self.runs),
            "order_statistics_held": share(self.plain_held, self.runs),
        })
    }
}

fn tallies(queue: &Queue, truth: &[Duration], requests: usize, runs: u64) -> [Tally; 4] {
    let mut tallies = [Tally::default(); 4];
    for run in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(run);
        random.set_stream(requests as u64);
        let times = queue.response_times(requests, &mut random);
        let arrivals = times.iter().copied().map(Arrival::Known).collect();
        let ordered = Distribution::from_arrivals(provenance(), arrivals);
        let sorted = Distribution::from_samples(provenance(), times);
        for ((tally, probability), truth) in tallies.iter_mut().zip(PROBABILITIES).zip(truth) {
            let of = |one: &Distribution| one.quantile_interval(probability, CONFIDENCE).unwrap();
            tally.count(&of(&ordered), &of(&sorted), *truth);
        }
    }
    tallies
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runs = RUNS.map(|(requests, runs)| {
        let chosen = arguments.next().map(|one| one.parse().unwrap());
        (requests, chosen.unwrap_or(runs))
    });
    let mut rows = Vec::new();
    for (name, exponential) in [("M/D/1", false), ("M/M/1", true)] {
        for load in LOADS {
            let queue = Queue {
                name,
                load,
                exponential,
            };
            let truth = queue.quantiles();
            for (requests, runs) in runs {
                let tallies = tallies(&queue, &truth, requests, runs);
                let percentiles = PROBABILITIES.iter().zip(tallies);
                let percentiles = percentiles.map(|(probability, tally)| {
                    (format!("p{}", probability * 100.0), tally.in_json())
                });
                rows.push(serde_json::json!({
                    "queue": queue.name,
                    "load": queue.load,
                    "requests": requests,
                    "runs": runs,
                    "percentiles": percentiles.collect::<serde_json::Map<_, _>>(),
                }));
            }
        }
    }
    let document = serde_json::json!({ "confidence": CONFIDENCE, "rows": rows });
    println!("{}", serde_json::to_string_pretty(&document).unwrap());
}
