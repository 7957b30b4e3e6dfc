//! The rows of a unit: one for each task, and one for each service as a whole.

use std::fmt::Write as _;

use tailbound_distribution::Distribution;
use tailbound_model::{Description, Service};
use tailbound_time::Duration;

use super::{Axis, SimulatedService};
use crate::forecast::Span;

/// The columns behind those of the axes.
const COLUMNS: &str =
    "seed,service,task,jobs,mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns,misses,verdict";

/// What stands for all tasks of a service; no task has that name.
const ALL: &str = "*";

/// The first line.
pub(super) fn header(axes: &[Axis]) -> String {
    let mut line = String::new();
    for axis in axes {
        let _ = write!(line, "{},", field(&axis.key));
    }
    let _ = writeln!(line, "{COLUMNS}");
    line
}

/// The rows of one point and seed.
pub(super) fn rows(
    values: &[String],
    description: &Description,
    span: Span,
    services: &[SimulatedService],
) -> String {
    let mut text = String::new();
    let before: String = values.iter().map(|value| field(value) + ",").collect();
    for simulated in services {
        let Some(service) = description.services.get(&simulated.name) else {
            continue;
        };
        let mut row = |task: &str, cells: String| {
            let (seed, name) = (span.seed, &simulated.name);
            let _ = writeln!(text, "{before}{seed},{name},{task},{cells}");
        };
        let Some(found) = &simulated.found else {
            for task in service.tasks.keys().map(String::as_str).chain([ALL]) {
                row(task, ",,,,,,,,not-simulated".into());
            }
            continue;
        };
        let mut missed_by_all = None;
        for (name, task) in &service.tasks {
            let responses = found.per_task.get(name);
            let misses = task
                .relative_deadline()
                .map(|deadline| responses.map_or(0, |found| later_than(found, deadline)));
            if let Some(misses) = misses {
                *missed_by_all.get_or_insert(0) += misses;
            }
            let verdict = verdict(service, Some(name), responses);
            row(name, cells(responses, misses, verdict));
        }
        let verdict = verdict(service, None, Some(&found.overall));
        row(ALL, cells(Some(&found.overall), missed_by_all, verdict));
    }
    text
}

fn later_than(responses: &Distribution, deadline: Duration) -> u64 {
    let samples = responses.samples();
    (samples.len() - samples.partition_point(|response| *response <= deadline)) as u64
}

fn cells(responses: Option<&Distribution>, misses: Option<u64>, verdict: &str) -> String {
    let jobs = responses.and_then(Distribution::count).unwrap_or(0);
    let mut cells = jobs.to_string();
    let mean = responses.and_then(Distribution::mean);
    let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0].map(|p| responses.and_then(|r| r.quantile(p)));
    for value in [mean].into_iter().chain(quantiles) {
        let exact = value.map(|interval| interval.low.as_nanos().to_string());
        let _ = write!(cells, ",{}", exact.unwrap_or_default());
    }
    let misses = misses.map(|count| count.to_string()).unwrap_or_default();
    let _ = write!(cells, ",{misses},{verdict}");
    cells
}

/// Whether the simulated percentiles lie within what is promised about that task, or about all tasks
/// together; missed if one does not.
fn verdict(
    service: &Service,
    task: Option<&String>,
    responses: Option<&Distribution>,
) -> &'static str {
    let mut verdict = "";
    for slo in service.slos.iter().filter(|slo| slo.task.as_ref() == task) {
        let reached = responses.and_then(|found| found.quantile(slo.percentile.probability()));
        match reached {
            None => return "undecided",
            Some(reached) if reached.low > slo.latency => return "missed",
            Some(_) => verdict = "met",
        }
    }
    verdict
}

/// A field by RFC 4180.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
