//! Why there is no answer, as an exception.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_model::LoadError;

pyo3::create_exception!(
    tailbound,
    AnalysisError,
    PyValueError,
    "There is no answer: what is wrong, and what would be right.\n\n`kind` names the reason in one \
     word: \"overloaded\", \"not-analysed\", \"execution-time-unknown\", \"hyperperiod-too-long\", \
     \"no-budget-suffices\", \"no-delay-suffices\", \"no-frame-suffices\", \"not-periodic\", \"out-of-range\", \"too-many-steps\" or \"invalid\"."
);

/// The exception for what an analysis refuses.
pub fn refused(python: Python<'_>, error: &Refused) -> PyErr {
    let kind = match error {
        Refused::Overloaded { .. } => "overloaded",
        Refused::NotAnalysed { .. } | Refused::DelayedTask { .. } => "not-analysed",
        Refused::ExecutionTimeUnknown { .. } => "execution-time-unknown",
        Refused::HyperperiodTooLong { .. } => "hyperperiod-too-long",
        Refused::NoBudgetSuffices { .. } => "no-budget-suffices",
        Refused::NoDelaySuffices { .. } => "no-delay-suffices",
        Refused::NotPeriodic { .. } => "not-periodic",
        Refused::OutOfRange { .. } => "out-of-range",
        Refused::TooManySteps { .. } => "too-many-steps",
        Refused::Invalid { .. } => "invalid",
    };
    raised(python, kind, error.to_string())
}

/// The exception for an argument that makes no sense.
pub fn invalid(python: Python<'_>, what: impl ToString) -> PyErr {
    raised(python, "invalid", what.to_string())
}

/// All that is wrong in a description, or why it cannot be read.
pub fn in_words(error: &LoadError) -> String {
    match error {
        LoadError::Problems { problems, .. } => problems.to_string(),
        other => other.to_string(),
    }
}

/// The exception with its reason in one word.
pub fn raised(python: Python<'_>, kind: &str, text: String) -> PyErr {
    let error = AnalysisError::new_err(text);
    match error.value(python).setattr("kind", kind) {
        Ok(()) => error,
        Err(other) => other,
    }
}
