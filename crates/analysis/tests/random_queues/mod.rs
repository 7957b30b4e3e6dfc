//! Random queues in exact nanoseconds, as a calibration yields them, and what a simulation says of their predictions.

use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::response_time::{DescribedQueue, PoissonQueue};
use tailbound_analysis::{AnalysisError, Prediction, SharpPoints, Unwatched};
use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_model::{ContinuousLaw, ExecutionTime, ReservationServer, ServerKind};
use tailbound_time::{Duration, Rate};

use super::simulated_queue::{BATCHES, BatchMean, shares_within, simulated, simulated_law};

/// How many standard errors a simulation may lie outside of a prediction.
const ERRORS: f64 = 5.0;
/// The quantiles that are compared.
const PROBABILITIES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// The shares of simulated responses at whose times the distribution function is compared.
const SHARES: [f64; 10] = [0.01, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.995];
/// The servers' rules, by the names that a description gives them.
pub const RULES: [(&str, Option<ServerKind>); 5] = [
    ("deferrable", Some(ServerKind::Deferrable)),
    ("periodic", Some(ServerKind::Periodic)),
    ("polling", Some(ServerKind::Polling)),
    ("constant-bandwidth", Some(ServerKind::ConstantBandwidth)),
    ("dedicated", None),
];

/// Where settings are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct SettingRanges {
    pub seed: u64,
    /// The load, as a share of the bandwidth.
    pub load: (f64, f64),
    /// The first execution time, as a share of the period.
    pub execution: (f64, f64),
}

/// A number between two, drawn evenly from their logarithms.
fn logarithmic(random: &mut ChaCha8Rng, (low, high): (f64, f64)) -> f64 {
    low * (high / low).powf(random.random::<f64>())
}

fn ns(value: f64) -> Duration {
    Duration::from_nanos(value as u64)
}

/// One to three execution times around a mean.
fn execution_times(random: &mut ChaCha8Rng, mean_ns: f64) -> Vec<(Duration, f64)> {
    let spread = logarithmic(random, (1.1, 6.0));
    let weight = random.random_range(0.1..0.9);
    match random.random_range(0..3) {
        0 => vec![(ns(mean_ns), 1.0)],
        1 => vec![(ns(mean_ns), weight), (ns(mean_ns * spread), 1.0 - weight)],
        _ => vec![
            (ns(mean_ns / spread), 0.7 * weight),
            (ns(mean_ns), 1.0 - weight),
            (ns(mean_ns * spread), 0.3 * weight),
        ],
    }
}

/// A server of the rule of this number, with a period between 1 and 100 ms.
fn server(random: &mut ChaCha8Rng, number: u64, period_ns: f64) -> ReservationServer {
    let period = ns(period_ns);
    let budget = ns(period_ns * random.random_range(0.15..1.0));
    let (_, kind) = RULES[(number % RULES.len() as u64) as usize];
    kind.map_or(ReservationServer::Dedicated, |kind| {
        kind.with(budget, period)
    })
}

/// The server of a number with a budget of so many twentieths of its period, which lattices hold.
fn in_twentieths(number: u64, server: ReservationServer) -> ReservationServer {
    let (_, kind) = RULES[(number % RULES.len() as u64) as usize];
    match (kind, server.budget_and_period()) {
        (Some(kind), Some((budget, period))) => {
            let twentieth = (period.as_nanos() / 20).max(1);
            let parts = (budget.as_nanos() / twentieth).clamp(1, 19);
            kind.with(
                Duration::from_nanos(parts * twentieth),
                Duration::from_nanos(20 * twentieth),
            )
        }
        _ => server,
    }
}

impl SettingRanges {
    /// The queue of a number: its rule goes around, and everything else is drawn. In every third queue the jobs come in
    /// batches.
    pub fn queue(self, number: u64) -> PoissonQueue {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        let period_ns = logarithmic(&mut random, (1e6, 1e8));
        let mean_ns = period_ns * logarithmic(&mut random, self.execution);
        let execution_times = execution_times(&mut random, mean_ns);
        let server = server(&mut random, number, period_ns);
        let batches = batches(&mut random);
        let mut queue = PoissonQueue {
            rate: Rate::per_second(1.0).unwrap(),
            execution_times,
            batches,
            server,
        };
        let amounts = server.budget_and_period();
        let bandwidth = amounts.map_or(1.0, |(budget, period)| {
            budget.as_secs_f64() / period.as_secs_f64()
        });
        let load = random.random_range(self.load.0..self.load.1);
        queue.rate = Rate::per_second(load * bandwidth / queue.utilisation()).unwrap();
        queue
    }
}

/// How many jobs come at a time: one, but several in every third queue.
fn batches(random: &mut ChaCha8Rng) -> Vec<(u32, f64)> {
    match random.random_range(0..3) {
        0 => vec![(1, 0.5), (2, 0.3), (random.random_range(3..6), 0.2)],
        _ => vec![(1, 1.0)],
    }
}

/// A queue whose execution times have a continuous law; those of `queue` are its mean only.
#[derive(Clone, Debug)]
pub struct LawSetting {
    pub queue: PoissonQueue,
    pub time: ExecutionTime,
}

/// An exponential or a lognormal law of about a mean, or one of either kind with a shortest or a longest value.
fn execution_law(random: &mut ChaCha8Rng, mean_ns: f64) -> ExecutionTime {
    let min = match random.random_range(0..2) {
        0 => Duration::ZERO,
        _ => ns(mean_ns * random.random_range(0.05..0.6)),
    };
    let rest_ns = mean_ns - min.as_nanos() as f64;
    let max = match random.random_range(0..3) {
        0 => Some(ns(mean_ns * random.random_range(4.0..20.0))),
        _ => None,
    };
    match random.random_range(0..2) {
        0 => ExecutionTime::Exponential {
            min,
            mean: ns(mean_ns),
            max,
        },
        _ => ExecutionTime::Lognormal {
            min,
            median: min + ns(rest_ns),
            p99: min + ns(rest_ns * logarithmic(random, (1.3, 6.0))),
            max,
        },
    }
}

impl SettingRanges {
    /// The setting of a number with a continuous law: its rule goes around, and everything else is drawn; every second
    /// time around budgets are whole parts of their period, as users choose them.
    pub fn law_setting(self, number: u64) -> LawSetting {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ 0x6c61_7773);
        random.set_stream(number);
        let period_ns = logarithmic(&mut random, (1e6, 1e8));
        let mean_ns = period_ns * logarithmic(&mut random, self.execution);
        let time = execution_law(&mut random, mean_ns);
        let mut server = server(&mut random, number, period_ns);
        if number / RULES.len() as u64 % 2 == 1 {
            server = in_twentieths(number, server);
        }
        let mut queue = PoissonQueue {
            rate: Rate::per_second(1.0).unwrap(),
            execution_times: vec![(time.mean().unwrap(), 1.0)],
            batches: batches(&mut random),
            server,
        };
        let load = random.random_range(self.load.0..self.load.1);
        let bandwidth = bandwidth(server);
        queue.rate = Rate::per_second(load * bandwidth / queue.utilisation()).unwrap();
        LawSetting { queue, time }
    }
}

impl LawSetting {
    /// The prediction for such jobs.
    pub fn predict(&self, points: &SharpPoints) -> Result<Prediction, AnalysisError> {
        let queue = DescribedQueue {
            rate: self.queue.rate,
            execution_time: self.time.clone(),
            batches: self.queue.batches.clone(),
            server: self.queue.server,
        };
        queue.predict_watched("queue", points, &Unwatched)
    }

    /// Simulates so many jobs and holds them against the prediction.
    ///
    /// # Errors
    /// There is no prediction.
    pub fn compare(&self, (jobs, seed): (usize, u64)) -> Result<Comparison, AnalysisError> {
        let law = ContinuousLaw::of(&self.time).unwrap();
        let responses = simulated_law((&self.queue, Some(law)), jobs, seed);
        compare_responses(&responses, law.shortest(), |points| self.predict(points))
    }
}

/// The share of a CPU that a server gives.
fn bandwidth(server: ReservationServer) -> f64 {
    server.budget_and_period().map_or(1.0, |(budget, period)| {
        budget.as_secs_f64() / period.as_secs_f64()
    })
}

/// A prediction and what a simulation contradicts of it.
pub struct Comparison {
    pub prediction: Prediction,
    pub compared: Vec<ComparedNumber>,
}

/// A number that is predicted to lie between two bounds, and was simulated.
pub struct ComparedNumber {
    pub what: String,
    pub bounds: (f64, f64),
    pub simulated: BatchMean,
}

impl fmt::Display for ComparedNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, BatchMean { value, error }, (low, high)) =
            (&self.what, self.simulated, self.bounds);
        write!(
            out,
            "{what}: {value} +- {error} simulated, {low} to {high} predicted"
        )
    }
}

impl ComparedNumber {
    /// Whether the simulation lies outside of the bounds.
    pub fn is_contradicted(&self) -> bool {
        let BatchMean { value, error } = self.simulated;
        value < self.bounds.0 - ERRORS * error || value > self.bounds.1 + ERRORS * error
    }
}

impl Comparison {
    /// What the simulation contradicts.
    pub fn wrong(&self) -> impl Iterator<Item = &ComparedNumber> {
        self.compared
            .iter()
            .filter(|number| number.is_contradicted())
    }

    /// Whether the prediction says that it is proved, or that a bracket around it is.
    pub fn is_bound(&self) -> bool {
        let evidence = self.prediction.overall.provenance.evidence;
        evidence == Evidence::Bound || self.prediction.proved.is_some()
    }

    /// How far the bounds of the 99th percentile are apart, relative to the lower one; infinite where there is no
    /// upper one.
    pub fn width(&self) -> f64 {
        let p99 = self.prediction.overall.quantile(0.99).unwrap();
        let apart = |high: Duration| high.saturating_sub(p99.low).as_secs_f64();
        p99.high.map_or(f64::INFINITY, apart) / p99.low.as_secs_f64()
    }
}

/// Simulates so many jobs of a queue and holds them against what `predict` says.
///
/// # Errors
/// There is no prediction.
pub fn compare(
    queue: &PoissonQueue,
    (jobs, seed): (usize, u64),
    predict: impl FnOnce(&PoissonQueue, &SharpPoints) -> Result<Prediction, AnalysisError>,
) -> Result<Comparison, AnalysisError> {
    let responses = simulated(queue, jobs, seed);
    let shortest = queue.execution_times.iter().map(|(time, _)| *time).min();
    compare_responses(&responses, shortest.unwrap(), |points| {
        predict(queue, points)
    })
}

/// Holds simulated responses against what `predict` says. No execution time is below `shortest`.
fn compare_responses(
    responses: &[Duration],
    shortest: Duration,
    predict: impl FnOnce(&SharpPoints) -> Result<Prediction, AnalysisError>,
) -> Result<Comparison, AnalysisError> {
    let mut sorted = responses.to_vec();
    sorted.sort_unstable();
    let at = |share: &f64| sorted[(share * (sorted.len() - 1) as f64) as usize];
    let mut times: Vec<Duration> = SHARES.iter().map(at).collect();
    times.dedup();
    let points = SharpPoints {
        probabilities: PROBABILITIES.to_vec(),
        times: times.clone(),
    };
    let prediction = predict(&points)?;
    let mut compared = ComparedNumbers::default();
    let overall = (&prediction.overall, prediction.mean().unwrap());
    compared.add("", overall, responses, &times);
    compared.shortest(&prediction.overall, shortest);
    if let Some(proved) = &prediction.proved {
        assert_eq!(proved.overall.provenance.evidence, Evidence::Bound);
        let overall = (&proved.overall, proved.mean().unwrap());
        compared.add("proved: ", overall, responses, &times);
        compared.shortest(&proved.overall, shortest);
    }
    Ok(Comparison {
        prediction,
        compared: compared.numbers,
    })
}

/// The list of numbers to compare, while it grows.
#[derive(Default)]
struct ComparedNumbers {
    numbers: Vec<ComparedNumber>,
}

impl ComparedNumbers {
    /// The distribution function at some times, the quantiles and the mean of one distribution.
    fn add(
        &mut self,
        which: &str,
        (predicted, mean): (&Distribution, Interval),
        responses: &[Duration],
        times: &[Duration],
    ) {
        for at in times {
            self.share(which, predicted, responses, *at);
        }
        for probability in PROBABILITIES {
            self.quantile(which, predicted, responses, probability);
        }
        self.mean(which, mean, responses);
    }

    /// The distribution function at a time.
    fn share(
        &mut self,
        which: &str,
        predicted: &Distribution,
        responses: &[Duration],
        at: Duration,
    ) {
        let (low, high) = predicted.cdf(at);
        let what = format!("{which}F({at})");
        self.between(&what, &shares_within(responses, at), (low, high));
    }

    /// Of a quantile: no less than its share is within the upper end, no more than that before the lower one.
    fn quantile(
        &mut self,
        which: &str,
        predicted: &Distribution,
        responses: &[Duration],
        probability: f64,
    ) {
        let Interval { low, high } = predicted.quantile(probability).unwrap();
        let before = low.saturating_sub(Duration::from_nanos(1));
        let what = format!(
            "{which}F before {low}, the lower end of p{}",
            100.0 * probability
        );
        self.between(&what, &shares_within(responses, before), (0.0, probability));
        if let Some(high) = high {
            let what = format!(
                "{which}F({high}), the upper end of p{}",
                100.0 * probability
            );
            self.between(&what, &shares_within(responses, high), (probability, 1.0));
        }
    }

    fn mean(&mut self, which: &str, Interval { low, high }: Interval, responses: &[Duration]) {
        let high = high.map_or(f64::INFINITY, Duration::as_secs_f64);
        let mean_of = |batch: &[Duration]| {
            let sum: f64 = batch.iter().map(|response| response.as_secs_f64()).sum();
            sum / batch.len() as f64
        };
        let batches = responses.chunks_exact(responses.len() / BATCHES);
        let means: Vec<f64> = batches.map(mean_of).collect();
        // Releases are in whole nanoseconds in the simulation.
        let rounding = 1e-9;
        self.check(
            &format!("{which}the mean in seconds"),
            BatchMean::of(&means),
            (low.as_secs_f64() - rounding, high + rounding),
        );
    }

    /// No response is said to be shorter than the shortest execution time.
    fn shortest(&mut self, predicted: &Distribution, shortest: Duration) {
        let least = predicted.quantile(1e-6).unwrap().low;
        let exactly = BatchMean {
            value: least.as_secs_f64(),
            error: 0.0,
        };
        self.check(
            "the least quantile in seconds, of the prediction itself",
            exactly,
            (shortest.as_secs_f64(), f64::INFINITY),
        );
    }

    /// A share, by batch, that is said to lie between two bounds.
    fn between(&mut self, what: &str, shares: &[f64], bounds: (f64, f64)) {
        let extreme = shares
            .iter()
            .filter(|share| **share <= 0.0 || **share >= 1.0);
        let mean = BatchMean::of(shares);
        // Where many batches are all within, or all beyond, they say little of how rare the other is; but if all are,
        // that must be possible.
        if extreme.count() <= BATCHES / 4 || mean.error <= 0.0 {
            let few = 1e-4;
            let few = if mean.error <= 0.0 { few } else { 0.0 };
            self.check(what, mean, (bounds.0 - few, bounds.1 + few));
        }
    }

    fn check(&mut self, what: &str, simulated: BatchMean, bounds: (f64, f64)) {
        self.numbers.push(ComparedNumber {
            what: what.into(),
            bounds,
            simulated,
        });
    }
}
