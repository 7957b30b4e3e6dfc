//! Questions about a description: predictions, sizes, schedulability.

use pyo3::prelude::*;
use tailbound_analysis::Unwatched;
use tailbound_analysis::sizing::ServerKind;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::analyze;
use tailbound_assessment::prediction::{PredictionQuery, predict};
use tailbound_assessment::sizing::{ServiceSizing, SizingOptions, UsualHost, size_services};
use tailbound_model::{BackendKind, InputFiles, PercentagePoints, Percentile};
use tailbound_time::Duration;

use crate::description::Description;
use crate::interruption::interruptible;
use crate::refusal::{invalid, raised, refused};
use crate::response::Answer;
use crate::sizing::{self, SizingRow};

/// Percentile, latency in nanoseconds, task and outlook of a promise.
type PromiseRow = (f64, u64, Option<String>, &'static str);
/// Service, variant, what was known of the execution times, why there is no answer, the promises, the
/// response times.
type PredictionRow = (
    String,
    String,
    String,
    Option<String>,
    Vec<PromiseRow>,
    Option<Answer>,
);
/// Mode, service, domain, and why there is no answer.
type SizedRow = (Option<String>, String, String, Option<String>);
/// The budgets, the method, the reservation as TOML, and why it does not fit.
type BudgetsRow = (SizingRow, String, Option<String>, Option<String>);

/// The exception for a question about a description that has no answer.
pub fn unanswered(python: Python<'_>, error: &AssessmentError) -> PyErr {
    let kind = match error {
        AssessmentError::Analysis(error) => return refused(python, error),
        AssessmentError::OnlySimulated { .. } | AssessmentError::SharedBudget { .. } => {
            "not-analysed"
        }
        AssessmentError::NotCalibrated { .. } => "execution-time-unknown",
        AssessmentError::Unknown { .. }
        | AssessmentError::Ambiguous { .. }
        | AssessmentError::Unobserved { .. }
        | AssessmentError::Empty { .. }
        | AssessmentError::FrequencyModel(_)
        | AssessmentError::Resolution(_)
        | AssessmentError::Simulation(_) => "invalid",
    };
    raised(python, kind, error.to_string())
}

/// The files that a description names.
///
/// # Errors
/// All that is wrong with them.
pub fn inputs(python: Python<'_>, description: &Description) -> PyResult<InputFiles> {
    let inputs = description.loaded.inputs();
    inputs.map_err(|error| invalid(python, error))
}

/// Predicts the chosen services in the chosen variants, sharp at these probabilities.
///
/// # Errors
/// All that is wrong with the description, its files or the names.
#[pyfunction]
pub fn predict_description(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    service: Option<String>,
    variant: Option<String>,
    probabilities: Vec<f64>,
) -> PyResult<Vec<PredictionRow>> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let percentiles = probabilities.into_iter().map(|one| Percentile(one * 100.0));
    let percentiles: Vec<Percentile> = percentiles.collect();
    let answers = interruptible(python, move || {
        let query = PredictionQuery {
            service: service.as_deref(),
            variant: variant.as_deref(),
            percentiles: &percentiles,
            times: &[],
            watch: &Unwatched,
        };
        predict(&description, &inputs, &query)
    })?;
    let answers = answers.map_err(|error| unanswered(python, &error))?;
    let rows = answers.into_iter().map(|answer| {
        let responses = answer.responses.map(Answer::predicted);
        let promises = answer.promises.into_iter().map(|one| {
            let outlook = one.outlook.word();
            (one.percentile, one.latency.as_nanos(), one.task, outlook)
        });
        (
            answer.service,
            answer.variant,
            answer.from,
            answer.refused,
            promises.collect(),
            responses,
        )
    });
    Ok(rows.collect())
}

/// Sizes the reservations of a description for a host with the kernel's defaults.
///
/// # Errors
/// All that is wrong with the description, its files or the question.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn size_description(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    service: Option<String>,
    range_ns: Option<(u64, u64)>,
    points: u32,
    margin_points: f64,
    server: Option<&str>,
    is_limit: bool,
) -> PyResult<Vec<(SizedRow, Option<BudgetsRow>)>> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let ns = Duration::from_nanos;
    let periods = range_ns.map(|(low, high)| (ns(low), ns(high)));
    let server: Option<ServerKind> = match server {
        Some(name) => Some(sizing::kind(python, name)?),
        None => None,
    };
    let sized = interruptible(python, move || {
        let options = SizingOptions {
            service: service.as_deref(),
            backend: is_limit.then_some(BackendKind::CPU_LIMIT),
            periods,
            points,
            margin: PercentagePoints(margin_points),
            server,
            host: &UsualHost,
            runs: None,
            watch: &Unwatched,
        };
        size_services(&description, &inputs, &options)
    })?;
    let sized = sized.map_err(|error| unanswered(python, &error))?;
    Ok(sized.into_iter().map(sized_row).collect())
}

fn sized_row(sized: ServiceSizing) -> (SizedRow, Option<BudgetsRow>) {
    let row = (sized.mode, sized.service, sized.domain, sized.refused);
    let budgets = sized.budgets.map(|budgets| {
        let rule = budgets.rule.to_string();
        let sizing_row = sizing::row(&budgets.sizing);
        (sizing_row, rule, budgets.stanza, budgets.does_not_fit)
    });
    (row, budgets)
}

/// Whether a description keeps all deadlines, as the JSON of the command line, and what stands against it.
///
/// # Errors
/// All that is wrong with the description or its files.
#[pyfunction]
pub fn analyze_description(
    python: Python<'_>,
    description: PyRef<'_, Description>,
) -> PyResult<(String, Vec<String>)> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let analysis = interruptible(python, move || analyze(&description, &inputs))?;
    let analysis = analysis.map_err(|error| unanswered(python, &error))?;
    let document = serde_json::to_string(&analysis).map_err(|error| invalid(python, error))?;
    Ok((document, analysis.objections()))
}
