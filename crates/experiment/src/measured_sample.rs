//! The latencies of a service in one variant, as the intervals of its percentiles are asked for.

use std::collections::BTreeSet;

use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{Distribution, merge};
use tailbound_model::Service;
use tailbound_report::{CONFIDENCE, PERCENTILES, VariantResult};
use tailbound_time::Duration;

/// The latencies of whole runs, all repetitions together, with the percentiles in a report and in the promises.
pub(crate) struct MeasuredSample {
    /// Those of all tasks together.
    pub overall: Distribution,
    /// Those of each task, where there are several.
    pub tasks: Vec<(String, Distribution)>,
    /// The percentiles, ascending.
    pub percentiles: Vec<f64>,
}

impl MeasuredSample {
    /// The sample of a result; `None` where nothing was measured, or a run ended early.
    pub fn of(result: &VariantResult, service: &Service) -> Option<Self> {
        if result.measured.iter().any(|run| run.interrupted.is_some()) {
            return None;
        }
        let overall = result.measured_together()?;
        let runs = result.measured.iter();
        let tasks: BTreeSet<&String> = runs.flat_map(|run| run.per_task.keys()).collect();
        let tasks = tasks.into_iter().filter_map(|task| {
            let parts = result.measured.iter();
            let parts: Vec<&Distribution> =
                parts.filter_map(|run| run.per_task.get(task)).collect();
            Some((task.clone(), merge(&parts).ok()?))
        });
        let promised = service.slos.iter().map(|slo| slo.percentile.0);
        let shown = PERCENTILES.iter().map(|(_, share)| share * 100.0);
        let mut percentiles: Vec<f64> = shown.chain(promised).collect();
        percentiles.sort_by(f64::total_cmp);
        percentiles.dedup_by(|one, other| (*one - *other).abs() < 1e-9);
        Some(Self {
            overall,
            tasks: tasks.collect(),
            percentiles,
        })
    }

    /// The intervals that the sample itself says, of runs of a duration: those of all requests first.
    pub fn intervals(&self, duration: Duration) -> Vec<MeasuredInterval> {
        let tasks = self.tasks.iter();
        let tasks = tasks.map(|(task, measured)| (Some(task.as_str()), measured));
        let subjects = std::iter::once((None, &self.overall)).chain(tasks);
        let of_subject = |(task, measured)| {
            let percentiles = self.percentiles.iter();
            percentiles.filter_map(move |&percentile| {
                MeasuredInterval::of_sample((task, percentile), measured, CONFIDENCE, duration)
            })
        };
        subjects.flat_map(of_subject).collect()
    }
}
