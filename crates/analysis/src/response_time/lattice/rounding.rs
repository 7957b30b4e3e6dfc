//! Times rounded outward to a lattice that divides the replenishment period.

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{Bin, ExecutionTime};
use tailbound_time::Duration;

use crate::AnalysisError;

/// Which end of a bracket is computed: everything is rounded towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::response_time) enum Side {
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
    pub(in crate::response_time) fn time(self, step: usize, side: Side) -> Duration {
        let scaled = step as u128 * u128::from(self.period_ns);
        let points = self.points as u128;
        let nanos = match side {
            Side::Optimistic => scaled / points,
            Side::Pessimistic => scaled.div_ceil(points),
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
    /// Uniform from the first to the second, in nanoseconds.
    Uniform(u64, u64),
}

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
            ExecutionTime::Uniform { min, max } if min < max => {
                Ok(Self::Uniform(min.as_nanos(), max.as_nanos()))
            }
            ExecutionTime::Uniform { max, .. } => Ok(Self::constant(*max)),
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
            Self::Uniform(_, max) => *max,
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
            Self::Uniform(min, _) => *min,
        }
    }

    /// The mean in seconds, of the pessimistic end.
    pub(in crate::response_time) fn mean_seconds(&self) -> f64 {
        match self {
            Self::Atoms { pessimistic, .. } => {
                let total: f64 = pessimistic.iter().map(|(value, w)| *value as f64 * w).sum();
                total * 1e-9
            }
            Self::Uniform(min, max) => (*min as f64 + *max as f64) * 0.5e-9,
        }
    }

    /// The mean of e^(theta value), theta per second, of the pessimistic end.
    pub(in crate::response_time) fn moment(&self, theta: f64) -> f64 {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        match self {
            Self::Atoms { pessimistic, .. } => {
                let of = |(value, weight): &(u64, f64)| weight * (theta * seconds(*value)).exp();
                pessimistic.iter().map(of).sum()
            }
            Self::Uniform(min, max) => {
                let width = theta * seconds(max - min);
                let mean = if width > 0.0 {
                    width.exp_m1() / width
                } else {
                    1.0
                };
                (theta * seconds(*min)).exp() * mean
            }
        }
    }

    /// The probabilities of 0, 1, 2, ... steps, rounded towards `side`.
    pub(in crate::response_time) fn on(&self, lattice: Lattice, side: Side) -> Vec<f64> {
        let up = side == Side::Pessimistic;
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
            Self::Uniform(min, max) => {
                let step_ns = lattice.period_ns as f64 / lattice.points as f64;
                let (min, max) = (*min as f64, *max as f64);
                let below = |at: f64| ((at - min) / (max - min)).clamp(0.0, 1.0);
                for (step, weight) in weights.iter_mut().enumerate() {
                    // Rounded up, a step collects the cell before it; rounded down, the one after.
                    let end = if up { step as f64 } else { step as f64 + 1.0 } * step_ns;
                    *weight = below(end) - below(end - step_ns);
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
