//! What the response times of a queue answer.

use tailbound_distribution::{Distribution, Evidence, Interval, Provenance, StepCdf};
use tailbound_time::Duration;

use super::exact::Solved;
use crate::AnalysisError;

/// Searches for a quantile end at this relative distance.
const NEAR: f64 = 1e-10;
/// The slope of the distribution function is taken over this relative distance.
const ASIDE: f64 = 1e-5;
/// The mean is integrated to this relative error.
const MEAN_WITHIN: f64 = 1e-8;

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
pub struct ResponseTimes {
    /// Rounded towards short responses.
    pub(super) optimistic: Side,
    /// Rounded towards long ones; `None` where nothing had to be rounded.
    pub(super) pessimistic: Option<Side>,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// The method by name, with its source.
    pub method: String,
    /// What it takes for granted.
    pub assumptions: Vec<String>,
}

/// The solution on one lattice.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) solved: Solved,
    pub(super) step_ns: f64,
    /// No response is shorter.
    pub(super) shortest_ns: f64,
}

impl ResponseTimes {
    fn pessimistic(&self) -> &Side {
        self.pessimistic.as_ref().unwrap_or(&self.optimistic)
    }

    /// Bounds of the probability that a response takes at most `at`.
    pub fn cdf(&self, at: Duration) -> ProbabilityBounds {
        let lower = self.pessimistic().cdf(at.as_nanos() as f64);
        let upper = match &self.pessimistic {
            None => lower,
            Some(_) => self.optimistic.cdf(at.as_nanos() as f64),
        };
        ProbabilityBounds {
            lower: (lower.0 - lower.1).max(0.0),
            upper: (upper.0 + upper.1).min(1.0),
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
        let high = self.pessimistic().quantile(probability);
        let low = match &self.pessimistic {
            None => high,
            Some(_) => self.optimistic.quantile(probability),
        };
        Ok(Interval {
            low: Duration::from_nanos(low.0.floor().max(0.0) as u64),
            high: Some(Duration::from_nanos(high.1.ceil() as u64)),
        })
    }

    /// Bounds of the mean response time.
    pub fn mean(&self) -> Interval {
        let high = self.pessimistic().mean();
        let low = match &self.pessimistic {
            None => high,
            Some(_) => self.optimistic.mean(),
        };
        Interval {
            low: Duration::from_nanos(low.0.floor().max(0.0) as u64),
            high: Some(Duration::from_nanos(high.1.ceil() as u64)),
        }
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
        let mut sorted = probabilities.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (mut optimistic, mut pessimistic) = (Vec::new(), Vec::new());
        let mut reached = 0.0_f64;
        for probability in &sorted {
            let at = self.quantile(*probability)?;
            // From the lower bound of a quantile on, at most the next probability is reached.
            optimistic.push((at.low, *probability));
            if let Some(high) = at.high {
                pessimistic.push((high, probability.max(reached)));
            }
            reached = reached.max(*probability);
        }
        let mut provenance = Provenance::new(Evidence::Bound, subject, self.method.clone());
        provenance.assumptions.clone_from(&self.assumptions);
        let shifted = optimistic
            .iter()
            .zip(sorted.iter().skip(1).chain([&1.0]))
            .map(|((at, _), next)| (*at, *next));
        let curve = |points: Vec<(Duration, f64)>| {
            StepCdf::new(points).map_err(|error| AnalysisError::Invalid {
                what: error.to_string(),
            })
        };
        Ok(Distribution::from_bracket(
            provenance,
            curve(shifted.collect())?,
            curve(pessimistic)?,
        ))
    }
}

impl Side {
    /// F, and what it may be wrong by.
    fn cdf(&self, at_ns: f64) -> (f64, f64) {
        if at_ns < self.shortest_ns * (1.0 - 1e-15) {
            return (0.0, 0.0);
        }
        self.solved.responses().cdf(at_ns / self.step_ns)
    }

    /// Where F is below `probability` for sure, and where it has reached it for sure.
    fn quantile(&self, probability: f64) -> (f64, f64) {
        let responses = self.solved.responses();
        let shortest = self.shortest_ns / self.step_ns;
        let (at, error) = responses.cdf(shortest);
        if at - error >= probability {
            return (self.shortest_ns, self.shortest_ns);
        }
        let root = root(shortest, probability, |r| responses.roughly(r));
        // How far the error of a probability reaches along the axis of time, to begin with.
        let (at, error) = responses.cdf(root);
        let rise =
            responses.roughly(root * (1.0 + ASIDE)) - responses.roughly(root * (1.0 - ASIDE));
        let reach = (error + (at - probability).abs()) * 2.0 * ASIDE / rise.max(1e-30);
        let mut apart = (1.5 * reach).clamp(4e-12, 0.1);
        let (mut low, mut high) = (shortest, f64::INFINITY);
        while apart < 0.5 {
            let (below, above) = (root * (1.0 - apart), root * (1.0 + apart));
            if low == shortest && below > shortest {
                let (value, error) = responses.cdf(below);
                if value + error < probability {
                    low = below;
                }
            }
            if high.is_infinite() {
                let (value, error) = responses.cdf(above);
                if value - error >= probability {
                    high = above;
                }
            }
            if high.is_finite() && (low > shortest || below <= shortest) {
                break;
            }
            apart *= 8.0;
        }
        (low * self.step_ns, high * self.step_ns)
    }

    /// The mean, as the integral of 1 - F.
    fn mean(&self) -> (f64, f64) {
        let responses = self.solved.responses();
        let shortest = self.shortest_ns / self.step_ns;
        let above = |r: f64| 1.0 - responses.roughly(r);
        let (mut sum, mut error) = (shortest, 0.0);
        let (mut from, mut length) = (shortest, 1.0_f64.max(shortest));
        loop {
            let (part, wrong) = adaptive(&above, from, from + length, MEAN_WITHIN * sum, 12);
            sum += part;
            error += wrong;
            from += length;
            let (last, uncertain) = responses.cdf(from);
            if 1.0 - last < 1e-11 + uncertain {
                // Beyond, the tail falls at least as fast as it did over the last stretch.
                error += (1.0 - last + uncertain) * length * 4.0;
                break;
            }
            length *= 1.5;
        }
        ((sum - error) * self.step_ns, (sum + error) * self.step_ns)
    }
}

/// The integral of `f` by Simpson's rule, halved until two orders agree; with the sum of their
/// differences.
fn adaptive(
    f: &impl Fn(f64) -> f64,
    low: f64,
    high: f64,
    tolerance: f64,
    depth: u32,
) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let ends = (f(low), f(middle), f(high));
    halved(f, (low, high), ends, tolerance, depth)
}

fn halved(
    f: &impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    (at_low, at_middle, at_high): (f64, f64, f64),
    tolerance: f64,
    depth: u32,
) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let (left, right) = (f(0.5 * (low + middle)), f(0.5 * (middle + high)));
    let simpson = |a: f64, b: f64, c: f64, length: f64| (a + 4.0 * b + c) * length / 6.0;
    let whole = simpson(at_low, at_middle, at_high, high - low);
    let first = simpson(at_low, left, at_middle, middle - low);
    let second = simpson(at_middle, right, at_high, high - middle);
    let apart = (first + second - whole).abs();
    if depth == 0 || apart < tolerance {
        return (first + second, apart);
    }
    let a = halved(
        f,
        (low, middle),
        (at_low, left, at_middle),
        tolerance / 2.0,
        depth - 1,
    );
    let b = halved(
        f,
        (middle, high),
        (at_middle, right, at_high),
        tolerance / 2.0,
        depth - 1,
    );
    (a.0 + b.0, a.1 + b.1)
}

/// Where the rising `f` reaches `target`, above `low`: bracketed by doubling, then by regula falsi
/// and bisection in turns.
fn root(low: f64, target: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut at_low) = (low, f(low) - target);
    let mut high = low * 2.0;
    let mut at_high = f(high) - target;
    while at_high < 0.0 && high < 1e15 {
        (low, at_low) = (high, at_high);
        high *= 2.0;
        at_high = f(high) - target;
    }
    for turn in 0..200 {
        if high - low <= NEAR * high {
            break;
        }
        let guess = low + (high - low) * at_low / (at_low - at_high);
        let middle = 0.5 * (low + high);
        let next = if turn % 3 == 2 || !(guess > low && guess < high) {
            middle
        } else {
            guess
        };
        let value = f(next) - target;
        if value.abs() < 1e-15 {
            return next;
        }
        if value < 0.0 {
            (low, at_low) = (next, value);
        } else {
            (high, at_high) = (next, value);
        }
    }
    0.5 * (low + high)
}
