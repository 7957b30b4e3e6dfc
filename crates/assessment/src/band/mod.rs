//! Prediction bands: where the quantiles of the run that is about to be measured will lie.
//!
//! The exact answer of the analysis is about a run without end on a host that always works alike. A band is
//! about one run of a given length on a host as its calibration has seen it: execution times in phases
//! ([`ServiceProcess`]), a CPU that is taken away now and then ([`SupplyProcess`]), a level that may differ
//! from the calibration's, and the arrivals of the run itself, since its seed is known. Some hundred runs are
//! drawn from these processes and simulated; a band holds the quantiles of the middle share of them. Where
//! the host has a history, the band is corrected by what earlier bands were worth ([`BandCorrection`]).
//!
//! This module owns the mathematics. What is recorded, and where histories lie, is the concern of the crates
//! above.

mod correction;
mod explanation;
mod interval;
mod service_process;
mod simulated_run;
mod supply_process;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tailbound_analysis::AnalysisError;
use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_model::{ReservationServer, Service, Slo};
use tailbound_simulator::SimulationError;
use tailbound_simulator::workload::{Release, WorkloadError};
use tailbound_time::{Duration, nanoseconds};

pub use correction::{BandCorrection, PastQuantile};
pub use explanation::{FailedAssumption, RunRecord, failed_assumptions};
pub use interval::{IntervalQuery, MeasuredInterval, measured_intervals};
pub use service_process::{LevelVariation, ProcessRound, RequestTime, ServiceProcess};
use simulated_run::{Ingredients, SimulatedRun};
pub use supply_process::{LateLook, SupplyProcess};

/// The probability with which a band is to hold a measured quantile.
pub const BAND_COVERAGE: f64 = 0.9;
/// How many runs are simulated for a band.
pub const BAND_RUNS: usize = 300;
/// The least number of runs with which the ends of a band of 90% are among the runs.
pub const LEAST_RUNS: usize = 60;
/// About so many requests may be simulated for a band: some seconds of computing.
const MOST_REQUESTS: usize = 10_000_000;
/// How many runs are simulated to tell what phases and stalls add.
const SOURCE_RUNS: usize = 60;
/// The percentiles that a band tells of by name.
pub const BAND_PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];
/// The probabilities of the band's curves are multiples of 1 / this.
const CURVE_STEPS: u32 = 200;
/// A promise that is kept in so large a share of the simulated runs will be kept.
const SURE: f64 = 0.95;

/// Why there is no band.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BandError {
    /// A task's execution time is known from nowhere.
    #[error(
        "task \"{task}\" has neither a calibrated request nor a described execution time; run \
         `tailbound run` once, or describe execution_time"
    )]
    NotCalibrated {
        /// The task.
        task: String,
    },
    /// The run has no release after the warm-up.
    #[error("no request is released within {duration} after the warm-up; lengthen the run")]
    NoReleases {
        /// The length of the run.
        duration: Duration,
    },
    /// The measured run cannot be one of the queue that was calibrated.
    #[error(
        "no execution times between 1/{factor} and {factor} times the calibrated ones give the measured p90"
    )]
    OtherQueue {
        /// The factor.
        factor: f64,
    },
    /// The releases cannot be made.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A run cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

impl From<BandError> for crate::AssessmentError {
    fn from(error: BandError) -> Self {
        AnalysisError::Invalid {
            what: error.to_string(),
        }
        .into()
    }
}

/// What a run is of: a service on a reservation server, and the processes of its host.
#[derive(Clone, Copy, Debug)]
pub struct RunSetting<'a> {
    /// The service's name.
    pub name: &'a str,
    /// The service.
    pub service: &'a Service,
    /// The rule by which the CPU time is given, as the queue sees it (see
    /// [`Known::as_seen`](crate::execution_times::Known::as_seen)).
    pub server: ReservationServer,
    /// The execution times.
    pub process: &'a ServiceProcess,
    /// The supply, where it was sampled.
    pub supply: Option<&'a SupplyProcess>,
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// How long releases count.
    pub duration: Duration,
}

/// The question for a band.
#[derive(Clone, Copy, Debug)]
pub struct BandQuery<'a> {
    /// The run.
    pub setting: RunSetting<'a>,
    /// The releases of the run that is about to be measured.
    pub releases: &'a [Release],
    /// The promises of the service.
    pub promises: &'a [Slo],
    /// How many runs are simulated.
    pub runs: usize,
    /// The probability with which the band is to hold a measured quantile.
    pub coverage: f64,
    /// The seed of what is drawn.
    pub seed: u64,
    /// Earlier bands of this host with what was measured.
    pub earlier: &'a [PastQuantile],
}

/// A percentile of the run that is about to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandQuantile {
    /// The percentile.
    pub percentile: f64,
    /// The lower end, corrected where there is a history.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The median of the simulated runs.
    #[serde(rename = "median_ns", with = "nanoseconds")]
    pub median: Duration,
    /// The upper end, corrected where there is a history.
    #[serde(rename = "high_ns", with = "nanoseconds")]
    pub high: Duration,
    /// The lower end without a correction.
    #[serde(rename = "raw_low_ns", with = "nanoseconds")]
    pub raw_low: Duration,
    /// The upper end without a correction.
    #[serde(rename = "raw_high_ns", with = "nanoseconds")]
    pub raw_high: Duration,
    /// The correction from earlier runs; `None` where there are too few of them.
    pub correction: Option<BandCorrection>,
    /// What phases and a level that differs add to the median.
    pub phases_add_ns: i64,
    /// What stalls add to it.
    pub stalls_add_ns: i64,
}

impl BandQuantile {
    /// The entry of a history, once the run was measured.
    pub fn past(&self, measured: Duration) -> PastQuantile {
        PastQuantile {
            percentile: self.percentile,
            low: self.raw_low,
            median: self.median,
            high: self.raw_high,
            measured,
        }
    }

    /// Whether the band holds a measured quantile.
    pub fn holds(&self, measured: Duration) -> bool {
        (self.low..=self.high).contains(&measured)
    }
}

/// What a band says of a promise before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forecast {
    /// Kept in at least 95% of such runs.
    WillKeep,
    /// Kept in at most 5% of such runs.
    WillMiss,
    /// Neither: what the host does decides.
    TooClose,
}

impl Forecast {
    /// The forecast for a probability.
    pub fn of(kept: f64) -> Self {
        if kept >= SURE {
            Self::WillKeep
        } else if kept <= 1.0 - SURE {
            Self::WillMiss
        } else {
            Self::TooClose
        }
    }

    /// The forecast in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::WillKeep => "will keep",
            Self::WillMiss => "will miss",
            Self::TooClose => "too close for this host",
        }
    }
}

/// The probability that a run keeps a promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromiseForecast {
    /// The percentile of the promise.
    pub percentile: f64,
    /// The promised latency.
    #[serde(rename = "latency_ns", with = "nanoseconds")]
    pub latency: Duration,
    /// The task that it is about; `None` for all.
    pub task: Option<String>,
    /// The share of the runs that keep it.
    pub kept: f64,
    /// The verdict before the run.
    pub forecast: Forecast,
}

/// A band for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionBand {
    /// The probability with which it is to hold a measured quantile.
    pub coverage: f64,
    /// How many runs were simulated.
    pub runs: usize,
    /// The seed of what was drawn.
    pub seed: u64,
    /// How long releases count in the run.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
    /// The percentiles.
    pub quantiles: Vec<BandQuantile>,
    /// The promises.
    pub promises: Vec<PromiseForecast>,
    /// How the host's level varied in the calibration.
    pub variation: LevelVariation,
    /// The least and the greatest level of a round of the calibration.
    pub levels: (f64, f64),
    /// The share of the CPU that simulated runs lose to stalls, from the 5th to the 95th of a hundred.
    pub lost_share: (f64, f64),
    /// The curves of the band at every probability, each of which is a band of its own.
    pub distribution: Distribution,
}

impl PredictionBand {
    /// The band at a percentile that it tells of by name.
    pub fn quantile(&self, percentile: f64) -> Option<&BandQuantile> {
        let mut quantiles = self.quantiles.iter();
        quantiles.find(|one| (one.percentile - percentile).abs() < 1e-9)
    }
}

/// How many runs of so many releases are worth their time: [`BAND_RUNS`], or fewer where a run is long.
pub fn affordable_runs(releases: usize) -> usize {
    (MOST_REQUESTS / releases.max(1)).clamp(LEAST_RUNS, BAND_RUNS)
}

/// Predicts the quantiles of a run.
///
/// # Errors
/// [`BandError`] says what is missing.
pub fn predict_band(query: &BandQuery<'_>) -> Result<PredictionBand, BandError> {
    let mut random = ChaCha8Rng::seed_from_u64(query.seed);
    let whole = simulated_runs(query, Ingredients::ALL, query.runs, &mut random)?;
    let few = SOURCE_RUNS.min(query.runs);
    let mut without = |ingredients| simulated_runs(query, ingredients, few, &mut random);
    let plain = without(Ingredients::PLAIN)?;
    let with_stalls = match query.setting.supply {
        Some(_) => without(Ingredients::STALLS)?,
        None => plain.clone(),
    };
    let quantiles = BAND_PERCENTILES.iter().filter_map(|&percentile| {
        let probability = percentile / 100.0;
        let mut quantile = band_quantile(query, &whole, percentile)?;
        let base = sorted_quantiles(&plain, None, probability);
        let stalls = sorted_quantiles(&with_stalls, None, probability);
        let (base, stalls) = (middle(&base)?, middle(&stalls)?);
        quantile.stalls_add_ns = difference_ns(base, stalls);
        quantile.phases_add_ns = difference_ns(stalls, quantile.median);
        Some(quantile)
    });
    let quantiles: Vec<BandQuantile> = quantiles.collect();
    let promises = query
        .promises
        .iter()
        .filter_map(|slo| forecast(query, &whole, slo));
    let levels: Vec<f64> = query.setting.process.levels().collect();
    let mut lost: Vec<f64> = whole.iter().map(|run| run.lost_share).collect();
    lost.sort_by(f64::total_cmp);
    let at = |share: f64| lost.get(rank(share, lost.len())).copied().unwrap_or(0.0);
    Ok(PredictionBand {
        coverage: query.coverage,
        runs: whole.len(),
        seed: query.seed,
        duration: query.setting.duration,
        promises: promises.collect(),
        variation: query.setting.process.variation(),
        levels: (
            levels
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min)
                .min(1.0),
            levels.iter().copied().fold(1.0, f64::max),
        ),
        lost_share: (at(0.05), at(0.95)),
        distribution: curves(query, &whole, &quantiles),
        quantiles,
    })
}

fn simulated_runs(
    query: &BandQuery<'_>,
    ingredients: Ingredients,
    runs: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<SimulatedRun>, BandError> {
    let tasks: Vec<&str> = query
        .promises
        .iter()
        .filter_map(|slo| slo.task.as_deref())
        .collect();
    let simulated = (0..runs)
        .map(|_| SimulatedRun::draw(&query.setting, query.releases, &tasks, ingredients, random));
    simulated.collect()
}

fn band_quantile(
    query: &BandQuery<'_>,
    runs: &[SimulatedRun],
    percentile: f64,
) -> Option<BandQuantile> {
    let sorted = sorted_quantiles(runs, None, percentile / 100.0);
    let (raw_low, raw_high) = ends(&sorted, query.coverage)?;
    let median = middle(&sorted)?;
    let correction = BandCorrection::of(query.earlier, percentile, query.coverage);
    let stretch = |end| match correction {
        Some(correction) => BandCorrection::stretch(correction.factor, median, end),
        None => end,
    };
    Some(BandQuantile {
        percentile,
        low: stretch(raw_low),
        median,
        high: stretch(raw_high),
        raw_low,
        raw_high,
        correction,
        phases_add_ns: 0,
        stalls_add_ns: 0,
    })
}

/// The share of the runs that keep a promise.
fn forecast(query: &BandQuery<'_>, runs: &[SimulatedRun], slo: &Slo) -> Option<PromiseForecast> {
    let verdicts: Vec<bool> = verdicts(query, runs, slo).into_iter().flatten().collect();
    if verdicts.is_empty() {
        return None;
    }
    let kept = share_of_true(&verdicts);
    Some(PromiseForecast {
        percentile: slo.percentile.0,
        latency: slo.latency,
        task: slo.task.clone(),
        kept,
        forecast: Forecast::of(kept),
    })
}

/// Whether each run keeps a promise, the scatter of the runs corrected as the band is; `None` for a run without a
/// request that the promise is about.
fn verdicts(query: &BandQuery<'_>, runs: &[SimulatedRun], slo: &Slo) -> Vec<Option<bool>> {
    let (task, probability) = (slo.task.as_deref(), slo.percentile.probability());
    let Some(median) = middle(&sorted_quantiles(runs, task, probability)) else {
        return vec![None; runs.len()];
    };
    let percentile = slo.percentile.0;
    let nearest = BAND_PERCENTILES.into_iter().min_by(|one, other| {
        let apart = |to: f64| (to - percentile).abs();
        apart(*one).total_cmp(&apart(*other))
    });
    let correction =
        nearest.and_then(|nearest| BandCorrection::of(query.earlier, nearest, query.coverage));
    let factor = correction.map_or(1.0, |correction| correction.factor);
    let kept = |quantile| BandCorrection::stretch(factor, median, quantile) <= slo.latency;
    let quantiles = runs.iter().map(|run| run.quantile(task, probability));
    quantiles.map(|quantile| quantile.map(kept)).collect()
}

fn share_of_true(verdicts: &[bool]) -> f64 {
    let kept = verdicts.iter().filter(|kept| **kept);
    kept.count() as f64 / verdicts.len().max(1) as f64
}

/// The share of the runs that keep every promise of the query at once. A promise about a task without a request in a
/// run is kept there.
///
/// # Errors
/// [`BandError`] says what is missing.
pub fn kept_share(query: &BandQuery<'_>) -> Result<f64, BandError> {
    let mut random = ChaCha8Rng::seed_from_u64(query.seed);
    let runs = simulated_runs(query, Ingredients::ALL, query.runs, &mut random)?;
    let mut all_kept = vec![true; runs.len()];
    for slo in query.promises {
        for (kept, verdict) in all_kept.iter_mut().zip(verdicts(query, &runs, slo)) {
            *kept &= verdict != Some(false);
        }
    }
    Ok(share_of_true(&all_kept))
}

/// The band at many probabilities as two curves.
fn curves(
    query: &BandQuery<'_>,
    runs: &[SimulatedRun],
    quantiles: &[BandQuantile],
) -> Distribution {
    let steps = (1..CURVE_STEPS).map(|step| f64::from(step) / f64::from(CURVE_STEPS));
    let mut probabilities: Vec<f64> = steps.collect();
    probabilities.extend([0.999, 1.0]);
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for probability in probabilities {
        let sorted = sorted_quantiles(runs, None, probability);
        let named = quantiles
            .iter()
            .find(|one| (one.percentile / 100.0 - probability).abs() < 1e-12);
        let ends = match named {
            Some(named) => Some((named.low, named.high)),
            None => corrected_ends(query, &sorted, probability),
        };
        if let Some((one, other)) = ends {
            low.push((one, probability));
            high.push((other, probability));
        }
    }
    let provenance = provenance(query, runs.len());
    match (rising(low), rising(high)) {
        (Some(low), Some(high)) => Distribution::from_bracket(provenance, low, high),
        _ => Distribution::from_samples(provenance, Vec::new()),
    }
}

/// The ends of the band at a probability, with the correction of the nearest percentile that has a history.
fn corrected_ends(
    query: &BandQuery<'_>,
    sorted: &[Duration],
    probability: f64,
) -> Option<(Duration, Duration)> {
    let (low, high) = ends(sorted, query.coverage)?;
    let median = middle(sorted)?;
    let nearest = BAND_PERCENTILES.into_iter().min_by(|one, other| {
        let apart = |to: f64| (to / 100.0 - probability).abs();
        apart(*one).total_cmp(&apart(*other))
    })?;
    let Some(correction) = BandCorrection::of(query.earlier, nearest, query.coverage) else {
        return Some((low, high));
    };
    let stretch = |end| BandCorrection::stretch(correction.factor, median, end);
    Some((stretch(low), stretch(high)))
}

/// A curve through these points. Corrections differ from percentile to percentile, so that a time may lie
/// before the one of a smaller probability: then it takes its place.
fn rising(points: Vec<(Duration, f64)>) -> Option<StepCdf> {
    let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(points.len());
    for (time, probability) in points {
        let last = steps.last().map_or(Duration::ZERO, |step| step.0);
        match steps.last_mut() {
            Some(step) if time <= last => step.1 = probability,
            _ => steps.push((time, probability)),
        }
    }
    StepCdf::new(steps).ok()
}

fn provenance(query: &BandQuery<'_>, runs: usize) -> Provenance {
    let setting = &query.setting;
    let mut provenance = Provenance::new(
        Evidence::Band,
        format!(
            "response time of {} in a run of {}",
            setting.name, setting.duration
        ),
        format!(
            "{runs} simulated runs: rounds of the calibration in blocks (stationary bootstrap), \
             level by a t-distribution, stalls as recorded"
        ),
    );
    let share = query.coverage * 100.0;
    provenance.assumptions = vec![
        format!("each percentile of the run lies between the curves with {share}%, one by one"),
        "the arrivals are those of the run; the phase of the budget's grid is any".into(),
    ];
    provenance.assumptions.push(match setting.supply {
        Some(supply) => format!(
            "the CPU is taken away as in {} in which its supply was sampled; a stall uses no budget",
            supply.span
        ),
        None => "the CPU is never taken away: its supply was not sampled".into(),
    });
    let correction = BandCorrection::of(query.earlier, 99.0, query.coverage);
    provenance.assumptions.push(match correction {
        Some(correction) => format!(
            "corrected by {} earlier runs of this host, of which {:.0}% lay within their bands at p99 \
             (conformal prediction: a run is taken for one like these)",
            correction.earlier,
            correction.held * 100.0
        ),
        None => "not corrected: this host has too few earlier runs".into(),
    });
    provenance.seed = Some(query.seed);
    provenance.warm_up = Some(setting.warm_up);
    provenance
}

/// The quantile of each run, sorted.
fn sorted_quantiles(runs: &[SimulatedRun], task: Option<&str>, probability: f64) -> Vec<Duration> {
    let each = runs
        .iter()
        .filter_map(|run| run.quantile(task, probability));
    let mut sorted: Vec<Duration> = each.collect();
    sorted.sort_unstable();
    sorted
}

/// The ends of the middle `coverage` of sorted values, rounded outwards.
fn ends(sorted: &[Duration], coverage: f64) -> Option<(Duration, Duration)> {
    let count = sorted.len();
    let left_out = ((count as f64 + 1.0) * (1.0 - coverage) / 2.0).floor() as usize;
    let low = sorted.get(left_out.max(1) - 1)?;
    let high = sorted.get(count - left_out.clamp(1, count))?;
    Some((*low, *high))
}

fn middle(sorted: &[Duration]) -> Option<Duration> {
    sorted.get(sorted.len() / 2).copied()
}

/// The index of a share of so many sorted values.
fn rank(share: f64, count: usize) -> usize {
    ((count as f64 * share) as usize).min(count.saturating_sub(1))
}

fn difference_ns(from: Duration, to: Duration) -> i64 {
    let difference = i128::from(to.as_nanos()) - i128::from(from.as_nanos());
    difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
