//! Times rounded outward to a lattice that divides the replenishment period.

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{Bin, ContinuousLaw, ExecutionTime};
use tailbound_time::Duration;

use crate::AnalysisError;

/// Which end of a bracket is computed: everything is rounded towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::response_time) enum BracketSide {
    /// Execution times down, budget up: shorter responses than the true ones.
    Optimistic,
    /// Execution times up, budget down: longer ones.
    Pessimistic,
}

/// A lattice of `points` steps per `period`.
#[derive(Clone, Copy, Debug)]
pub(in crate::response_time) struct Lattice {
    pub(in crate::response_time) period_ns: u64,
    pub(in crate::response_time) points: usize,
}

impl Lattice {
    /// The length in steps, rounded.
    pub(in crate::response_time) fn steps(self, length_ns: u64, side_rounds_up: bool) -> usize {
        let scaled = u128::from(length_ns) * self.points as u128;
        let period = u128::from(self.period_ns);
        let steps = if side_rounds_up {
            scaled.div_ceil(period)
        } else {
            scaled / period
        };
        usize::try_from(steps).unwrap_or(usize::MAX)
    }

    /// The time of a step, rounded to nanoseconds.
    pub(in crate::response_time) fn time(self, step: usize, side: BracketSide) -> Duration {
        let scaled = step as u128 * u128::from(self.period_ns);
        let points = self.points as u128;
        let nanos = match side {
            BracketSide::Optimistic => scaled / points,
            BracketSide::Pessimistic => scaled.div_ceil(points),
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The length of a step in seconds.
    pub(in crate::response_time) fn step_seconds(self) -> f64 {
        self.period_ns as f64 * 1e-9 / self.points as f64
    }
}

/// A law of execution times, known as values with weights or as a continuous range.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::response_time) enum Law {
    /// Values in nanoseconds with their probabilities: the shorter and the longer end of what is
    /// known, equal where it is known exactly.
    Atoms {
        optimistic: Vec<(u64, f64)>,
        pessimistic: Vec<(u64, f64)>,
    },
    /// A formula.
    Continuous(ContinuousLaw),
}

/// Cells per mean execution time into which a continuous law is cut for the moments of its tail.
const CELLS_OF_MOMENTS: f64 = 32.0;
/// Cells per mean execution time into which a continuous law is cut where values with probabilities are asked for.
const CELLS_OF_ATOMS: f64 = 256.0;
/// The fewest cells from the shortest to the longest execution time.
const FEWEST_CELLS: f64 = 32.0;
/// Cells are equally wide up to so many means, and from there on widen in proportion.
const EVEN_MEANS: f64 = 4.0;

impl Law {
    pub(in crate::response_time) fn constant(value: Duration) -> Self {
        let atoms = vec![(value.as_nanos(), 1.0)];
        Self::Atoms {
            optimistic: atoms.clone(),
            pessimistic: atoms,
        }
    }

    /// The law that a description gives.
    pub(in crate::response_time) fn described(
        task: &str,
        time: &ExecutionTime,
    ) -> Result<Self, AnalysisError> {
        match time {
            ExecutionTime::Constant { value } => Ok(Self::constant(*value)),
            ExecutionTime::Uniform { max, .. } => Ok(Self::continuous(time, *max)),
            ExecutionTime::Exponential { mean, .. } => Ok(Self::continuous(time, *mean)),
            ExecutionTime::Lognormal { p99, .. } => Ok(Self::continuous(time, *p99)),
            ExecutionTime::Calibrated {
                expected: Some(value),
            } => Ok(Self::constant(*value)),
            ExecutionTime::Histogram { bins, file: None } => Ok(Self::of_bins(bins)),
            ExecutionTime::Calibrated { expected: None }
            | ExecutionTime::Samples { .. }
            | ExecutionTime::Histogram { .. }
            | ExecutionTime::Trace {} => {
                Err(AnalysisError::ExecutionTimeUnknown { task: task.into() })
            }
        }
    }

    /// The law of a formula; constant where the formula has no width.
    fn continuous(time: &ExecutionTime, without_width: Duration) -> Self {
        match ContinuousLaw::of(time) {
            Some(law) if law.shortest() < law.longest() => Self::Continuous(law),
            _ => Self::constant(without_width),
        }
    }

    /// Whatever law holds within the bins lies between those with all jobs at the ends.
    fn of_bins(bins: &[Bin]) -> Self {
        let all: f64 = bins.iter().map(|bin| bin.count as f64).sum();
        let atoms = |end: fn(&Bin) -> Duration| {
            let counted = bins.iter().filter(|bin| bin.count > 0);
            let atom = |bin: &Bin| (end(bin).as_nanos(), bin.count as f64 / all);
            counted.map(atom).collect()
        };
        Self::Atoms {
            optimistic: atoms(|bin| bin.from),
            pessimistic: atoms(|bin| bin.to),
        }
    }

    /// The law of a distribution.
    pub(in crate::response_time) fn given(
        task: &str,
        distribution: &Distribution,
    ) -> Result<Self, AnalysisError> {
        let (optimistic, pessimistic) = match &distribution.shape {
            Shape::Samples(samples) => {
                let atoms = counted(samples);
                (atoms.clone(), atoms)
            }
            // The longest is not known, which the check of the mass below reports.
            Shape::Censored { samples, censored } => {
                let share = samples.len() as f64 / (samples.len() + censored.len()).max(1) as f64;
                let atoms: Vec<_> = counted(samples)
                    .into_iter()
                    .map(|(value, weight)| (value, weight * share))
                    .collect();
                (atoms.clone(), atoms)
            }
            Shape::Curve(curve) => (differences(curve), differences(curve)),
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => (differences(optimistic), differences(pessimistic)),
        };
        let mass: f64 = pessimistic.iter().map(|(_, weight)| weight).sum();
        if mass < 1.0 - 1e-9 {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "the execution times of task \"{task}\" end at probability {mass:.6}; they \
                     must reach 1, since a longest one is needed"
                ),
            });
        }
        Ok(Self::Atoms {
            optimistic,
            pessimistic,
        })
    }

    /// Every value of the law, if there are no more than a few; none where it is continuous.
    pub(in crate::response_time) fn few_values(&self) -> Option<Vec<u64>> {
        match self {
            Self::Atoms {
                optimistic,
                pessimistic,
            } if optimistic == pessimistic && optimistic.len() <= 4 => {
                Some(optimistic.iter().map(|(value, _)| *value).collect())
            }
            _ => None,
        }
    }

    /// How many values there are, if they are known exactly.
    pub(in crate::response_time) fn exact_values(&self) -> Option<usize> {
        match self {
            Self::Atoms {
                optimistic,
                pessimistic,
            } if optimistic == pessimistic => Some(optimistic.len()),
            _ => None,
        }
    }

    /// The longest value, in nanoseconds.
    pub(in crate::response_time) fn longest_ns(&self) -> u64 {
        match self {
            Self::Atoms { pessimistic, .. } => pessimistic
                .iter()
                .map(|(value, _)| *value)
                .max()
                .unwrap_or(0),
            Self::Continuous(law) => law.longest().as_nanos(),
        }
    }

    /// The shortest value, in nanoseconds.
    pub(in crate::response_time) fn shortest_ns(&self) -> u64 {
        match self {
            Self::Atoms { optimistic, .. } => optimistic
                .iter()
                .map(|(value, _)| *value)
                .min()
                .unwrap_or(0),
            Self::Continuous(law) => law.shortest().as_nanos(),
        }
    }

    /// The mean in seconds, of the pessimistic end.
    pub(in crate::response_time) fn mean_seconds(&self) -> f64 {
        match self {
            Self::Atoms { pessimistic, .. } => {
                let total: f64 = pessimistic.iter().map(|(value, w)| *value as f64 * w).sum();
                total * 1e-9
            }
            Self::Continuous(law) => law.mean_ns() * 1e-9,
        }
    }

    /// The mean in seconds, where it is known exactly.
    pub(in crate::response_time) fn exact_mean_seconds(&self) -> Option<f64> {
        let is_known = matches!(self, Self::Continuous(_)) || self.exact_values().is_some();
        is_known.then(|| self.mean_seconds())
    }

    /// The mean of e^(theta value), theta per second, of the pessimistic end.
    ///
    /// For a continuous law, no less: e^(theta x) is convex, so within a cell it lies below its chord, whose mean needs
    /// no more than the mean of what lies in the cell.
    pub(in crate::response_time) fn moment(&self, theta: f64) -> f64 {
        let power = |ns: u64| (theta * (ns as f64 * 1e-9)).exp();
        match self {
            Self::Atoms { pessimistic, .. } => {
                let of = |(value, weight): &(u64, f64)| weight * power(*value);
                pessimistic.iter().map(of).sum()
            }
            Self::Continuous(law) => {
                let edges = edges(law, CELLS_OF_MOMENTS);
                let mut from = edges[0];
                let mut from_power = power(from);
                let mut beyond_from = law.mean_beyond(from as f64);
                let mut sum = from_power;
                for to in edges.into_iter().skip(1) {
                    let (to_power, beyond_to) = (power(to), law.mean_beyond(to as f64));
                    let slope = (to_power - from_power) / (to - from) as f64;
                    sum += slope * (beyond_from - beyond_to);
                    (from, from_power, beyond_from) = (to, to_power, beyond_to);
                }
                sum
            }
        }
    }

    /// The values with their probabilities, towards one side of what is known; those of a continuous law are the ends
    /// of cells.
    pub(in crate::response_time) fn atoms(&self, side: BracketSide) -> Vec<(Duration, f64)> {
        let atom = |(ns, weight): &(u64, f64)| (Duration::from_nanos(*ns), *weight);
        match (self, side) {
            (Self::Atoms { optimistic, .. }, BracketSide::Optimistic) => {
                optimistic.iter().map(atom).collect()
            }
            (Self::Atoms { pessimistic, .. }, BracketSide::Pessimistic) => {
                pessimistic.iter().map(atom).collect()
            }
            (Self::Continuous(law), _) => {
                let edges = edges(law, CELLS_OF_ATOMS);
                let cell = |ends: &[u64]| {
                    let end = if side == BracketSide::Pessimistic {
                        1
                    } else {
                        0
                    };
                    let weight = law.exceeded(ends[0] as f64) - law.exceeded(ends[1] as f64);
                    (Duration::from_nanos(ends[end]), weight)
                };
                let cells = edges.windows(2).map(cell);
                cells.filter(|(_, weight)| *weight > 0.0).collect()
            }
        }
    }

    /// The probabilities of 0, 1, 2, ... steps, rounded towards `side`.
    pub(in crate::response_time) fn on(&self, lattice: Lattice, side: BracketSide) -> Vec<f64> {
        let up = side == BracketSide::Pessimistic;
        let mut weights = vec![0.0; lattice.steps(self.longest_ns(), up) + 1];
        match self {
            Self::Atoms {
                optimistic,
                pessimistic,
            } => {
                let atoms = if up { pessimistic } else { optimistic };
                for (value, weight) in atoms {
                    let step = lattice.steps(*value, up).min(weights.len() - 1);
                    weights[step] += weight;
                }
            }
            Self::Continuous(law) => {
                let step_ns = lattice.period_ns as f64 / lattice.points as f64;
                for (step, weight) in weights.iter_mut().enumerate() {
                    // Rounded up, a step collects the cell before it; rounded down, the one after.
                    let end = if up { step as f64 } else { step as f64 + 1.0 } * step_ns;
                    *weight = law.exceeded(end - step_ns) - law.exceeded(end);
                }
            }
        }
        let sum: f64 = weights.iter().sum();
        debug_assert!(
            (sum - 1.0).abs() < 1e-6,
            "rounding moves probability and loses none: {sum}"
        );
        weights
    }

    /// The probabilities of 0, 1, 2, ... steps, where every value is split over its neighbours such that its mean stays.
    pub(in crate::response_time) fn centred(&self, lattice: Lattice) -> Vec<f64> {
        let step_ns = lattice.period_ns as f64 / lattice.points as f64;
        let mut weights = vec![0.0; lattice.steps(self.longest_ns(), true) + 2];
        match self {
            Self::Atoms { pessimistic, .. } => {
                for (value, weight) in pessimistic {
                    let at = *value as f64 / step_ns;
                    let below = at.floor();
                    weights[below as usize] += weight * (1.0 - (at - below));
                    weights[below as usize + 1] += weight * (at - below);
                }
            }
            Self::Continuous(law) => {
                // The mean of what exceeds a step is convex in it: its bends are the probabilities.
                let shortest_ns = law.shortest().as_nanos() as f64;
                let beyond = |step: f64| {
                    let at_ns = step * step_ns;
                    let before_ns = (shortest_ns - at_ns).max(0.0);
                    (before_ns + law.mean_beyond(at_ns.max(shortest_ns))) / step_ns
                };
                let mut slope = -1.0;
                for (step, weight) in weights.iter_mut().enumerate() {
                    let next = beyond(step as f64 + 1.0) - beyond(step as f64);
                    *weight = (next - slope).max(0.0);
                    slope = next;
                }
            }
        }
        weights
    }
}

/// The ends of the cells of a continuous law, in nanoseconds, from its shortest to its longest value: `per_mean` of
/// them to a mean where most values are.
fn edges(law: &ContinuousLaw, per_mean: f64) -> Vec<u64> {
    let (shortest, longest) = (law.shortest().as_nanos(), law.longest().as_nanos());
    let width = (longest - shortest) as f64 / FEWEST_CELLS;
    let width = width.min(law.mean_ns() / per_mean);
    let mut edges = vec![shortest];
    let mut at = shortest as f64;
    while at < longest as f64 {
        let beyond = (at / (EVEN_MEANS * law.mean_ns())).max(1.0);
        at += width * beyond;
        let edge = (at.round() as u64).min(longest);
        if edges.last().is_none_or(|last| *last < edge) {
            edges.push(edge);
        }
    }
    edges
}

fn counted(sorted: &[Duration]) -> Vec<(u64, f64)> {
    let share = 1.0 / sorted.len().max(1) as f64;
    sorted
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0].as_nanos(), run.len() as f64 * share))
        .collect()
}

fn differences(curve: &StepCdf) -> Vec<(u64, f64)> {
    let mut before = 0.0;
    let difference = |(at, cumulative): &(Duration, f64)| {
        let weight = cumulative - before;
        before = *cumulative;
        (at.as_nanos(), weight)
    };
    curve.steps().iter().map(difference).collect()
}
