//! Texts with units, by the parsers that the command line has, too.

use pyo3::prelude::*;
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

/// The shortest exact text of a time, such as `1.5s`.
#[pyfunction]
pub fn format_duration(nanoseconds: u64) -> String {
    Duration::from_nanos(nanoseconds).to_string()
}
