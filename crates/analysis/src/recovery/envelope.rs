//! Bounds from measured recoveries.

use tailbound_time::Duration;

use crate::AnalysisError;

/// How many votes the new leader processes at most when this many servers elect: M(M+1)/2 (eq. 5.4).
pub fn election_messages(alive: u32) -> u64 {
    u64::from(alive) * (u64::from(alive) + 1) / 2
}

/// One measured phase: how long it took in an ensemble for which its model's factor has this value
/// ([`election_messages`] for an election, the number of servers for messages per server).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredPhase {
    /// The factor of the model.
    pub factor: u64,
    /// How long the phase took.
    pub took: Duration,
}

/// constant + slope * factor: the form of eq. 5.5 and 5.7 in what depends on the ensemble's size, above
/// every observation. The slope is the steepest between the maxima of neighbouring sizes, and 0 if
/// only one size was observed; the constant is then the least possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Everything that does not depend on the size.
    pub constant: Duration,
    /// What one unit of the factor costs.
    pub slope: Duration,
}

impl Envelope {
    /// The envelope of some observations.
    ///
    /// # Errors
    /// There is none to go by.
    pub fn around(observations: &[MeasuredPhase]) -> Result<Self, AnalysisError> {
        let mut maxima: Vec<MeasuredPhase> = Vec::new();
        let mut sorted = observations.to_vec();
        sorted.sort_by_key(|seen| (seen.factor, seen.took));
        for seen in sorted {
            match maxima.last_mut() {
                Some(last) if last.factor == seen.factor => *last = seen,
                _ => maxima.push(seen),
            }
        }
        if maxima.is_empty() {
            return Err(AnalysisError::NotAnalysed {
                reason: "no recovery was measured".to_owned(),
            });
        }
        let steepest = maxima.iter().zip(maxima.iter().skip(1)).map(|(low, high)| {
            let rise = high.took.saturating_sub(low.took).as_nanos();
            rise.div_ceil(high.factor - low.factor)
        });
        let slope = Duration::from_nanos(steepest.max().unwrap_or(0));
        let rest = maxima.iter().map(|seen| {
            let grown = slope.checked_mul(seen.factor);
            grown.map_or(Duration::from_nanos(0), |grown| {
                seen.took.saturating_sub(grown)
            })
        });
        let constant = rest.max().unwrap_or(Duration::from_nanos(0));
        let envelope = Self { constant, slope };
        let is_below =
            |seen: &MeasuredPhase| !envelope.at(seen.factor).is_ok_and(|at| at < seen.took);
        debug_assert!(
            observations.iter().all(is_below),
            "an envelope is above every observation"
        );
        Ok(envelope)
    }

    /// What it predicts for an ensemble.
    ///
    /// # Errors
    /// It is beyond all durations.
    pub fn at(&self, factor: u64) -> Result<Duration, AnalysisError> {
        self.slope
            .checked_mul(factor)
            .and_then(|grown| grown.checked_add(self.constant))
            .ok_or_else(|| AnalysisError::NotAnalysed {
                reason: format!("the prediction for a factor of {factor} is beyond all durations"),
            })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn seen(factor: u64, ns: u64) -> MeasuredPhase {
        MeasuredPhase {
            factor,
            took: Duration::from_nanos(ns),
        }
    }

    #[test]
    fn a_line_is_found_again() {
        let line: Vec<MeasuredPhase> = [3, 10, 21].map(|f| seen(f, 100 + 7 * f)).to_vec();
        let envelope = Envelope::around(&line).unwrap();
        assert_eq!(
            envelope,
            Envelope {
                constant: Duration::from_nanos(100),
                slope: Duration::from_nanos(7)
            }
        );
        assert!(Envelope::around(&[]).is_err());
        assert!(envelope.at(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn nothing_observed_lies_above(
            all in prop::collection::vec((1_u64..30, 0_u64..1_000_000_000), 1..40),
        ) {
            let all: Vec<_> = all.into_iter().map(|(factor, ns)| seen(factor, ns)).collect();
            let envelope = Envelope::around(&all).unwrap();
            for one in &all {
                prop_assert!(envelope.at(one.factor).unwrap() >= one.took);
            }
        }
    }
}
