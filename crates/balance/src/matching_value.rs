//! The one number by which an application takes part.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The service level from which down the need of an application is whole.
pub const FULL_NEED_LEVEL: f64 = 0.7;

/// `MatchingValue` says how the capacity of an application matches its service level, in millionths from -1 to 1: near
/// zero it matches, above it is abundant, below too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MatchingValue(i32);

impl MatchingValue {
    /// One, in millionths.
    pub(crate) const ONE: i32 = 1_000_000;
    /// Far too little capacity.
    pub const LEAST: Self = Self(-Self::ONE);

    /// The value of so many millionths, cut to -1 and 1.
    pub(crate) const fn from_millionths(millionths: i32) -> Self {
        match millionths {
            ..=-1_000_000 => Self::LEAST,
            1_000_000.. => Self(Self::ONE),
            _ => Self(millionths),
        }
    }

    /// The value of a report; none for a number outside -1 to 1, and for NaN.
    pub fn new(value: f64) -> Option<Self> {
        let is_one = (-1.0..=1.0).contains(&value);
        is_one.then(|| Self((value * f64::from(Self::ONE)).round() as i32))
    }

    /// The value by which an application at this service level takes part: below the full level it is in need, even where its
    /// latencies match that level. Its need grows with what it leaves out, and is whole from [`FULL_NEED_LEVEL`] down.
    ///
    /// Without this, an application that has adapted to too little looks like one that needs no more, and lends what it has left.
    pub fn at_level(self, level: f64) -> Self {
        let left_out = (1.0 - level.clamp(0.0, 1.0)) / (1.0 - FULL_NEED_LEVEL);
        let need = (left_out * f64::from(Self::ONE)).round() as i32;
        match need > 0 {
            true => self.min(Self::from_millionths(-need)),
            false => self,
        }
    }

    /// The value in millionths.
    pub const fn millionths(self) -> i32 {
        self.0
    }

    /// The value as a float, for printing.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }
}

impl fmt::Display for MatchingValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{:.2}", self.as_f64()))
    }
}

/// Why the capacity of an application stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum HoldReason {
    /// The application gives no answer in time, or none at all.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The answer is no report.
    #[error("no report: {0}")]
    NoReport(String),
    /// The report has no matching value, since no request came.
    #[error("no request")]
    NoRequest,
    /// The value is NaN, or outside -1 to 1.
    #[error("a matching value of {0} is none from -1 to 1")]
    NoMatchingValue(String),
    /// The service level is NaN, or outside 0 to 1.
    #[error("a service level of {0} is none from 0 to 1")]
    NoServiceLevel(String),
    /// The last request is too long ago.
    #[error("the last request is {0} ago")]
    Stale(tailbound_time::Duration),
    /// The report is dated later than now.
    #[error("the report is from the future")]
    FromTheFuture,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_minus_one_to_one_are_matching_values() {
        let millionths = |value| MatchingValue::new(value).map(MatchingValue::millionths);
        assert_eq!(millionths(-1.0), Some(-1_000_000));
        assert_eq!(millionths(0.25), Some(250_000));
        for wrong in [-1.001, 1.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(millionths(wrong), None);
        }
    }

    #[test]
    fn below_the_full_level_an_application_is_in_need() {
        let at =
            |value, level| MatchingValue::new(value).map(|one| one.at_level(level).millionths());
        assert_eq!(at(0.4, 1.0), Some(400_000));
        assert_eq!(at(0.4, 0.85), Some(-500_000));
        assert_eq!(at(-0.6, 0.85), Some(-600_000));
        assert_eq!(at(0.9, 0.7), Some(-1_000_000));
        assert_eq!(at(0.9, 0.0), Some(-1_000_000));
    }
}
