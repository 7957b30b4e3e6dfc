//! The record of a measured point: what the journal keeps, and the data set shows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

/// `PointRecord` is one measurement of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointRecord {
    /// The point.
    pub point: usize,
    /// Whether the point was measured as the control point.
    pub is_control: bool,
    /// The beginning of the measurement, RFC 3339 in UTC.
    pub begun_at: String,
    /// The time that counts.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    pub measured: Duration,
    /// The time that warming up took.
    #[serde(rename = "warmed_ns", with = "nanoseconds")]
    pub warmed: Duration,
    /// The whole time that the point took, from the choice of the point to its files: with reserving, warming up, waiting
    /// for late answers, restoring and writing.
    #[serde(rename = "taken_ns", with = "nanoseconds")]
    pub taken: Duration,
    /// The results by service.
    pub services: BTreeMap<String, ServiceRecord>,
    /// The memory of the processes of each domain before and after, in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_bytes: BTreeMap<String, (u64, u64)>,
    /// What the application reported, by the names of the metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Why there is no value of a metric, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metric_faults: BTreeMap<String, String>,
    /// The oddities of the measurement.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub flags: BTreeSet<PointFlag>,
    /// Why there is no result, or not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// `ServiceRecord` is the result of a service at a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRecord {
    /// Requests that fell due in the time that counts.
    pub released: u64,
    /// Requests that were answered well.
    pub answered: u64,
    /// Requests that were answered with an error.
    pub refused: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Requests that were left out since they belong to the run-in (MSER-5).
    pub run_in: u64,
    /// Requests answered well per second.
    pub rate_per_second: f64,
    /// The mean latency of those with a known one.
    #[serde(rename = "mean_ns", with = "nanoseconds::optional")]
    pub mean: Option<Duration>,
    /// The standard deviation of the same latencies.
    #[serde(rename = "deviation_ns", with = "nanoseconds::optional")]
    pub deviation: Option<Duration>,
    /// Quantiles of the latency.
    pub quantiles: Vec<QuantileRecord>,
    /// The promises of the service.
    pub promises: Vec<PromiseRecord>,
}

/// `QuantileRecord` is a quantile with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantileRecord {
    /// The share of the latencies, in percent.
    pub percentile: f64,
    /// The quantile; where it falls among latencies that are not known, it is at least this.
    #[serde(rename = "value_ns", with = "nanoseconds")]
    pub value: Duration,
    /// The lower end of the interval.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The upper end; none where the measurement says too little for one.
    #[serde(rename = "high_ns", with = "nanoseconds::optional")]
    pub high: Option<Duration>,
}

/// `PromiseRecord` holds a promise against a measurement. Requests that were refused or not answered are late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromiseRecord {
    /// The task of the promise; all tasks of the service if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The promised latency.
    #[serde(rename = "limit_ns", with = "nanoseconds")]
    pub limit: Duration,
    /// The quantile that is to be within the limit; none where too many requests failed for one.
    pub quantile: Option<QuantileRecord>,
    /// The promised percentile.
    pub percentile: f64,
}

/// The outcome of a promise, to the confidence of the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromiseOutcome {
    /// The whole interval of the quantile is within the limit.
    Kept,
    /// The limit is inside the interval.
    Undecided,
    /// The whole interval is above the limit.
    Broken,
}

impl PromiseOutcome {
    /// The word in the data set.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Undecided => "undecided",
            Self::Broken => "broken",
        }
    }
}

impl PromiseRecord {
    /// Whether the promise is kept.
    pub fn outcome(&self) -> PromiseOutcome {
        match self.quantile {
            None => PromiseOutcome::Broken,
            Some(quantile) if quantile.low > self.limit => PromiseOutcome::Broken,
            Some(QuantileRecord {
                high: Some(high), ..
            }) if high <= self.limit => PromiseOutcome::Kept,
            Some(_) => PromiseOutcome::Undecided,
        }
    }

    /// The logarithm of the quantile over the limit: at most 0 where the promise is kept. Infinite where too many
    /// requests failed.
    pub fn log_ratio(&self) -> f64 {
        let nanoseconds = |time: Duration| time.as_nanos().max(1) as f64;
        self.quantile.map_or(f64::INFINITY, |quantile| {
            (nanoseconds(quantile.value) / nanoseconds(self.limit)).ln()
        })
    }
}

/// The oddities of a measurement, which are reported rather than averaged away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointFlag {
    /// Requests were answered with an error.
    Errors,
    /// Requests were not answered by the end.
    Unanswered,
    /// The measurement shows no steady state.
    NotSteady,
    /// Latencies rise with time.
    Slowing,
    /// The processes use more and more memory.
    GrowingMemory,
    /// The time was over before the interval was narrow enough.
    WideInterval,
    /// A reservation was lost meanwhile: the point has no result.
    LostReservation,
    /// The load generator was late by more than the precision allows.
    LateGenerator,
    /// The application reported no value of a metric, or one that makes no sense.
    OddMetric,
    /// A program ended, or the service could not be reached.
    Failed,
}

impl PointFlag {
    /// The word in the data set.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Unanswered => "unanswered",
            Self::NotSteady => "not-steady",
            Self::Slowing => "slowing",
            Self::GrowingMemory => "growing-memory",
            Self::WideInterval => "wide-interval",
            Self::LostReservation => "lost-reservation",
            Self::LateGenerator => "late-generator",
            Self::OddMetric => "odd-metric",
            Self::Failed => "failed",
        }
    }
}

impl PointRecord {
    /// Whether the record answers anything.
    pub fn counts(&self) -> bool {
        let void = [PointFlag::LostReservation, PointFlag::Failed];
        !void.iter().any(|flag| self.flags.contains(flag))
    }

    /// The worst outcome of all promises.
    pub fn outcome(&self) -> PromiseOutcome {
        let promises = self.promises();
        promises
            .map(PromiseRecord::outcome)
            .max()
            .unwrap_or(PromiseOutcome::Undecided)
    }

    /// The greatest logarithm of a quantile over its limit.
    pub fn log_ratio(&self) -> f64 {
        let promises = self.promises();
        promises
            .map(PromiseRecord::log_ratio)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    fn promises(&self) -> impl Iterator<Item = &PromiseRecord> {
        self.services.values().flat_map(|service| &service.promises)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(low: u64, high: Option<u64>) -> PromiseRecord {
        PromiseRecord {
            task: None,
            limit: Duration::from_millis(10),
            percentile: 99.0,
            quantile: Some(QuantileRecord {
                percentile: 99.0,
                value: Duration::from_millis(low),
                low: Duration::from_millis(low),
                high: high.map(Duration::from_millis),
            }),
        }
    }

    #[test]
    fn outcomes_are_those_of_the_whole_interval() {
        assert_eq!(promise(8, Some(10)).outcome(), PromiseOutcome::Kept);
        assert_eq!(promise(8, Some(11)).outcome(), PromiseOutcome::Undecided);
        assert_eq!(promise(8, None).outcome(), PromiseOutcome::Undecided);
        assert_eq!(promise(11, None).outcome(), PromiseOutcome::Broken);
        let failed = PromiseRecord {
            quantile: None,
            ..promise(1, None)
        };
        assert_eq!(failed.outcome(), PromiseOutcome::Broken);
        assert!(failed.log_ratio().is_infinite());
        assert!((promise(10, None).log_ratio()).abs() < 1e-9);
    }

    #[test]
    fn a_record_without_a_promise_decides_nothing() {
        assert_eq!(PointRecord::default().outcome(), PromiseOutcome::Undecided);
    }
}
