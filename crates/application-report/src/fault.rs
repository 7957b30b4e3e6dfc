//! Why a report has no value.

/// Why a report has no value at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportFault {
    /// The report is not of the form that it should have.
    #[error("the report is no {form}: {cause}")]
    Form {
        /// JSON, XML, or the text format of Prometheus.
        form: &'static str,
        /// The fault, as the reader of the form says it.
        cause: String,
    },
    /// The report lacks the value.
    #[error("the report has nothing at {place}")]
    Missing {
        /// The pointer, path or series.
        place: String,
    },
    /// Several values are meant.
    #[error("{count} values of the report are at {place}; {remedy}")]
    Several {
        /// How many.
        count: usize,
        /// The path or series.
        place: String,
        /// The change of the place that leaves a single value.
        remedy: &'static str,
    },
    /// There is something else than a number.
    #[error("\"{text}\" is no number")]
    NoNumber {
        /// The text at the place.
        text: String,
    },
    /// The number is NaN or infinite.
    #[error("the value is {text}")]
    NotFinite {
        /// The text at the place.
        text: String,
    },
    /// The value is of a time that has not come.
    #[error("the value is of {ahead_ms} ms from now")]
    FromFuture {
        /// How far ahead.
        ahead_ms: i64,
    },
}
