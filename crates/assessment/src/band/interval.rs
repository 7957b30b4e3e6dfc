//! Intervals of measured quantiles that hold: the scatter comes from the queue, not from order statistics.
//!
//! The latencies of one run depend on each other: a long busy period makes many of them long together. Order
//! statistics take them for independent, and hold the true quantile much more rarely than they say. Here the
//! queue is fitted to the run, simulated with other arrivals as many times, and the scatter of the logarithm
//! of a quantile from run to run is put around the measured one (a parametric bootstrap, with the ends of
//! the "basic" interval: Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 5.2).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tailbound_distribution::{Distribution, Interval, IntervalMethod, LEAST_BEYOND, WANTED_WIDTH};
use tailbound_model::InputFiles;
use tailbound_simulator::workload::{Release, releases};
use tailbound_time::{Duration, nanoseconds};

use super::correction::log_of;
use super::simulated_run::{Ingredients, SimulatedRun, sorted_quantile};
use super::{BandError, RunSetting};

/// An interval with more than this factor between its ends says that the run is too short.
const WIDEST: f64 = 4.0;
/// Runs that are simulated to fit the level.
const FITTING_RUNS: usize = 6;
/// Steps of the search for the level.
const FITTING_STEPS: usize = 7;
/// The level is searched within this factor.
const MOST_FITTED: f64 = 1.5;

/// The question for the intervals of a run that was measured.
#[derive(Clone, Copy, Debug)]
pub struct IntervalQuery<'a> {
    /// The run.
    pub setting: RunSetting<'a>,
    /// The files that the description names.
    pub inputs: &'a InputFiles,
    /// The latencies that were measured, warm-up left out; of several runs with the same arrivals, all of them.
    pub measured: &'a Distribution,
    /// Those of single tasks, where theirs are wanted, too.
    pub tasks: &'a [(&'a str, &'a Distribution)],
    /// The percentiles.
    pub percentiles: &'a [f64],
    /// The probability with which an interval is to hold the true quantile.
    pub confidence: f64,
    /// How many runs are simulated.
    pub runs: usize,
    /// The seed of what is drawn.
    pub seed: u64,
}

/// The interval of a measured quantile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredInterval {
    /// The task that it is about; `None` for all.
    #[serde(default)]
    pub task: Option<String>,
    /// The percentile.
    pub percentile: f64,
    /// The lower end.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The upper end; `None` where the run is too short for one.
    #[serde(rename = "high_ns", with = "nanoseconds::optional")]
    pub high: Option<Duration>,
    /// The standard deviation of the logarithm of the quantile from run to run, of a fitted queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_deviation: Option<f64>,
    /// How it came about.
    #[serde(default = "fitted_queue")]
    pub method: IntervalMethod,
    /// Whether the run is too short for its claim: too few requests lie beyond the quantile, or the interval of a
    /// fitted queue is wider than a factor of four.
    pub too_short: bool,
    /// How long a run must be for an interval of 10% on either side.
    #[serde(rename = "needed_ns", with = "nanoseconds")]
    pub needed: Duration,
}

impl MeasuredInterval {
    /// The interval of a percentile of what was measured in runs of a duration, by the order in which requests
    /// arrived, without a queue that fits; `None` where nothing was measured.
    pub fn of_sample(
        (task, percentile): (Option<&str>, f64),
        measured: &Distribution,
        confidence: f64,
        duration: Duration,
    ) -> Option<Self> {
        let interval = measured.quantile_interval(percentile / 100.0, confidence)?;
        let seconds = duration.as_secs_f64() * interval.length_factor;
        Some(Self {
            task: task.map(str::to_owned),
            percentile,
            low: interval.low,
            high: interval.high,
            method: interval.method,
            log_deviation: None,
            too_short: interval.too_short,
            needed: Duration::from_secs_f64_nearest(seconds),
        })
    }

    /// Its ends.
    pub fn ends(&self) -> Interval {
        Interval {
            low: self.low,
            high: self.high,
        }
    }
}

/// How the intervals of documents came about that do not say so.
fn fitted_queue() -> IntervalMethod {
    IntervalMethod::FittedQueue
}

/// The intervals of the quantiles of a measured run, those of all requests first. Further runs with the same
/// arrivals make no interval narrower, since other arrivals are most of what scatters.
///
/// # Errors
/// [`BandError`] says what is missing; [`BandError::NoReleases`] also where nothing was measured, and
/// [`BandError::OtherQueue`] where the run is not that of the queue.
pub fn measured_intervals(query: &IntervalQuery<'_>) -> Result<Vec<MeasuredInterval>, BandError> {
    let mut random = ChaCha8Rng::seed_from_u64(query.seed);
    let level = fitted_level(query, &mut random)?;
    let runs = fresh_runs(query, level, query.runs, &mut random)?;
    let overall = std::iter::once((None, query.measured));
    let tasks = query.tasks.iter();
    let tasks = tasks.map(|(task, measured)| (Some(*task), *measured));
    let mut intervals = Vec::new();
    for (task, measured) in overall.chain(tasks) {
        let all = runs.iter().flat_map(|run| run.latencies(task));
        let mut pooled: Vec<Duration> = all.copied().collect();
        pooled.sort_unstable();
        let of_task = ScatteredQuantiles {
            task,
            measured,
            runs: &runs,
            pooled: &pooled,
        };
        let each = query.percentiles.iter();
        intervals.extend(each.filter_map(|&percentile| of_task.interval(query, percentile)));
    }
    Ok(intervals)
}

/// The quantiles of simulated runs, as they scatter around those of all of them.
struct ScatteredQuantiles<'a> {
    task: Option<&'a str>,
    measured: &'a Distribution,
    runs: &'a [SimulatedRun],
    /// The latencies of all runs, sorted.
    pooled: &'a [Duration],
}

impl ScatteredQuantiles<'_> {
    /// The interval around the measured percentile; `None` where nothing was measured or simulated.
    fn interval(&self, query: &IntervalQuery<'_>, percentile: f64) -> Option<MeasuredInterval> {
        let probability = percentile / 100.0;
        let measured = self.measured.quantile(probability)?;
        let truth = log_of(sorted_quantile(self.pooled, probability)?);
        let each = self.runs.iter();
        let each = each.filter_map(|run| run.quantile(self.task, probability));
        let mut apart: Vec<f64> = each.map(|quantile| log_of(quantile) - truth).collect();
        apart.sort_by(f64::total_cmp);
        let count = apart.len();
        let left_out = ((count as f64 + 1.0) * (1.0 - query.confidence) / 2.0).floor() as usize;
        let least = *apart.get(left_out.max(1) - 1)?;
        let most = *apart.get(count - left_out.clamp(1, count))?;
        let mean = apart.iter().sum::<f64>() / count as f64;
        let squares: f64 = apart.iter().map(|one| (one - mean) * (one - mean)).sum();
        let log_deviation = (squares / (count as f64 - 1.0).max(1.0)).sqrt();
        let at = |log: f64| Duration::from_secs_f64_nearest(log.exp());
        // Of one run, however many with the same arrivals were measured.
        let requests = self.pooled.len() as f64 / self.runs.len().max(1) as f64;
        let beyond = requests * (1.0 - probability);
        // Where runs differ much from each other, what is between all of them may leave this one outside. The
        // interval shall hold what was measured, and nothing that is shorter than any request was.
        let shortest = self.measured.min()?.low;
        let low = at(log_of(measured.low) - most).clamp(shortest, measured.low);
        let high = measured.high;
        let high = high.map(|high| at(log_of(high) - least).max(high));
        let half = (most - least) / 2.0;
        let wanted = (1.0 + WANTED_WIDTH).ln();
        let longer = (half / wanted).powi(2).max(LEAST_BEYOND / beyond.max(1e-9));
        let too_short = beyond < LEAST_BEYOND || most - least > WIDEST.ln();
        Some(MeasuredInterval {
            task: self.task.map(str::to_owned),
            percentile,
            low,
            high: high.filter(|_| beyond >= LEAST_BEYOND),
            method: IntervalMethod::FittedQueue,
            log_deviation: Some(log_deviation),
            too_short,
            needed: Duration::from_secs_f64_nearest(query.setting.duration.as_secs_f64() * longer),
        })
    }
}

/// The level of execution times at which the 90th percentile of the simulated queue is that of the measured
/// run, by bisection with the same draws at every step.
///
/// # Errors
/// [`BandError::OtherQueue`] if it lies farther from the calibrated one than is searched.
fn fitted_level(query: &IntervalQuery<'_>, random: &mut ChaCha8Rng) -> Result<f64, BandError> {
    let none = BandError::NoReleases {
        duration: query.setting.duration,
    };
    let measured = query.measured.quantile(0.9).ok_or(none)?.low;
    let seed: u64 = random.random();
    let (mut low, mut high) = ((1.0 / MOST_FITTED).ln(), MOST_FITTED.ln());
    for _ in 0..FITTING_STEPS {
        let middle = f64::midpoint(low, high);
        let mut same = ChaCha8Rng::seed_from_u64(seed);
        let runs = fresh_runs(query, middle.exp(), FITTING_RUNS, &mut same)?;
        let all = runs.iter().flat_map(|run| run.latencies(None));
        let mut pooled: Vec<Duration> = all.copied().collect();
        pooled.sort_unstable();
        match sorted_quantile(&pooled, 0.9) {
            Some(quantile) if quantile > measured => high = middle,
            _ => low = middle,
        }
    }
    let fitted = f64::midpoint(low, high);
    // A search that ends where it may not go on has found nothing.
    let nearest = MOST_FITTED.ln() - (high - low);
    match fitted.abs() < nearest {
        true => Ok(fitted.exp()),
        false => Err(BandError::OtherQueue {
            factor: MOST_FITTED,
        }),
    }
}

/// Runs with arrivals of their own.
fn fresh_runs(
    query: &IntervalQuery<'_>,
    level: f64,
    runs: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<SimulatedRun>, BandError> {
    let setting = &query.setting;
    let tasks: Vec<&str> = query.tasks.iter().map(|(task, _)| *task).collect();
    let horizon = setting.warm_up.saturating_add(setting.duration);
    let simulated = (0..runs).map(|_| {
        let releases: Vec<Release> =
            releases(setting.service, horizon, random.random(), query.inputs)?;
        let choice = (Ingredients::FITTED, level);
        SimulatedRun::draw_at_level(setting, &releases, &tasks, choice, random)
    });
    simulated.collect()
}
