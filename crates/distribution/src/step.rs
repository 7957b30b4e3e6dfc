//! A cumulative distribution function as a list of steps.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// Probabilities closer than this count as equal: `0.07 * 100.0` is a little above 7, and a
/// quantile must not jump for it.
pub(crate) const PROBABILITY_TOLERANCE: f64 = 8.0 * f64::EPSILON;

/// Why a list of steps is no distribution function.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepCdfError {
    /// There is no step.
    #[error("a distribution needs at least one step")]
    Empty,
    /// Two steps are out of order.
    #[error("step {index} at {at} does not lie after the one before it")]
    NotIncreasing {
        /// Which step.
        index: usize,
        /// Where it lies.
        at: Duration,
    },
    /// A cumulative probability is out of range or falls.
    #[error(
        "step {index} has cumulative probability {cumulative}; it must not fall and stay in [0, 1]"
    )]
    NotCumulative {
        /// Which step.
        index: usize,
        /// What it has.
        cumulative: f64,
    },
    /// The two columns of a serialized function have different lengths.
    #[error("{at} step positions but {cumulative} cumulative probabilities; write one for each")]
    Lengths {
        /// How many positions.
        at: usize,
        /// How many probabilities.
        cumulative: usize,
    },
}

/// A right-continuous distribution function: at and after `steps[i].0` its value is `steps[i].1`.
///
/// The last value may be below 1: the rest of the mass lies at or beyond the last step, unknown
/// where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StepColumns", into = "StepColumns")]
pub struct StepCdf {
    steps: Vec<(Duration, f64)>,
}

/// What a function looks like in machine output: two columns of the same length.
#[derive(Serialize, Deserialize)]
struct StepColumns {
    at_ns: Vec<u64>,
    cumulative: Vec<f64>,
}

impl From<StepCdf> for StepColumns {
    fn from(function: StepCdf) -> Self {
        let (at_ns, cumulative) = function
            .steps
            .iter()
            .map(|(at, cumulative)| (at.as_nanos(), *cumulative))
            .unzip();
        Self { at_ns, cumulative }
    }
}

impl TryFrom<StepColumns> for StepCdf {
    type Error = StepCdfError;

    fn try_from(columns: StepColumns) -> Result<Self, StepCdfError> {
        if columns.at_ns.len() != columns.cumulative.len() {
            return Err(StepCdfError::Lengths {
                at: columns.at_ns.len(),
                cumulative: columns.cumulative.len(),
            });
        }
        let at = columns.at_ns.into_iter().map(Duration::from_nanos);
        Self::new(at.zip(columns.cumulative).collect())
    }
}

impl StepCdf {
    /// A function with these `steps`, strictly increasing in time, cumulative in probability.
    ///
    /// # Errors
    /// [`StepCdfError`] names the first step that breaks the order.
    pub fn new(steps: Vec<(Duration, f64)>) -> Result<Self, StepCdfError> {
        if steps.is_empty() {
            return Err(StepCdfError::Empty);
        }
        let mut before: Option<(Duration, f64)> = None;
        for (index, &(at, cumulative)) in steps.iter().enumerate() {
            let floor = before.map_or(0.0, |(_, value)| value);
            if before.is_some_and(|(earlier, _)| at <= earlier) {
                return Err(StepCdfError::NotIncreasing { index, at });
            }
            if !(cumulative >= floor && cumulative <= 1.0) {
                return Err(StepCdfError::NotCumulative { index, cumulative });
            }
            before = Some((at, cumulative));
        }
        Ok(Self { steps })
    }

    /// The empirical function of `sorted` values, each with weight one in `total`. A `total` above
    /// the count of values leaves the rest of the mass beyond `last_known`.
    pub(crate) fn empirical(
        sorted: &[Duration],
        total: usize,
        last_known: Duration,
    ) -> Option<Self> {
        if total == 0 {
            return None;
        }
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        for (index, value) in sorted.iter().enumerate() {
            let cumulative = (index + 1) as f64 / total as f64;
            match steps.last_mut() {
                Some((at, so_far)) if at == value => *so_far = cumulative,
                _ => steps.push((*value, cumulative)),
            }
        }
        let (last, reached) = steps.last().copied().unwrap_or((Duration::ZERO, 0.0));
        if steps.is_empty() || (sorted.len() < total && last_known > last) {
            steps.push((last_known, reached));
        }
        Some(Self::from_ordered(steps))
    }

    /// The function that is at most `most` before `at`, and as it was from there on.
    pub(crate) fn capped_before(&self, at: Duration, most: f64) -> Self {
        let (before, after) = self
            .steps
            .split_at(self.steps.partition_point(|step| step.0 < at));
        if before.last().is_none_or(|last| last.1 <= most) {
            return self.clone();
        }
        let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(self.steps.len() + 1);
        for &(time, cumulative) in before {
            let capped = cumulative.min(most);
            if steps.last().is_none_or(|last| last.1 < capped) {
                steps.push((time, capped));
            }
        }
        if after.first().is_none_or(|first| first.0 > at) {
            steps.push((at, self.value(at)));
        }
        steps.extend_from_slice(after);
        Self::from_ordered(steps)
    }

    /// The function that is at least `least` from `at` on, and as it was before.
    pub(crate) fn raised_from(&self, at: Duration, least: f64) -> Self {
        if self.value(at) >= least {
            return self.clone();
        }
        let (before, after) = self
            .steps
            .split_at(self.steps.partition_point(|step| step.0 < at));
        let mut steps = before.to_vec();
        steps.push((at, least));
        steps.extend(after.iter().filter(|step| step.0 > at && step.1 > least));
        Self::from_ordered(steps)
    }

    /// A function of steps that are known to be in order and not empty.
    pub(crate) fn from_ordered(steps: Vec<(Duration, f64)>) -> Self {
        debug_assert!(Self::new(steps.clone()).is_ok());
        Self { steps }
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[(Duration, f64)] {
        &self.steps
    }

    /// Where the last step lies.
    pub fn last(&self) -> Duration {
        self.steps.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// The mass that lies at or beyond the last step, unknown where; 0 for a complete function.
    pub fn unknown_mass(&self) -> f64 {
        1.0 - self.steps.last().map_or(0.0, |(_, cumulative)| *cumulative)
    }

    /// Pr(value <= `at`), without what lies beyond the last step.
    pub fn value(&self, at: Duration) -> f64 {
        let after = self.steps.partition_point(|(step, _)| *step <= at);
        if after == 0 {
            0.0
        } else {
            self.steps[after - 1].1
        }
    }

    /// The least value with at least this cumulative probability; `None` if it lies beyond.
    /// Probabilities that differ only by the rounding of floats count as equal.
    pub fn quantile(&self, probability: f64) -> Option<Duration> {
        let reached = probability - PROBABILITY_TOLERANCE;
        let index = self
            .steps
            .partition_point(|(_, cumulative)| *cumulative < reached);
        self.steps.get(index).map(|(at, _)| *at)
    }

    /// The mean with what lies beyond the last step taken as lying at it: exact for a complete
    /// function, a lower bound otherwise.
    pub(crate) fn mean_at_least(&self) -> Duration {
        let mut sum_ns = 0.0;
        let mut before = 0.0;
        for (at, cumulative) in &self.steps {
            sum_ns += at.as_nanos() as f64 * (cumulative - before);
            before = *cumulative;
        }
        sum_ns += self.last().as_nanos() as f64 * (1.0 - before);
        Duration::from_nanos(sum_ns.round() as u64)
    }

    /// The same function with all mass beyond the last step moved onto it.
    pub(crate) fn completed(&self) -> Self {
        let mut steps = self.steps.clone();
        if let Some((_, cumulative)) = steps.last_mut() {
            *cumulative = 1.0;
        }
        Self::from_ordered(steps)
    }

    /// At most about `points` of the steps, for a plot: half of them spread evenly over
    /// probability, half over the logarithm of the tail's probability, so that a p99.99 stays
    /// visible. The first and the last step are always kept. Between kept steps the function lies
    /// a little too low, by less than the distance between neighbouring points.
    pub fn decimate(&self, points: usize) -> Self {
        let points = points.max(2);
        if self.steps.len() <= points {
            return self.clone();
        }
        let mut keep: Vec<usize> = vec![0, self.steps.len() - 1];
        let half = (points / 2).max(1);
        let smallest_tail = self
            .steps
            .iter()
            .rev()
            .map(|(_, cumulative)| 1.0 - cumulative)
            .find(|tail| *tail > 0.0)
            .unwrap_or(1e-12)
            .max(1e-15);
        for index in 1..half {
            let share = index as f64 / half as f64;
            keep.push(self.index_reaching(share));
            keep.push(self.index_reaching(1.0 - smallest_tail.powf(share)));
        }
        keep.sort_unstable();
        keep.dedup();
        Self::from_ordered(keep.into_iter().map(|index| self.steps[index]).collect())
    }

    fn index_reaching(&self, probability: f64) -> usize {
        self.steps
            .partition_point(|(_, cumulative)| *cumulative < probability)
            .min(self.steps.len() - 1)
    }
}
