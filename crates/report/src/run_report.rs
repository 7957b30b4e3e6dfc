//! The result document of `tailbound run`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_analysis::Outlook;
use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{Distribution, Interval, IntervalMethod, merge};
use tailbound_model::{BackendKind, ResourceInterface, Slo};
use tailbound_time::{Duration, nanoseconds};

use crate::documents;

/// The version of the result document.
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// Everything that a run found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The version of this document; 1.
    pub schema_version: u32,
    /// The version of Tailbound that wrote it.
    pub tailbound_version: String,
    /// The name of the described system.
    pub name: String,
    /// The description file's text, as run.
    pub description_toml: String,
    /// When the run began, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended, likewise; `None` in documents from before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The seed of everything random.
    pub seed: u64,
    /// The host: kernel, CPUs, clock source and the like, as name and value.
    pub host: BTreeMap<String, String>,
    /// The commands that repeat the run, exactly.
    pub commands: Vec<String>,
    /// What the user should know or change, each with its advice.
    pub warnings: Vec<Warning>,
    /// The results, a variant and service each.
    pub variants: Vec<VariantResult>,
    /// The comparisons between them.
    pub comparisons: Vec<Comparison>,
    /// Why the run ended early, if it did.
    pub interrupted: Option<String>,
    /// Files with the raw data, linked from the page.
    #[serde(default)]
    pub raw_data: Vec<RawData>,
    /// The data of subsystems, by the keys of their sections (see [`crate::ReportSection`]).
    #[serde(flatten)]
    pub sections: BTreeMap<String, Value>,
}

impl Default for RunReport {
    /// A report of nothing, in the current version.
    fn default() -> Self {
        Self {
            schema_version: REPORT_SCHEMA_VERSION,
            tailbound_version: env!("CARGO_PKG_VERSION").into(),
            name: String::new(),
            description_toml: String::new(),
            started_at: String::new(),
            finished_at: None,
            seed: 0,
            host: BTreeMap::new(),
            commands: Vec::new(),
            warnings: Vec::new(),
            variants: Vec::new(),
            comparisons: Vec::new(),
            interrupted: None,
            raw_data: Vec::new(),
            sections: BTreeMap::new(),
        }
    }
}

/// A file with raw data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawData {
    /// What it holds.
    pub label: String,
    /// Where it lies, relative to the report, with `/` between the parts.
    pub path: String,
}

/// Something that may spoil the result, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What was seen.
    pub what: String,
    /// What can be done.
    pub advice: String,
}

/// What one variant did to one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantResult {
    /// The variant's label.
    pub variant: String,
    /// The service.
    pub service: String,
    /// What enforced its reservation.
    pub backend: BackendKind,
    /// What it got; none for dedicated and unreserved CPUs.
    #[serde(default, with = "documents::optional_interface")]
    pub interface: Option<ResourceInterface>,
    /// Whether domains without a reservation ran beside it.
    pub neighbours: bool,
    /// The predictions by label, such as `mean execution time`; empty where no analysis holds.
    pub predicted: Vec<Labelled>,
    /// The simulation, where one was made.
    pub simulated: Option<Distribution>,
    /// The measured latencies, one per repetition.
    pub measured: Vec<MeasuredRun>,
    /// The intervals of measured percentiles, of all requests and of each task: by the scatter of the queue that was
    /// fitted to the run, or where there is no such queue, by batches of its requests. Empty in documents from before
    /// these were, where order statistics have to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<MeasuredInterval>,
    /// The verdicts on the service's promises, over all repetitions.
    pub verdicts: Vec<Verdict>,
}

impl VariantResult {
    /// All repetitions as one sample, if there are any.
    pub fn measured_together(&self) -> Option<Distribution> {
        let parts: Vec<&Distribution> = self.measured.iter().map(|run| &run.overall).collect();
        merge(&parts).ok()
    }

    /// Whether the latencies of single tasks were told apart.
    pub fn has_tasks(&self) -> bool {
        self.measured.iter().any(|run| !run.per_task.is_empty())
    }

    /// The interval of a percentile, of a task or of all.
    pub fn interval(&self, task: Option<&str>, percentile: f64) -> Option<&MeasuredInterval> {
        let is_it = |one: &&MeasuredInterval| {
            one.task.as_deref() == task && (one.percentile - percentile).abs() < 1e-9
        };
        self.intervals.iter().find(is_it)
    }
}

/// A distribution with a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labelled {
    /// The label.
    pub label: String,
    /// The distribution.
    pub distribution: Distribution,
}

/// One measured repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// The latencies of all tasks together, from the intended send time.
    pub overall: Distribution,
    /// The latencies by task, where there is more than one.
    #[serde(default)]
    pub per_task: BTreeMap<String, Distribution>,
    /// The latencies by the mode that held at the intended send time (`run`), or the change that was
    /// under way (`run -> rest`), where modes were changed.
    #[serde(default)]
    pub per_mode: BTreeMap<String, Distribution>,
    /// How late the load generator itself sent.
    pub lateness: Distribution,
    /// Requests sent after the warm-up.
    pub sent: u64,
    /// Requests answered of those.
    pub answered: u64,
    /// Requests that failed or were never answered.
    pub failed: u64,
    /// The connections of the load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionTotals>,
    /// What the reservation's ledger says, if it has one.
    pub ledger: Option<LedgerTotals>,
    /// Why the repetition ended early, if it did.
    pub interrupted: Option<String>,
}

/// The connections of a load generator in one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTotals {
    /// Connections that were there when the load started.
    pub at_start: u64,
    /// Connections opened later in place of others, which the service had closed or took no more requests on.
    pub replacements: u64,
    /// The most streams of HTTP/2 open at once on one connection; `None` where no streams are spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_at_once: Option<u64>,
}

/// What a reservation gave out, period by period, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerTotals {
    /// Periods seen.
    pub periods: u64,
    /// Periods in which the budget was used up.
    pub depletions: u64,
    /// CPU time used in all.
    pub used_ns: u64,
    /// CPU time reserved in all.
    pub reserved_ns: u64,
    /// Median overrun of the budget in the periods that used it up.
    pub overrun_p50_ns: u64,
    /// 99th percentile of the same.
    pub overrun_p99_ns: u64,
    /// The largest.
    pub overrun_max_ns: u64,
    /// How long the domain was stopped although it had budget, to stay clear of the kernel's
    /// real-time throttling.
    #[serde(default)]
    pub held_ns: u64,
    /// CPU time of the manager itself.
    pub manager_ns: u64,
    /// The account of its windows, if it is a time partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowLedger>,
}

/// How late the windows of a time partition began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowLedger {
    /// Begins and ends of windows that came a millisecond or more late since the host held the manager up.
    pub late_by_host: u64,
    /// The same, since stopping other partitions took long.
    pub late_by_partition: u64,
    /// The same, since the manager was at work otherwise.
    pub late_by_manager: u64,
    /// Windows that passed unserved.
    pub missed: u64,
    /// Windows after which the partition used more CPU time than tolerated.
    #[serde(default)]
    pub overruns: u64,
    /// The longest delay of the begin of a window.
    pub worst_start_ns: u64,
}

/// Whether a promise held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The promise.
    #[serde(with = "documents::SloDocument")]
    pub slo: Slo,
    /// What the prediction says of that percentile.
    pub predicted: Option<Interval>,
    /// The outcome as the prediction has it.
    #[serde(default)]
    pub outlook: Option<Outlook>,
    /// What was measured at it.
    #[serde(default)]
    pub quantile: Option<Interval>,
    /// The confidence interval of what was measured.
    pub measured: Option<Interval>,
    /// The probability with which the confidence interval holds the true percentile.
    #[serde(default)]
    pub confidence: f64,
    /// How the confidence interval came about.
    #[serde(default)]
    pub method: IntervalMethod,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The whole confidence interval lies within the promise.
    Met,
    /// The whole confidence interval lies beyond it.
    Missed,
    /// The promise lies inside the confidence interval.
    Undecided,
    /// Nothing was measured.
    NotMeasured,
}

/// How far two distributions are apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The service.
    pub service: String,
    /// The label of one.
    pub left: String,
    /// The label of the other.
    pub right: String,
    /// Their Wasserstein-1 distance; its midpoint where one is a bracket.
    #[serde(rename = "wasserstein1_ns", with = "nanoseconds")]
    pub wasserstein1: Duration,
    /// The bounds of that distance.
    #[serde(default)]
    pub wasserstein1_bounds: Option<Interval>,
    /// The probability up to which quantiles were compared; below 1 where one of the two has a
    /// tail that nobody knows.
    #[serde(default = "all")]
    pub covered: f64,
    /// The same between two measurements of the dedicated CPU: the noise floor.
    #[serde(rename = "noise_floor_ns", with = "nanoseconds::optional")]
    pub noise_floor: Option<Duration>,
    /// The differences at p50, p90, p95, p99, p99.9, right minus left, in nanoseconds.
    pub quantile_differences_ns: BTreeMap<String, i64>,
}

fn all() -> f64 {
    1.0
}
