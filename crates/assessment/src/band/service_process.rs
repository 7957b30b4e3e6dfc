//! A service's execution times as a process in time: rounds of requests, each of which has a level.
//!
//! A host has phases of seconds in which every request takes longer. One pool of all requests forgets
//! them; rounds with their instants keep them.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};
use serde::{Deserialize, Serialize};
use tailbound_simulator::workload::Release;
use tailbound_time::{Duration, Instant, nanoseconds};

use super::BandError;
use super::simulated_run::{Ingredients, LevelChange};

/// The largest factor by which a run's level may differ from that of the calibration; a t-distribution
/// with one degree of freedom knows no limit.
const MOST_LEVEL: f64 = 3.0;
/// The least degrees of freedom of the level: with one alone a band would be as wide as [`MOST_LEVEL`].
const LEAST_DEGREES: f64 = 2.0;
/// The largest correlation of neighbouring rounds that is reckoned with.
const MOST_CORRELATION: f64 = 0.9;

/// One request of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTime {
    /// How long it keeps the service busy.
    #[serde(rename = "busy_ns", with = "nanoseconds")]
    pub busy: Duration,
    /// What its latency has beside that: the way from client to service and back.
    #[serde(rename = "beside_ns", with = "nanoseconds")]
    pub beside: Duration,
    /// The execution time that the request asked for, of a service that is told; else zero.
    #[serde(rename = "asked_ns", with = "nanoseconds")]
    pub asked: Duration,
}

/// A round of a calibration: requests one after the other within a short time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRound {
    /// When it began, since the begin of the calibration.
    #[serde(rename = "begin_ns", with = "nanoseconds")]
    pub begin: Duration,
    /// When it ended.
    #[serde(rename = "end_ns", with = "nanoseconds")]
    pub end: Duration,
    /// The requests of each task, in the order in which they were sent.
    pub tasks: BTreeMap<String, Vec<RequestTime>>,
}

impl ProcessRound {
    /// The logarithm of its level against the typical request of each task: the mean over the tasks.
    fn log_level(&self, typical: &BTreeMap<&str, f64>) -> Option<f64> {
        let of_task = |(task, requests): (&String, &Vec<RequestTime>)| {
            let own = median_seconds(requests.iter())?;
            let typical = *typical.get(task.as_str())?;
            (own > 0.0 && typical > 0.0).then(|| (own / typical).ln())
        };
        let levels: Vec<f64> = self.tasks.iter().filter_map(of_task).collect();
        (!levels.is_empty()).then(|| levels.iter().sum::<f64>() / levels.len() as f64)
    }
}

/// The execution times of a service, as a calibration has seen them over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<ProcessRound>", into = "Vec<ProcessRound>")]
pub struct ServiceProcess {
    rounds: Vec<ProcessRound>,
    /// The natural logarithm of each round's level.
    log_levels: Vec<f64>,
}

/// How the levels of the rounds vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelVariation {
    /// The standard deviation of the logarithm of a round's level.
    pub deviation: f64,
    /// The correlation of neighbouring rounds, from 0 on.
    pub correlation: f64,
    /// How many rounds resemble each other, on average.
    pub persistence: f64,
    /// The standard error of the logarithm of the mean level.
    pub mean_error: f64,
    /// The degrees of freedom with which it is known.
    pub degrees: f64,
}

impl From<Vec<ProcessRound>> for ServiceProcess {
    fn from(rounds: Vec<ProcessRound>) -> Self {
        Self::new(rounds)
    }
}

impl From<ServiceProcess> for Vec<ProcessRound> {
    fn from(process: ServiceProcess) -> Self {
        process.rounds
    }
}

impl ServiceProcess {
    /// The process of these rounds, in order of time; a round without a request is left out.
    pub fn new(rounds: Vec<ProcessRound>) -> Self {
        let mut rounds = rounds;
        rounds.retain(|round| round.tasks.values().any(|requests| !requests.is_empty()));
        rounds.sort_by_key(|round| round.begin);
        let mut typical: BTreeMap<&str, f64> = BTreeMap::new();
        for task in rounds.iter().flat_map(|round| round.tasks.keys()) {
            let all = rounds.iter().filter_map(|round| round.tasks.get(task));
            if let Some(median) = median_seconds(all.flatten()) {
                typical.insert(task, median);
            }
        }
        let levels = rounds.iter().map(|round| round.log_level(&typical));
        let log_levels = levels.map(Option::unwrap_or_default).collect();
        Self { rounds, log_levels }
    }

    /// The same where a request keeps the service busy for its whole round trip.
    #[must_use]
    pub fn of_whole_trips(&self) -> Self {
        let mut rounds = self.rounds.clone();
        let tasks = rounds.iter_mut().flat_map(|round| round.tasks.values_mut());
        for request in tasks.flatten() {
            request.busy = request.busy.saturating_add(request.beside);
            request.beside = Duration::ZERO;
        }
        Self::new(rounds)
    }

    /// The rounds, in order of time.
    pub fn rounds(&self) -> &[ProcessRound] {
        &self.rounds
    }

    /// The factor between the level of each round and the typical one, in order of time.
    pub fn levels(&self) -> impl Iterator<Item = f64> {
        self.log_levels.iter().map(|level| level.exp())
    }

    /// How the levels vary from round to round, and how well their mean is known.
    pub fn variation(&self) -> LevelVariation {
        let count = self.log_levels.len() as f64;
        if count < 2.0 {
            return LevelVariation::default();
        }
        let mean = self.log_levels.iter().sum::<f64>() / count;
        let apart: Vec<f64> = self.log_levels.iter().map(|level| level - mean).collect();
        let squares: f64 = apart.iter().map(|one| one * one).sum();
        let products: f64 = apart.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let correlation = match squares > 0.0 {
            // A short series underestimates its correlation by about (1 + 4 r) / n (Kendall 1954).
            true => {
                let raw = products / squares;
                (raw + (1.0 + 4.0 * raw.max(0.0)) / count).clamp(0.0, MOST_CORRELATION)
            }
            false => 0.0,
        };
        let persistence = ((1.0 + correlation) / (1.0 - correlation))
            .min(count / 2.0)
            .max(1.0);
        let independent = (count / persistence).max(2.0);
        LevelVariation {
            deviation,
            correlation,
            persistence,
            mean_error: deviation / independent.sqrt(),
            degrees: independent - 1.0,
        }
    }

    /// The mean distance between the begins of rounds: for so long a round speaks for the host.
    fn round_distance(&self) -> Duration {
        match self.rounds.as_slice() {
            [first, .., last] => {
                let span = last.begin.saturating_sub(first.begin);
                (span / (self.rounds.len() as u64 - 1)).max(Duration::from_millis(1))
            }
            _ => Duration::MAX,
        }
    }

    /// A factor on the level of a run of this length. With it, levels of drawn runs are t-distributed with the
    /// scatter of means from run to run and, for a run apart from the calibration, the error of the
    /// calibration's mean; the part of the scatter that resampled rounds show already is taken off.
    ///
    /// With a correlation r from round to round, the mean of m rounds varies by s² (1 + r) / (1 - r) / m.
    /// The stationary bootstrap with restarts of probability p has the correlation r (1 - p) instead (Politis
    /// and Romano, JASA 89, 1994, section 3), and n rounds vary by (n - 1) / n of s² around their own mean. The
    /// correlation of so few rounds is uncertain itself, and is drawn with its standard error (Bartlett 1946).
    fn draw_level(&self, change: LevelChange, length: Duration, random: &mut ChaCha8Rng) -> f64 {
        let variation = self.variation();
        let count = self.rounds.len() as f64;
        let degrees = variation.degrees.max(LEAST_DEGREES);
        let Ok(squares) = ChiSquared::new(degrees) else {
            return 1.0;
        };
        let inflation = degrees / squares.sample(random).max(1e-3);
        let standard: f64 = StandardNormal.sample(random);
        let error = ((1.0 - variation.correlation.powi(2)) / count.max(1.0)).sqrt();
        let correlation = (variation.correlation + standard * error).clamp(0.0, MOST_CORRELATION);
        let distance = self.round_distance().as_secs_f64().max(1e-9);
        let rounds = (length.as_secs_f64() / distance).max(1.0);
        let of_mean = |correlation: f64, rounds: f64| {
            let persistence = (1.0 + correlation) / (1.0 - correlation);
            (persistence / rounds).min(1.0)
        };
        let restart = 1.0 / variation.persistence.max(1.0);
        let kept = variation.correlation * (1.0 - restart);
        let resampled = of_mean(kept, rounds) * (count - 1.0).max(0.0) / count.max(1.0);
        let apart = match change {
            LevelChange::Another => of_mean(correlation, count),
            LevelChange::Fitted | LevelChange::Same => 0.0,
        };
        let wanted = inflation * (of_mean(correlation, rounds) + apart);
        let scale = variation.deviation * (wanted - resampled).max(0.0).sqrt();
        let drawn: f64 = StandardNormal.sample(random);
        (drawn * scale).exp().clamp(1.0 / MOST_LEVEL, MOST_LEVEL)
    }

    /// The execution times of `releases` in a run that was drawn: consecutive requests of a round, rounds
    /// that follow each other as in the calibration for [`LevelVariation::persistence`] rounds on average
    /// (the stationary bootstrap of Politis and Romano, JASA 89, 1994), all times a common level.
    /// Without phases, each request is drawn alone from all rounds.
    ///
    /// Returns the releases with their execution times, and what each latency has beside the response.
    ///
    /// # Errors
    /// A task without a request in the calibration whose execution time the description does not tell.
    pub(super) fn draw(
        &self,
        releases: &[Release],
        ingredients: Ingredients,
        random: &mut ChaCha8Rng,
    ) -> Result<(Vec<Release>, Vec<Duration>), BandError> {
        let variation = self.variation();
        let phases = ingredients.phases;
        let length = releases.last().map_or(Duration::ZERO, |last| {
            last.at.saturating_since(Instant::ORIGIN)
        });
        let level = match ingredients.level {
            LevelChange::Same => 1.0,
            change => self.draw_level(change, length, random),
        };
        let mut course = RoundCourse::new(self, variation.persistence, phases, random);
        let mut drawn = Vec::with_capacity(releases.len());
        let mut beside = Vec::with_capacity(releases.len());
        for release in releases {
            let mut release = release.clone();
            let request = course.request(&release, random);
            let execution = match (request, release.execution) {
                (Some(request), Some(described)) if !request.asked.is_zero() => {
                    let factor = request.busy.as_secs_f64() / request.asked.as_secs_f64();
                    described.as_secs_f64() * factor * level
                }
                (Some(request), _) => request.busy.as_secs_f64() * level,
                (None, Some(described)) => described.as_secs_f64(),
                (None, None) => {
                    return Err(BandError::NotCalibrated {
                        task: release.task.clone(),
                    });
                }
            };
            release.execution = Some(Duration::from_secs_f64_nearest(execution));
            beside.push(request.map_or(Duration::ZERO, |request| request.beside));
            drawn.push(release);
        }
        Ok((drawn, beside))
    }
}

/// The rounds that a drawn run goes through.
struct RoundCourse<'a> {
    process: &'a ServiceProcess,
    persistence: f64,
    phases: bool,
    distance: Duration,
    round: usize,
    until: Instant,
    /// The next request of each task in the round.
    next: BTreeMap<&'a str, usize>,
}

impl<'a> RoundCourse<'a> {
    fn new(
        process: &'a ServiceProcess,
        persistence: f64,
        phases: bool,
        random: &mut ChaCha8Rng,
    ) -> Self {
        let distance = process.round_distance();
        // A run begins anywhere within a round's stretch.
        let part: f64 = random.random();
        let first = Duration::from_secs_f64_nearest(distance.as_secs_f64().min(1e9) * part);
        Self {
            process,
            persistence,
            phases,
            distance,
            round: random.random_range(0..process.rounds.len().max(1)),
            until: Instant::ORIGIN.saturating_add(first),
            next: BTreeMap::new(),
        }
    }

    fn request(&mut self, release: &Release, random: &mut ChaCha8Rng) -> Option<RequestTime> {
        let rounds = &self.process.rounds;
        if rounds.is_empty() {
            return None;
        }
        if !self.phases {
            self.round = random.random_range(0..rounds.len());
        }
        while self.phases && release.at >= self.until {
            self.until = self.until.saturating_add(self.distance);
            self.round = match random.random_bool(1.0 / self.persistence.max(1.0)) {
                true => random.random_range(0..rounds.len()),
                false => (self.round + 1) % rounds.len(),
            };
            self.next.clear();
        }
        let own = rounds[self.round].tasks.get_key_value(&release.task);
        let (task, requests) = own.filter(|(_, requests)| !requests.is_empty())?;
        if !self.phases {
            return Some(requests[random.random_range(0..requests.len())]);
        }
        let start = || random.random_range(0..requests.len());
        let next = self.next.entry(task.as_str()).or_insert_with(start);
        let request = requests[*next % requests.len()];
        *next += 1;
        Some(request)
    }
}

fn median_seconds<'a>(requests: impl Iterator<Item = &'a RequestTime>) -> Option<f64> {
    let mut times: Vec<Duration> = requests.map(|request| request.busy).collect();
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| time.as_secs_f64())
}
