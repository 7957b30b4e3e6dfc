//! Leaps of a monotone iteration towards its fixed point, past many of its steps at once.
//!
//! Let T be the map of a period on lower bounds of the workload's distribution function Q, "the law a period later or
//! the floor, whichever is higher": monotone, convex, and with Q = T Q. Let L = Q_k + c D_k, where Q_k+1 = T Q_k and
//! D_k = Q_k - Q_k-1 >= 0. Since Q_k lies on the chord from Q_k-1 to L, convexity gives
//!
//! ```text
//! T L >= (1 + c) Q_k+1 - c Q_k,   so   T L - L >= (1 + c) D_k+1 - c D_k,
//! ```
//!
//! which is nowhere negative if c / (1 + c) is the least ratio of D_k+1 to D_k over all workloads. Then L is a lower
//! bound as well: with W the higher of L and Q at each workload, W <= T W, because T is monotone; W is at most one and
//! reaches it, since Q does, so that the iteration from W tends to Q, and it never falls; hence L <= W <= Q. The higher
//! one of two such functions is such a function. Workloads beyond the last that is kept count as never done with, which
//! lowers T and nothing else.
//!
//! For upper bounds T is linear but for a constant, all signs turn around, and the same ratio decides.

use super::rounding::BracketSide;

/// Changes below this are what floating point makes of none. What they may add to the error, times the square of the
/// longest leap, is below the guard by which all results are rounded outward.
const NOISE: f64 = 1e-14;
/// The most changes that a leap adds.
const LONGEST: f64 = 100.0;
/// A leap that adds fewer is not worth it.
const SHORTEST: f64 = 2.0;
/// The plain steps after each leap, in which all but the slowest part of the error dies out.
const STEPS_BETWEEN: usize = 3;

/// The last steps of an iteration.
#[derive(Debug)]
pub(super) struct LeapHistory {
    side: BracketSide,
    /// By how much each value came nearer in the last step.
    changes: Vec<f64>,
    steps: usize,
}

impl LeapHistory {
    pub(super) fn new(side: BracketSide) -> Self {
        Self {
            side,
            changes: Vec::new(),
            steps: 0,
        }
    }

    /// Takes the step from `current` to `next`, and leaps from there where that is worth it and proved to stay on the
    /// side. Says whether it did.
    pub(super) fn step(&mut self, current: &[f64], next: &mut [f64]) -> bool {
        let towards = match self.side {
            BracketSide::Pessimistic => 1.0,
            BracketSide::Optimistic => -1.0,
        };
        let changes = next.iter().zip(current);
        let changes: Vec<f64> = changes.map(|(n, c)| towards * (n - c)).collect();
        self.steps += 1;
        let share = self.least_ratio(&changes);
        let multiple = (share / (1.0 - share)).min(LONGEST);
        if self.steps <= STEPS_BETWEEN || share >= 1.0 || multiple < SHORTEST {
            self.changes = changes;
            return false;
        }
        for ((n, c), change) in next.iter_mut().zip(current).zip(&self.changes) {
            let leapt = c + towards * multiple * change;
            *n = match self.side {
                BracketSide::Pessimistic => n.max(leapt).min(1.0),
                BracketSide::Optimistic => n.min(leapt).max(0.0),
            };
        }
        *self = Self::new(self.side);
        true
    }

    /// The least ratio of a change to the one before it.
    fn least_ratio(&self, changes: &[f64]) -> f64 {
        let pairs = changes.iter().zip(&self.changes);
        let ratios = pairs.filter(|(_, before)| **before > NOISE);
        ratios.map(|(now, before)| now / before).fold(1.0, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::boundary::{self, LatticeQueue, Passages};
    use super::super::compound::LatticeWork;
    use super::*;
    use crate::Unwatched;

    /// The law of the workload at replenishments, from one side.
    fn cumulative(queue: &LatticeQueue, passages: &Passages, side: BracketSide) -> Vec<f64> {
        let law = boundary::workload(queue, passages, side, (1e-7, &Unwatched));
        let mut sum = 0.0;
        let sums = law.iter().map(|p| {
            sum += p;
            sum
        });
        sums.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Nothing is rounded here, so both sides tend to one law, and a leap too far would go past it.
        #[test]
        fn bounds_from_both_sides_meet_and_do_not_cross(
            budget in 2_usize..10, idle in 0_usize..8, long in 1_usize..10, load in 0.3..0.85_f64,
        ) {
            let period = budget + idle;
            let mut sizes = vec![0.0; long + 1];
            sizes[1] += 0.5;
            sizes[long] += 0.5;
            let mean = (1.0 + long as f64) / 2.0;
            let bandwidth = budget as f64 / period as f64;
            let queue = LatticeQueue {
                work: LatticeWork { jobs_per_step: load * bandwidth / mean, sizes },
                budget_steps: budget,
                period_steps: period,
            };
            let passages = Passages::of(&queue);
            let lower = cumulative(&queue, &passages, BracketSide::Pessimistic);
            let upper = cumulative(&queue, &passages, BracketSide::Optimistic);
            for (at, (low, high)) in lower.iter().zip(&upper).enumerate() {
                prop_assert!(low - high < 1e-10, "{} {} {}", at, low, high);
                prop_assert!(high - low < 1e-4, "{} {} {}", at, low, high);
            }
        }
    }

    #[test]
    fn a_leap_adds_what_the_least_ratio_of_changes_allows() {
        let mut history = LeapHistory::new(BracketSide::Pessimistic);
        let mut current = vec![0.0, 0.0];
        // The changes halve at one place, and fall to four fifths at the other.
        let mut leapt = false;
        for step in 0..=STEPS_BETWEEN as i32 {
            let mut next = vec![
                current[0] + 0.1 * 0.8_f64.powi(step),
                current[1] + 0.1 * 0.75_f64.powi(step),
            ];
            leapt = history.step(&current, &mut next);
            current = next;
        }
        assert!(leapt);
        // Where the ratio is the least, the leap reaches the limit; elsewhere it stays below.
        assert!((current[1] - 0.4).abs() < 1e-12, "{current:?}");
        assert!(current[0] < 0.5 - 1e-3, "{current:?}");
    }
}
