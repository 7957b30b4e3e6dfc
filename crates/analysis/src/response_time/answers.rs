//! What the response times of a queue answer.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Interval, Provenance, StepCdf};
use tailbound_time::Duration;

use super::continuous::Solved;
use super::search::QuantileSearch;
use crate::{AnalysisError, Prediction, SharpPoints};

/// The evidence of the exact method. The error of its solution is proved, those of interpolation and integration are
/// estimated, so that its ends are no proved bounds.
pub(crate) const EXACT_EVIDENCE: Evidence = Evidence::Estimate;

/// Bounds that are farther apart, relative, are worth a closer look.
const WIDE: f64 = 1e-6;

/// A probability between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbabilityBounds {
    /// At least this.
    pub lower: f64,
    /// At most this.
    pub upper: f64,
}

/// The response times of a [`PoissonQueue`](super::PoissonQueue).
#[derive(Clone, Debug)]
pub struct QueueResponses {
    pub(super) source: ResponseSource,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// The method by name, with its source.
    pub method: String,
    /// What it takes for granted.
    pub assumptions: Vec<String>,
}

/// What answers.
#[derive(Clone, Debug)]
pub(super) enum ResponseSource {
    /// The exact method.
    Exact {
        /// Rounded towards short responses.
        optimistic: Box<QueueSide>,
        /// Rounded towards long ones; `None` where nothing had to be rounded.
        pessimistic: Option<Box<QueueSide>>,
    },
    /// A distribution with two ends, and the mean where it is known more sharply than from those.
    Bracket {
        distribution: Box<Distribution>,
        mean: Option<Interval>,
    },
}

/// The solution on one lattice.
#[derive(Clone, Debug)]
pub(super) struct QueueSide {
    pub(super) solved: Solved,
    pub(super) step_ns: f64,
    /// No response is shorter.
    pub(super) shortest_ns: f64,
}

/// Which bounds of a time are asked for; the others may be as loose as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedEnds {
    Low,
    High,
    Both,
}

impl QueueResponses {
    /// The evidence of every answer.
    pub fn evidence(&self) -> Evidence {
        match &self.source {
            ResponseSource::Bracket { distribution, .. } => distribution.provenance.evidence,
            ResponseSource::Exact { .. } => EXACT_EVIDENCE,
        }
    }

    /// Bounds of the probability that a response takes at most `at`.
    pub fn cdf(&self, at: Duration) -> ProbabilityBounds {
        let (lower, upper) = match &self.source {
            ResponseSource::Bracket { distribution, .. } => distribution.cdf(at),
            ResponseSource::Exact {
                optimistic,
                pessimistic,
            } => {
                let at_ns = at.as_nanos() as f64;
                let best = optimistic.cdf(at_ns);
                let worst = pessimistic.as_ref().map_or(best, |side| side.cdf(at_ns));
                (worst.0 - worst.1, best.0 + best.1)
            }
        };
        debug_assert!(
            lower <= upper + 1e-6,
            "the bounds of a probability: {lower} to {upper}"
        );
        ProbabilityBounds {
            lower: lower.max(0.0),
            upper: upper.min(1.0),
        }
    }

    /// Bounds of the response time that the share `probability` of all responses does not exceed.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1.
    pub fn quantile(&self, probability: f64) -> Result<Interval, AnalysisError> {
        if !(probability > 0.0 && probability < 1.0) {
            return Err(AnalysisError::Invalid {
                what: format!("a quantile's probability is {probability}; choose one in (0, 1)"),
            });
        }
        Ok(self.interval(
            |side, ends| side.quantile(probability, ends),
            |distribution| distribution.quantile(probability),
        ))
    }

    /// Bounds of the mean response time.
    pub fn mean(&self) -> Interval {
        if let ResponseSource::Bracket {
            mean: Some(mean), ..
        } = &self.source
        {
            return *mean;
        }
        self.interval(|side, _| side.mean(), Distribution::mean)
    }

    /// The bounds of a time, in nanoseconds from each side that there is.
    fn interval(
        &self,
        exactly: impl Fn(&QueueSide, WantedEnds) -> (f64, f64),
        exact: impl Fn(&Distribution) -> Option<Interval>,
    ) -> Interval {
        match &self.source {
            ResponseSource::Bracket { distribution, .. } => {
                exact(distribution).unwrap_or(Interval {
                    low: Duration::ZERO,
                    high: None,
                })
            }
            ResponseSource::Exact {
                optimistic,
                pessimistic,
            } => {
                let (low, high) = match pessimistic {
                    None => {
                        let both = exactly(optimistic, WantedEnds::Both);
                        (both, both)
                    }
                    Some(pessimistic) => (
                        exactly(optimistic, WantedEnds::Low),
                        exactly(pessimistic, WantedEnds::High),
                    ),
                };
                Interval {
                    low: Duration::from_nanos(low.0.floor().max(0.0) as u64),
                    high: high
                        .1
                        .is_finite()
                        .then(|| Duration::from_nanos(high.1.ceil() as u64)),
                }
            }
        }
    }

    /// The answer about `subject`, as sharp as can be at these points.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1.
    pub fn prediction(
        &self,
        subject: &str,
        points: &SharpPoints,
    ) -> Result<Prediction, AnalysisError> {
        let shares = points.times.iter().map(|at| {
            let bounds = self.cdf(*at);
            (*at, (bounds.lower, bounds.upper))
        });
        let shares: Vec<_> = shares.collect();
        let distribution = self.distribution(subject, &points.probabilities)?;
        Ok(Prediction {
            overall: distribution.tightened(&[], &shares),
            proved: None,
            cap_assumptions: Vec::new(),
            per_task: BTreeMap::new(),
            method: self.method.clone(),
            assumptions: self.assumptions.clone(),
            sharp_mean: Some(self.mean()),
            is_stopped: false,
            utilisation: self.utilisation,
            bandwidth: self.bandwidth,
        })
    }

    /// The distribution as others compare it: the bounds at the quantiles of `probabilities`.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1.
    pub fn distribution(
        &self,
        subject: &str,
        probabilities: &[f64],
    ) -> Result<Distribution, AnalysisError> {
        if let ResponseSource::Bracket { distribution, .. } = &self.source {
            let mut distribution = Distribution::clone(distribution);
            distribution.provenance.subject = subject.into();
            return Ok(distribution);
        }
        let mut sorted = probabilities.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let quantiles = sorted
            .into_iter()
            .map(|probability| Ok((probability, self.quantile(probability)?)));
        let quantiles = quantiles.collect::<Result<Vec<_>, AnalysisError>>()?;
        let mut provenance = Provenance::new(self.evidence(), subject, self.method.clone());
        provenance.assumptions.clone_from(&self.assumptions);
        // All responses as short as can be, and as long as can be, but for what the quantiles tell.
        let from_shortest = |share: f64| {
            let only = vec![(self.shortest(), share)];
            StepCdf::new(only).map_err(AnalysisError::no_distribution)
        };
        let widest =
            Distribution::from_bracket(provenance, from_shortest(1.0)?, from_shortest(0.0)?);
        Ok(widest.tightened(&quantiles, &[]))
    }

    /// No response is shorter.
    fn shortest(&self) -> Duration {
        match &self.source {
            ResponseSource::Bracket { distribution, .. } => {
                distribution.min().map_or(Duration::ZERO, |least| least.low)
            }
            ResponseSource::Exact { optimistic, .. } => {
                Duration::from_nanos(optimistic.shortest_ns as u64)
            }
        }
    }
}

impl QueueSide {
    /// F, and what it may be wrong by.
    fn cdf(&self, at_ns: f64) -> (f64, f64) {
        if at_ns < self.shortest_ns * (1.0 - 1e-15) {
            return (0.0, 0.0);
        }
        self.solved.responses().cdf(at_ns / self.step_ns)
    }

    /// Where F is below `probability` for sure, and where it has reached it for sure.
    fn quantile(&self, probability: f64, ends: WantedEnds) -> (f64, f64) {
        let responses = self.solved.responses();
        let shortest = self.shortest_ns / self.step_ns;
        let (at, error) = responses.cdf(shortest);
        if at - error >= probability {
            return (self.shortest_ns, self.shortest_ns);
        }
        let (root, reach) = QuantileSearch {
            responses: &responses,
            probability,
        }
        .near((shortest, at));
        let mut apart = (1.5 * reach / root).clamp(4e-12, 0.1);
        let (mut low, mut high) = (shortest, f64::INFINITY);
        let (want_low, want_high) = (ends != WantedEnds::High, ends != WantedEnds::Low);
        while apart < 0.5 {
            let (below, above) = (root * (1.0 - apart), root * (1.0 + apart));
            if want_low && low == shortest && below > shortest {
                let (value, error) = responses.cdf(below);
                if value + error < probability {
                    low = below;
                }
            }
            if want_high && high.is_infinite() {
                let (value, error) = responses.cdf(above);
                if value - error >= probability {
                    high = above;
                }
            }
            let (known_low, known_high) = (low > shortest || below <= shortest, high.is_finite());
            if (known_low || !want_low) && (known_high || !want_high) {
                break;
            }
            apart *= 8.0;
        }
        // Beside a jump of F the slope says little: halve what is wide, as far as F decides.
        while ends == WantedEnds::Both && high.is_finite() && high - low > WIDE * low {
            let middle = 0.5 * (low + high);
            let (value, error) = responses.cdf(middle);
            if value + error < probability {
                low = middle;
            } else if value - error >= probability {
                high = middle;
            } else {
                break;
            }
        }
        (low * self.step_ns, high * self.step_ns)
    }

    /// Bounds of the mean.
    fn mean(&self) -> (f64, f64) {
        let (mean, error) = self.solved.responses().mean();
        ((mean - error) * self.step_ns, (mean + error) * self.step_ns)
    }
}
