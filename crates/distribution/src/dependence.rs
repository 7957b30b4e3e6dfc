//! How much the latencies of a sample depend on each other, by batches in their order of arrival.
//!
//! The share of a run's requests that stay within a latency scatters from run to run more than that of
//! independent requests would: so many times as much that it would take as many times the requests for the same
//! interval. How many times, is seen from the scatter of that share between batches of consecutive requests
//! (batch means: Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3).

use crate::arrival::ArrivalOrder;
use crate::student::widening;

/// The batches into which a run is cut.
pub(crate) const BATCHES: usize = 32;
/// The batches where a run is too short for so many: longer ones hide less of what spans several of them.
pub(crate) const LONG_BATCHES: usize = 8;
/// Fewer requests than this make no batch.
const LEAST_BATCH: usize = 4;
/// Probabilities at which the variance is seen better than at a rarer one above: it grows with the probability,
/// and levels off, since rare latencies come in the same busy periods as the less rare ones below them.
const LESS_RARE: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
/// The greatest of these at which it is seen how long the queue remembers, whatever the quantile.
const MEMORY: f64 = 0.9;

/// Factors by which dependence makes the variance of a share of requests greater.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Inflation {
    /// The factor at the quantile, or at a less rare one if it is greater there; at least 1.
    pub at_quantile: f64,
    /// The greatest factor that was seen, which says how long the queue remembers.
    pub memory: f64,
    /// The factor by which the estimate's own scatter makes the variance greater.
    pub uncertainty: f64,
}

impl Inflation {
    /// The inflation at the `probability` quantile of `known` sorted values, in the `order` in which they and
    /// others that are longer than any quantile arrived, by so many batches. `within` tells how many values are at
    /// most the quantile at a probability.
    pub(crate) fn estimate(
        order: &ArrivalOrder,
        probability: f64,
        confidence: f64,
        batches: usize,
        within: impl Fn(f64) -> usize,
    ) -> Self {
        let longest = order.runs().iter().map(Vec::len).max().unwrap_or(0);
        let batches = batches.min(longest / LEAST_BATCH);
        let factor = |probability| share_inflation(order, within(probability), batches);
        let mut at_quantile = factor(probability);
        let mut memory = at_quantile;
        for less_rare in LESS_RARE {
            if less_rare < probability {
                at_quantile = factor(less_rare).max(at_quantile);
            }
            if less_rare <= MEMORY.max(probability) {
                memory = factor(less_rare).max(memory);
            }
        }
        let uncertainty = match batches {
            0 | 1 => f64::INFINITY,
            batches => widening(confidence, batches - 1).powi(2),
        };
        Self {
            at_quantile,
            memory,
            uncertainty,
        }
    }

    /// `Inflation` if the quantile was `ratio` times as long as it seems: a queue whose latencies are twice as
    /// long remembers four times as long (in heavy traffic a queue's content is a Brownian motion, whose times
    /// scale with the square of its lengths). Never less than what was seen.
    pub(crate) fn of_longer(self, ratio: f64) -> Self {
        let square = (ratio * ratio).max(1.0);
        let scaled = |factor: f64| 1.0 + (factor - 1.0) * square;
        Self {
            at_quantile: scaled(self.at_quantile),
            memory: scaled(self.memory),
            uncertainty: self.uncertainty,
        }
    }
}

/// The variance of the number of requests among the `within` shortest, over what it would be if requests were
/// independent; at least 1. Runs are laid upon each other, so that those with the same arrivals, which scatter
/// together, are not taken for more than one.
fn share_inflation(order: &ArrivalOrder, within: usize, batches: usize) -> f64 {
    let runs = order.runs();
    let count: usize = runs.iter().map(Vec::len).sum();
    let share = within as f64 / count as f64;
    let independent = count as f64 * share * (1.0 - share);
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    if batches < 2 || independent <= 0.0 {
        return 1.0;
    }
    let size = longest / batches;
    // What is left over is at the beginning, where a run is least like the rest.
    let first = longest - size * batches;
    let mut sums = vec![0.0; batches];
    for run in runs {
        for (index, position) in run.iter().enumerate().skip(first) {
            let inside = f64::from(u8::from((*position as usize) < within));
            sums[(index - first) / size] += inside - share;
        }
    }
    let mean = sums.iter().sum::<f64>() / batches as f64;
    let squares: f64 = sums.iter().map(|sum| (sum - mean) * (sum - mean)).sum();
    let of_batch = squares / (batches as f64 - 1.0);
    let of_all = of_batch * longest as f64 / size as f64;
    (of_all / independent).max(1.0)
}
