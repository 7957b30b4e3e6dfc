//! Texts with units, by the parsers that the command line has, too.

use pyo3::prelude::*;
use tailbound_analysis::Promise;
use tailbound_analysis::notation::{ExecutionNotation, PeriodRange, TaskNotation};
use tailbound_time::{Duration, Rate};

use crate::refusal::invalid;

/// The nanoseconds of a text such as `5ms`.
///
/// # Errors
/// A text without a number or a unit, or beyond what is counted in 64 bits.
#[pyfunction]
pub fn parse_duration(python: Python<'_>, text: &str) -> PyResult<u64> {
    let parsed: Result<Duration, _> = text.parse();
    parsed
        .map(Duration::as_nanos)
        .map_err(|error| invalid(python, error))
}

/// The events per second of a text such as `200/s`.
///
/// # Errors
/// A text without a number or a unit, and what is not above zero.
#[pyfunction]
pub fn parse_rate(python: Python<'_>, text: &str) -> PyResult<f64> {
    let parsed: Result<Rate, _> = text.parse();
    parsed
        .map(Rate::as_per_second)
        .map_err(|error| invalid(python, error))
}

/// Execution time, period, deadline, offset, jitter and blocking in nanoseconds.
type TaskRow = (u64, u64, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

/// The parts of a text such as `10ms/100ms/90ms`, `10ms/100ms+30ms` or `10ms/100ms,jitter=2ms`.
///
/// # Errors
/// What is no task: which part of it is wrong.
#[pyfunction]
pub fn parse_task(python: Python<'_>, text: &str) -> PyResult<TaskRow> {
    let parsed: Result<TaskNotation, _> = text.parse();
    let task = parsed.map_err(|error| invalid(python, error))?;
    Ok((
        task.execution.as_nanos(),
        task.period.as_nanos(),
        task.deadline.map(Duration::as_nanos),
        task.offset.map(Duration::as_nanos),
        task.jitter.map(Duration::as_nanos),
        task.blocking.map(Duration::as_nanos),
    ))
}

/// The share and the latency in nanoseconds of a text such as `p99=30ms`.
///
/// # Errors
/// What is no promise.
#[pyfunction]
pub fn parse_promise(python: Python<'_>, text: &str) -> PyResult<(f64, u64)> {
    let parsed: Result<Promise, _> = text.parse();
    let promise = parsed.map_err(|error| invalid(python, error))?;
    Ok((promise.probability, promise.latency.as_nanos()))
}

/// The shortest and the longest of a text such as `1ms..100ms`, in nanoseconds.
///
/// # Errors
/// What is no period and no range of them.
#[pyfunction]
pub fn parse_period_range(python: Python<'_>, text: &str) -> PyResult<(u64, u64)> {
    let parsed: Result<PeriodRange, _> = text.parse();
    let range = parsed.map_err(|error| invalid(python, error))?;
    Ok((range.low.as_nanos(), range.high.as_nanos()))
}

/// Nanoseconds with probabilities of a text such as `2ms` or `1ms:0.5,3ms:0.5`; `None` for a law such as
/// `exponential:mean=2ms`.
///
/// # Errors
/// What is no time, several of which one has no probability, and what is no law.
#[pyfunction]
pub fn parse_execution_times(python: Python<'_>, text: &str) -> PyResult<Option<Vec<(u64, f64)>>> {
    let one = |(time, probability): (Duration, f64)| (time.as_nanos(), probability);
    let parsed: Result<ExecutionNotation, _> = text.parse();
    match parsed.map_err(|error| invalid(python, error))? {
        ExecutionNotation::Values(values) => Ok(Some(values.into_iter().map(one).collect())),
        ExecutionNotation::Law(_) => Ok(None),
    }
}

/// The shortest exact text of a time, such as `1.5s`.
#[pyfunction]
pub fn format_duration(nanoseconds: u64) -> String {
    Duration::from_nanos(nanoseconds).to_string()
}
