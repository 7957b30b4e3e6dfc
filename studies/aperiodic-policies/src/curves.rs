//! What the figures show: ratios to the background, averaged over applications.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::study::Row;
use crate::variants::Variant;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The mean response time of soft jobs.
    Response,
    /// The number of context switches.
    Switches,
    /// The time of the scheduler per invocation.
    TimePerInvocation,
    /// The time of the scheduler in all.
    SchedulerTime,
}

/// By what applications are put into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    HardLoad,
    HardTasks,
    SoftLoad,
    Gain,
}

impl Metric {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Response => "mean response time of soft jobs",
            Self::Switches => "context switches",
            Self::TimePerInvocation => "scheduler time per invocation",
            Self::SchedulerTime => "scheduler time in all",
        }
    }

    fn of(self, row: &Row) -> f64 {
        match self {
            Self::Response => row.mean_response_time_ns,
            Self::Switches => row.context_switches as f64,
            Self::TimePerInvocation => {
                row.scheduler_time_ns as f64 / row.scheduler_invocations.max(1) as f64
            }
            Self::SchedulerTime => row.scheduler_time_ns as f64,
        }
    }
}

impl Parameter {
    /// In words, with the unit.
    pub fn label(self) -> &'static str {
        match self {
            Self::HardLoad => "hard load, %",
            Self::HardTasks => "hard tasks",
            Self::SoftLoad => "soft load, %",
            Self::Gain => "gain time, % of the worst case",
        }
    }

    fn of(self, row: &Row) -> u32 {
        match self {
            Self::HardLoad => row.hard_load,
            Self::HardTasks => u32::try_from(row.hard_tasks).unwrap_or(u32::MAX),
            Self::SoftLoad => row.soft_load,
            Self::Gain => row.gain_thousandths / 10,
        }
    }
}

/// Ratios to the background, for one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The policy.
    pub policy: Variant,
    /// The value of the parameter, and the mean ratio of its applications.
    pub points: Vec<(u32, f64)>,
}

/// The rows of one experiment under the same costs, each beside that of the background.
pub struct Compared<'a> {
    pairs: Vec<(&'a Row, &'a Row)>,
}

impl<'a> Compared<'a> {
    /// Those rows of all.
    pub fn of(rows: &'a [Row], experiment: u8, overheads: bool) -> Self {
        let mut pairs = Vec::new();
        let mut background = None;
        for row in rows {
            if row.policy == Variant::Background {
                background = Some(row);
            }
            if let Some(background) = background
                && row.experiment == experiment
                && row.overheads == overheads
            {
                pairs.push((row, background));
            }
        }
        Self { pairs }
    }

    /// The mean ratio of a policy over all applications that satisfy a condition; not a number without
    /// any.
    pub fn mean(&self, policy: Variant, metric: Metric, which: impl Fn(&Row) -> bool) -> f64 {
        let ratios = self.ratios(policy, metric).filter(|(row, _)| which(row));
        let ratios: Vec<f64> = ratios.map(|(_, ratio)| ratio).collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    }

    /// The ratios of a policy by a parameter.
    pub fn curve(&self, policy: Variant, metric: Metric, parameter: Parameter) -> Curve {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (row, ratio) in self.ratios(policy, metric) {
            groups.entry(parameter.of(row)).or_default().push(ratio);
        }
        let points = groups
            .into_iter()
            .map(|(value, ratios)| (value, ratios.iter().sum::<f64>() / ratios.len() as f64));
        Curve {
            policy,
            points: points.collect(),
        }
    }

    /// Missed hard deadlines of a policy.
    pub fn deadline_misses(&self, policy: Variant) -> u64 {
        let rows = self.pairs.iter().map(|(row, _)| row);
        rows.filter(|row| row.policy == policy)
            .map(|row| row.deadline_misses)
            .sum()
    }

    fn ratios(&self, policy: Variant, metric: Metric) -> impl Iterator<Item = (&'a Row, f64)> {
        self.pairs
            .iter()
            .filter(move |(row, _)| row.policy == policy)
            .map(move |(row, background)| (*row, metric.of(row) / metric.of(background)))
            .filter(|(_, ratio)| ratio.is_finite())
    }
}
