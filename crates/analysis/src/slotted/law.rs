//! Finite laws of execution times.

use tailbound_distribution::{Distribution, Shape};
use tailbound_time::Duration;

use super::slots::SlotRounding;
use crate::AnalysisError;

/// How far from 1 the probabilities of a law may add up, for the rounding of floats.
const TOLERANCE: f64 = 1e-9;

/// A law of execution times with finitely many values, or two such laws with the true one between them.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionLaw {
    /// No job is shorter than by this law: at each probability, its quantile is no longer.
    shorter: Vec<(Duration, f64)>,
    /// And no longer than by this one.
    longer: Vec<(Duration, f64)>,
    /// The mean of the true law in seconds, where it is known beside the two.
    mean_seconds: Option<f64>,
}

impl ExecutionLaw {
    /// A law by its values, each above zero, and their probabilities, in any order.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] if there is no value, a value is zero, a probability is not
    /// above zero, or they do not add up to 1.
    pub fn new(atoms: Vec<(Duration, f64)>) -> Result<Self, AnalysisError> {
        if atoms.iter().any(|(value, _)| value.is_zero()) {
            return Err(AnalysisError::Invalid {
                what: "an execution time is zero; every job needs one above it".into(),
            });
        }
        let atoms = merged(atoms)?;
        Ok(Self {
            shorter: atoms.clone(),
            longer: atoms,
            mean_seconds: None,
        })
    }

    /// A law between two others, whose mean is `mean_seconds` where it is known. Values of the shorter one may be zero.
    ///
    /// # Errors
    /// As of [`ExecutionLaw::new`], and if the laws are not in that order.
    pub(crate) fn between(
        shorter: Vec<(Duration, f64)>,
        longer: Vec<(Duration, f64)>,
        mean_seconds: Option<f64>,
    ) -> Result<Self, AnalysisError> {
        let law = Self {
            shorter: merged(shorter)?,
            mean_seconds,
            ..Self::new(longer)?
        };
        debug_assert!(
            mean(&law.shorter) <= mean(&law.longer) * (1.0 + TOLERANCE),
            "the law of shorter jobs has the lower mean"
        );
        Ok(law)
    }

    /// Always the same execution time.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] if it is zero.
    pub fn constant(value: Duration) -> Result<Self, AnalysisError> {
        Self::new(vec![(value, 1.0)])
    }

    /// The law of samples, or of a distribution function that is known up to probability 1.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for brackets, censored samples and functions that end below 1.
    pub fn of(distribution: &Distribution) -> Result<Self, AnalysisError> {
        match &distribution.shape {
            Shape::Samples(samples) => {
                let share = 1.0 / samples.len().max(1) as f64;
                let count = |run: &[Duration]| (run[0], run.len() as f64 * share);
                Self::new(samples.chunk_by(|a, b| a == b).map(count).collect())
            }
            Shape::Curve(curve) => {
                let mut before = 0.0;
                let rise = |(at, cumulative): &(Duration, f64)| {
                    let rise = cumulative - before;
                    before = *cumulative;
                    (*at, rise)
                };
                let steps = curve.steps().iter().map(rise);
                Self::new(steps.filter(|(_, rise)| *rise > 0.0).collect())
            }
            Shape::Censored { .. } | Shape::Bracket { .. } => Err(AnalysisError::Invalid {
                what: "the execution times are known as a bracket or in part only; give samples \
                       without censored ones, or one distribution function"
                    .into(),
            }),
        }
    }

    /// The values, ascending, and their probabilities; of a range those of its longer end.
    pub fn atoms(&self) -> &[(Duration, f64)] {
        &self.longer
    }

    /// The same towards one end.
    pub(super) fn atoms_rounded(&self, rounding: SlotRounding) -> &[(Duration, f64)] {
        match rounding {
            SlotRounding::Down => &self.shorter,
            SlotRounding::Up => &self.longer,
        }
    }

    /// Whether the law is known as a range only.
    pub(super) fn is_range(&self) -> bool {
        self.shorter != self.longer
    }

    /// The mean, in seconds; where it is known as a range only, the longest that it can be.
    pub fn mean_seconds(&self) -> f64 {
        self.mean_seconds.unwrap_or_else(|| mean(&self.longer))
    }

    /// The shortest that the mean can be, in seconds.
    pub(super) fn least_mean_seconds(&self) -> f64 {
        self.mean_seconds.unwrap_or_else(|| mean(&self.shorter))
    }

    /// The shortest value.
    pub(super) fn shortest(&self) -> Duration {
        self.shorter
            .first()
            .map_or(Duration::ZERO, |(value, _)| *value)
    }
}

/// The values in ascending order, each once, with probabilities that add up to 1.
fn merged(mut atoms: Vec<(Duration, f64)>) -> Result<Vec<(Duration, f64)>, AnalysisError> {
    let invalid = |what: String| Err(AnalysisError::Invalid { what });
    for (value, probability) in &atoms {
        if !(probability.is_finite() && *probability > 0.0) {
            return invalid(format!(
                "the execution time {value} has probability {probability}; it must be above zero"
            ));
        }
    }
    let sum: f64 = atoms.iter().map(|(_, probability)| probability).sum();
    if (sum - 1.0).abs() > TOLERANCE {
        return invalid(format!(
            "the probabilities of the execution times add up to {sum:.9}; they must to 1"
        ));
    }
    atoms.sort_by_key(|(value, _)| *value);
    let mut merged: Vec<(Duration, f64)> = Vec::with_capacity(atoms.len());
    for (value, probability) in atoms {
        match merged.last_mut() {
            Some((last, so_far)) if *last == value => *so_far += probability / sum,
            _ => merged.push((value, probability / sum)),
        }
    }
    Ok(merged)
}

/// The mean in seconds.
fn mean(atoms: &[(Duration, f64)]) -> f64 {
    let weighted = |(value, probability): &(Duration, f64)| value.as_secs_f64() * probability;
    atoms.iter().map(weighted).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use tailbound_distribution::{Evidence, Provenance};

    fn us(value: u64) -> Duration {
        Duration::from_micros(value)
    }

    #[test]
    fn values_are_sorted_and_joined() {
        let law = ExecutionLaw::new(vec![(us(3), 0.25), (us(1), 0.5), (us(3), 0.25)]).unwrap();
        assert_eq!(law.atoms(), [(us(1), 0.5), (us(3), 0.5)]);
        assert!((law.mean_seconds() - 2e-6).abs() < 1e-18);
    }

    #[test]
    fn what_is_no_law_is_refused() {
        for atoms in [
            vec![],
            vec![(us(1), 0.5)],
            vec![(Duration::ZERO, 1.0)],
            vec![(us(1), 1.5), (us(2), -0.5)],
            vec![(us(1), f64::NAN)],
        ] {
            assert!(ExecutionLaw::new(atoms).is_err());
        }
    }

    #[test]
    fn samples_have_equal_weights() {
        let provenance = Provenance::new(Evidence::Sample, "t", "m");
        let samples = Distribution::from_samples(provenance, vec![us(2), us(1), us(2), us(2)]);
        let law = ExecutionLaw::of(&samples).unwrap();
        assert_eq!(law.atoms(), [(us(1), 0.25), (us(2), 0.75)]);
    }
}
