//! What a batch of jobs brings, and lattices that it lies on.

use std::collections::BTreeMap;

use num_integer::gcd;
use num_rational::Ratio;
use tailbound_time::Duration;

use super::queue::PoissonQueue;
use crate::AnalysisError;
use crate::batches::BatchLaw;
use crate::rational::neighbours;

/// At most so many different amounts of work per batch are followed one by one.
const MOST_SIZES: usize = 64;
/// The most strides of a job.
const MOST_STRIDES: u64 = 1_500;
/// The most lattice steps of a budget.
const MOST_STEPS: u64 = 6_000;

/// The work of a batch, in strides.
pub(super) struct BatchWork {
    pub(super) stride_ns: u64,
    /// All of a batch.
    pub(super) total: Vec<(usize, f64)>,
    /// A job and what of its batch goes before it.
    pub(super) tagged: Vec<(usize, f64)>,
}

/// A lattice on which the strides and a budget lie.
pub(super) struct BudgetLattice {
    pub(super) step_ns: f64,
    pub(super) stride: usize,
    pub(super) budget_steps: usize,
}

pub(super) struct Lattices {
    pub(super) optimistic: BudgetLattice,
    pub(super) pessimistic: Option<BudgetLattice>,
}

impl BatchWork {
    pub(super) fn of(queue: &PoissonQueue) -> Result<Self, AnalysisError> {
        let times = queue.execution_times.iter();
        // Execution times may all be zero, where a calibration could measure none.
        let stride_ns = times.fold(0, |g, (time, _)| gcd(g, time.as_nanos())).max(1);
        let mut one = BTreeMap::new();
        for (time, p) in &queue.execution_times {
            let strides = time.as_nanos() / stride_ns;
            if strides > MOST_STRIDES {
                return Err(AnalysisError::NotAnalysed {
                    reason: "execution times with so small a common divisor".into(),
                });
            }
            *one.entry(strides as usize).or_insert(0.0) += p;
        }
        let (mut total, mut tagged) = (BTreeMap::new(), BTreeMap::new());
        let mut sum = BTreeMap::from([(0_usize, 1.0)]);
        for place in BatchLaw::new(&queue.batches).places() {
            sum = convolved(&sum, &one);
            if sum.len() > MOST_SIZES {
                return Err(AnalysisError::NotAnalysed {
                    reason: format!("more than {MOST_SIZES} different amounts of work at a time"),
                });
            }
            for (strides, p) in &sum {
                if place.ends > 0.0 {
                    *total.entry(*strides).or_insert(0.0) += p * place.ends;
                }
                *tagged.entry(*strides).or_insert(0.0) += p * place.jobs;
            }
        }
        for law in [&total, &tagged] {
            let sum: f64 = law.values().sum();
            debug_assert!(
                (sum - 1.0).abs() < 1e-6,
                "the work of a batch is a law: {sum}"
            );
        }
        Ok(Self {
            stride_ns,
            total: total.into_iter().collect(),
            tagged: tagged.into_iter().collect(),
        })
    }

    pub(super) fn shortest_ns(&self) -> f64 {
        let shortest = self.tagged.first().map_or(0, |(strides, _)| *strides);
        shortest as f64 * self.stride_ns as f64
    }

    /// A lattice that holds strides and budget exactly, or two that enclose the budget.
    pub(super) fn lattices(
        &self,
        budget: Duration,
        period: Duration,
        largest: u64,
    ) -> Result<Lattices, AnalysisError> {
        let budget_ns = budget.as_nanos();
        let step = gcd(self.stride_ns, budget_ns);
        let (stride, steps) = (self.stride_ns / step, budget_ns / step);
        let longest = self.total.last().map_or(1, |(strides, _)| *strides) as u64;
        if stride.saturating_mul(longest) <= largest && steps <= MOST_STEPS {
            return Ok(Lattices {
                optimistic: BudgetLattice {
                    step_ns: step as f64,
                    stride: stride as usize,
                    budget_steps: steps as usize,
                },
                pessimistic: None,
            });
        }
        let ratio = Ratio::new(budget_ns, self.stride_ns);
        let fitting = MOST_STEPS.saturating_mul(self.stride_ns) / budget_ns.max(1);
        let largest = (largest / longest).min(fitting).max(1);
        let (below, above) = neighbours(ratio, largest);
        // A budget above the period is one CPU's share; the deferrable server of a full period is.
        let whole = Ratio::new(period.as_nanos(), self.stride_ns);
        let lattice = |fraction: Ratio<u64>| BudgetLattice {
            step_ns: self.stride_ns as f64 / *fraction.denom() as f64,
            stride: *fraction.denom() as usize,
            budget_steps: *fraction.numer() as usize,
        };
        if *below.numer() == 0 || *above.numer() > MOST_STEPS + 1 || above > whole {
            return Err(AnalysisError::NotAnalysed {
                reason: "budget, period and execution times with so small a common divisor".into(),
            });
        }
        Ok(Lattices {
            optimistic: lattice(above),
            pessimistic: Some(lattice(below)),
        })
    }
}

fn convolved(a: &BTreeMap<usize, f64>, b: &BTreeMap<usize, f64>) -> BTreeMap<usize, f64> {
    let mut sum = BTreeMap::new();
    for (x, p) in a {
        for (y, q) in b {
            *sum.entry(x + y).or_insert(0.0) += p * q;
        }
    }
    sum
}
