//! Sums and multiples of durations that are refused where they do not fit.

use tailbound_time::Duration;

use crate::AnalysisError;

pub(super) fn not_analysed(reason: &str) -> AnalysisError {
    AnalysisError::NotAnalysed {
        reason: reason.to_owned(),
    }
}

fn beyond() -> AnalysisError {
    not_analysed("the sum of these times is beyond all durations")
}

pub(super) fn sum(parts: &[Duration]) -> Result<Duration, AnalysisError> {
    parts
        .iter()
        .try_fold(Duration::from_nanos(0), |total, part| {
            total.checked_add(*part)
        })
        .ok_or_else(beyond)
}

pub(super) fn times(one: Duration, count: u64) -> Result<Duration, AnalysisError> {
    one.checked_mul(count).ok_or_else(beyond)
}
