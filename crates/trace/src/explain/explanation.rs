//! What came out: parts by quantile band, and the slowest requests.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use super::LatencyCause;

/// The latencies of a service's requests, or of a task's jobs, split by cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The service or the thread.
    pub subject: String,
    /// The variant and the repetition, where there is one.
    pub run: String,
    /// Requests that were explained; those of the warm-up are not.
    pub requests: u64,
    /// Requests of which it is not known which thread worked on them.
    pub untold: u64,
    /// Requests that one write answered together with others of their connection.
    #[serde(default)]
    pub together: u64,
    /// The mean execution time by the calibration, where there is one.
    #[serde(
        rename = "calibrated_ns",
        with = "tailbound_time::nanoseconds::optional",
        default
    )]
    pub calibrated: Option<Duration>,
    /// The bands, from the fastest requests to the slowest.
    pub bands: Vec<QuantileBand>,
    /// The slowest requests, the slowest first.
    pub slowest: Vec<SlowRequest>,
    /// What has to be known to read it.
    pub remarks: Vec<String>,
}

impl Explanation {
    /// The variant of the run, where there is one.
    pub fn variant(&self) -> Option<&str> {
        let variant = self.run.split(',').next();
        variant.filter(|variant| !variant.is_empty())
    }

    /// The mean execution of the requests whose execution is known apart from that of others.
    pub fn mean_execution(&self) -> Duration {
        let own = self
            .bands
            .iter()
            .map(|band| band.of_cause(LatencyCause::Execution));
        let own = own.fold(Duration::ZERO, Duration::saturating_add);
        let apart = self.requests.saturating_sub(self.untold + self.together);
        own.scaled_down(1, apart.max(1))
    }

    /// The same with bands merged between these quantiles; a band that reaches over a bound stays whole, in the
    /// lower one.
    #[must_use]
    pub fn merged(&self, quantiles: &[f64]) -> Self {
        let mut bands: Vec<QuantileBand> = Vec::new();
        let place = |from: f64| quantiles.partition_point(|bound| *bound <= from + 1e-9);
        for band in &self.bands {
            match bands.last_mut() {
                Some(last) if place(last.from) == place(band.from) => last.add(band),
                _ => bands.push(band.clone()),
            }
        }
        Self {
            bands,
            ..self.clone()
        }
    }
}

/// The requests between two quantiles of the latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuantileBand {
    /// The lower quantile, from 0 to 1.
    pub from: f64,
    /// The upper quantile.
    pub to: f64,
    /// How many requests.
    pub requests: u64,
    /// The least latency.
    #[serde(rename = "least_ns", with = "tailbound_time::nanoseconds")]
    pub least: Duration,
    /// The greatest.
    #[serde(rename = "greatest_ns", with = "tailbound_time::nanoseconds")]
    pub greatest: Duration,
    /// The latencies' sum.
    #[serde(rename = "total_ns", with = "tailbound_time::nanoseconds")]
    pub total: Duration,
    /// Its parts, the greatest first; they add up to the total.
    pub parts: Vec<LatencyPart>,
}

impl QuantileBand {
    /// Takes in the band above.
    fn add(&mut self, above: &Self) {
        self.to = above.to;
        self.requests += above.requests;
        self.greatest = self.greatest.max(above.greatest);
        self.total = self.total.saturating_add(above.total);
        for part in &above.parts {
            let same =
                |own: &&mut LatencyPart| (own.cause, &own.detail) == (part.cause, &part.detail);
            match self.parts.iter_mut().find(same) {
                Some(own) => own.total = own.total.saturating_add(part.total),
                None => self.parts.push(part.clone()),
            }
        }
        self.parts.sort_by_key(|part| std::cmp::Reverse(part.total));
    }

    /// The nanoseconds of a cause, all details together.
    pub fn of_cause(&self, cause: LatencyCause) -> Duration {
        let parts = self.parts.iter().filter(|part| part.cause == cause);
        parts.fold(Duration::ZERO, |sum, part| sum.saturating_add(part.total))
    }

    /// The share of a cause in the band's latency, from 0 to 1.
    pub fn share(&self, cause: LatencyCause) -> f64 {
        match self.total.is_zero() {
            true => 0.0,
            false => self.of_cause(cause).as_secs_f64() / self.total.as_secs_f64(),
        }
    }
}

/// A part of latencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPart {
    /// The cause.
    pub cause: LatencyCause,
    /// The thread, the interrupt or the call; empty where the cause says it all.
    pub detail: String,
    /// Nanoseconds.
    #[serde(rename = "total_ns", with = "tailbound_time::nanoseconds")]
    pub total: Duration,
}

/// A slow request, from its intended send time to its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its number among the load's requests, from 0.
    pub number: u64,
    /// Its task.
    pub task: String,
    /// When it should have been sent, since the recording began.
    #[serde(rename = "intended_ns", with = "tailbound_time::nanoseconds")]
    pub intended: Duration,
    /// Its latency.
    #[serde(rename = "latency_ns", with = "tailbound_time::nanoseconds")]
    pub latency: Duration,
    /// What it waited for, one stretch after the other; they add up to the latency.
    pub course: Vec<CourseStretch>,
    /// Whether the course is in cells of time, since it had too many pieces: within a cell, stretches are in no order of
    /// time.
    #[serde(default)]
    pub in_cells: bool,
}

/// A stretch of a request's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CourseStretch {
    /// The cause.
    pub cause: LatencyCause,
    /// The detail.
    pub detail: String,
    /// When it begins, since the intended send time.
    #[serde(rename = "start_ns", with = "tailbound_time::nanoseconds")]
    pub start: Duration,
    /// How long it lasts.
    #[serde(rename = "length_ns", with = "tailbound_time::nanoseconds")]
    pub length: Duration,
}
