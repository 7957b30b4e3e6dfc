//! Execution times at other clock frequencies.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use tailbound_execution_time::{FrequencyModel, RunTable, SetPointNotation, read_set_points};

use crate::interruption::interruptible;
use crate::refusal::invalid;

/// A set point as text, the slowdown there, that of the naive model, and the clocks beyond the recorded ones.
type SlowdownRow = (String, f64, Option<f64>, Vec<String>);

/// A file's text, or that it cannot be read.
fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The runs of a file; files of `perf stat` are relative to it.
fn recording_of(path: &Path) -> Result<RunTable, String> {
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut read = |name: &str| text_of(&folder.join(name));
    let recording = RunTable::parse(&path.display().to_string(), &text_of(path)?, &mut read);
    recording.map_err(|error| error.to_string())
}

/// The model of recorded runs, as the JSON that the command line writes.
///
/// # Errors
/// A file cannot be read, or holds too little.
#[pyfunction]
pub fn fit_frequency_model(
    python: Python<'_>,
    data: PathBuf,
    set_points: Option<PathBuf>,
    most_counters: usize,
) -> PyResult<String> {
    let fitted = interruptible(python, move || {
        let recording = recording_of(&data)?;
        let read = |path: PathBuf| {
            read_set_points(&path.display().to_string(), &text_of(&path)?)
                .map_err(|error| error.to_string())
        };
        let stated = set_points.map(read).transpose()?;
        let model = FrequencyModel::fit(&recording, stated, most_counters);
        model
            .map(|model| model.to_json())
            .map_err(|error| error.to_string())
    })?;
    fitted.map_err(|what: String| invalid(python, what))
}

/// The slowdown of a counted workload at set points; all of the model if none is named.
///
/// # Errors
/// The model or the counts cannot be read, or do not fit each other.
#[pyfunction]
#[pyo3(signature = (model, counters, program, measured_at, set_points))]
pub fn slowdowns(
    python: Python<'_>,
    model: &str,
    counters: PathBuf,
    program: Option<&str>,
    measured_at: Option<&str>,
    set_points: Vec<String>,
) -> PyResult<Vec<SlowdownRow>> {
    rows(model, &counters, program, measured_at, &set_points).map_err(|what| invalid(python, what))
}

fn rows(
    model: &str,
    counters: &Path,
    program: Option<&str>,
    measured_at: Option<&str>,
    set_points: &[String],
) -> Result<Vec<SlowdownRow>, String> {
    let text = |error: tailbound_execution_time::ModelError| error.to_string();
    let model = FrequencyModel::parse("the model", model).map_err(text)?;
    let recording = recording_of(counters)?;
    let measured_at = measured_at
        .map(str::parse::<SetPointNotation>)
        .transpose()?;
    let workload = recording
        .workload(program, measured_at.as_ref())
        .map_err(text)?;
    let demand = model.demand(&recording.file, &workload).map_err(text)?;
    let named = set_points
        .iter()
        .map(|name| model.set_point(&name.parse()?).map_err(text));
    let targets = match set_points.is_empty() {
        true => model
            .set_points
            .iter()
            .map(|point| point.set_point.clone())
            .collect(),
        false => named.collect::<Result<Vec<_>, String>>()?,
    };
    let rows = targets.iter().map(|target| {
        let slowdown = model.slowdown(&workload, &demand, target).map_err(text)?;
        let from = workload
            .set_point
            .as_ref()
            .map(|point| point.core().as_hertz_f64());
        let naive = from.map(|from| from / target.core().as_hertz_f64());
        let extrapolated = model.extrapolated(target).map(str::to_owned).collect();
        Ok((target.to_string(), slowdown, naive, extrapolated))
    });
    rows.collect()
}
