//! Promises, and whether response times keep them.

use std::fmt;

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;
use tailbound_model::{Percentile, Slo};
use tailbound_time::Duration;

/// A promise: the share `probability` of all responses takes at most `latency`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The share, above 0 and below 1.
    pub probability: f64,
    /// The latency.
    pub latency: Duration,
}

/// The outcome of a promise as a prediction has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// The predicted percentile, its upper end too, lies within the promise.
    Kept,
    /// The whole predicted percentile lies beyond it, or work piles up without end.
    Missed,
    /// The promise lies between the two ends of the predicted percentile.
    Undecided,
    /// No prediction is about it.
    NotPredicted,
}

impl Outlook {
    /// The outlook as a person reads it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
            Self::NotPredicted => "not predicted",
        }
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

impl From<&Slo> for Promise {
    fn from(slo: &Slo) -> Self {
        Self {
            probability: slo.percentile.probability(),
            latency: slo.latency,
        }
    }
}

impl Promise {
    /// The promise as a service of a description makes it, on all of its tasks.
    pub fn as_slo(&self) -> Slo {
        Slo {
            percentile: Percentile(self.probability * 100.0),
            latency: self.latency,
            task: None,
        }
    }

    /// The outlook of the promise under these response times.
    ///
    /// The outlook is as certain as the distribution's evidence: [`Outlook::Kept`] is proved under a bound only.
    pub fn outlook(&self, responses: &Distribution) -> Outlook {
        match responses.quantile(self.probability) {
            None => Outlook::NotPredicted,
            Some(at) if at.low > self.latency => Outlook::Missed,
            Some(at) if at.high.is_some_and(|high| high <= self.latency) => Outlook::Kept,
            Some(_) => Outlook::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_distribution::{Evidence, Provenance, StepCdf};

    use super::*;

    fn promise(latency_ms: u64) -> Promise {
        Promise {
            probability: 0.9,
            latency: Duration::from_millis(latency_ms),
        }
    }

    #[test]
    fn both_ends_of_the_percentile_decide() {
        let curve = |ms: u64| StepCdf::new(vec![(Duration::from_millis(ms), 1.0)]).unwrap();
        let provenance = Provenance::new(Evidence::Bound, "s", "m");
        let between = Distribution::from_bracket(provenance, curve(5), curve(8));
        assert_eq!(promise(8).outlook(&between), Outlook::Kept);
        assert_eq!(promise(5).outlook(&between), Outlook::Undecided);
        assert_eq!(promise(4).outlook(&between), Outlook::Missed);
    }

    #[test]
    fn a_tail_that_is_not_known_keeps_nothing() {
        let part = StepCdf::new(vec![(Duration::from_millis(1), 0.5)]).unwrap();
        let provenance = Provenance::new(Evidence::Bound, "s", "m");
        let open = Distribution::from_bracket(provenance.clone(), part.clone(), part);
        assert_eq!(promise(100).outlook(&open), Outlook::Undecided);
        let nothing = Distribution::from_samples(provenance, Vec::new());
        assert_eq!(promise(1).outlook(&nothing), Outlook::NotPredicted);
    }
}
