//! The workload at the start of a period, in equilibrium: a law that is guessed, and then proved to be a bound.
//!
//! Let T take the distribution function of the workload at the start of a period to that at its end. The workload at
//! the end rises with that at the start, so T Q(b) is the mean of Q(h), where h is the highest workload at the start
//! from which the period leads to no more than b; paths without one count as 0. Where there is one, it is b + B - X,
//! with the budget B and the period's arrivals X. So T is linear and monotone, and for phi(z) = e^(-theta z)
//!
//! ```text
//! T phi <= r phi,   r = e^(-theta B) E e^(theta X),   below 1 for theta below Lundberg's exponent.
//! ```
//!
//! Any guess y, however it was made, with T y >= y - (1 - r) c phi, gives L = y - c phi with T L >= L. Where y is no more
//! than a known bound, that is not even needed: with W the higher of L and the true Q everywhere, W <= T W, and since
//! the workload from which a period leads to b grows without end from one period to the one before, T W, T T W, ...
//! tend to Q. Hence L <= W <= Q. For upper bounds all signs turn around.
//!
//! The guess comes from steps y + (T y - y) + D (T y - y), where D solves the diffusion that the workload looks like from
//! far, mixed by Anderson's rule: a few dozen of them do where T alone would need thousands under heavy load.

use num_integer::gcd;

use super::boundary::{LatticeQueue, Passages, PeriodSweep, probabilities};
use super::rounding::BracketSide;
use crate::SearchWatch;
use crate::response_time::anderson::Mixing;
use crate::response_time::diffusion::{Diffusion, PeriodMoments};

/// The error at which the search for a guess ends, where response times are to be as sharp as can be.
pub(super) const PRECISION: f64 = 1e-7;
/// The part of the precision that the tail of the workload beyond the last kept state weighs, at most.
const TAIL: f64 = 0.1;
/// The most states that are kept; of a workload that reaches further, the rest lies beyond.
const MOST_STATES: f64 = 24_000.0;
/// The part of Lundberg's exponent by which errors are weighed: half of it would leave the least error after a period,
/// but needs twice the states.
const PART_OF_DECAY: f64 = 0.2;
/// The change that floating point may make of none.
const NOISE: f64 = 1e-13;
/// The cost of all sweeps together, at most, in elementary operations.
const MOST_OPERATIONS: usize = 400_000_000;
/// The steps without a better bound after which there is none to come.
const PATIENCE: usize = 20;

/// The law of the workload at the start of a period, rounded up to the lattice: a bound towards `side`; what is missing
/// from a sum of 1 lies beyond. It is near the truth on the lattice by about `precision`. Where `watch` stops the
/// search, what there is then is a bound as well.
pub(super) fn workload(
    queue: &LatticeQueue,
    passages: &Passages,
    side: BracketSide,
    (precision, watch): (f64, &dyn SearchWatch),
) -> Vec<f64> {
    let search = LawSearch::new(queue, passages, side, precision);
    let bound = search.bound(precision, watch);
    let tighter = |(bound, given): (&f64, &f64)| match side {
        BracketSide::Pessimistic => bound.max(*given),
        BracketSide::Optimistic => bound.min(*given),
    };
    let mut cumulative: Vec<f64> = bound.iter().zip(&search.given).map(tighter).collect();
    if let (BracketSide::Optimistic, Some(last)) = (side, cumulative.last_mut()) {
        *last = 1.0;
    }
    probabilities(&cumulative)
}

/// The search for a guess that proves a bound.
struct LawSearch<'a> {
    side: BracketSide,
    /// The last workload of which the guess says something.
    last: usize,
    /// A bound that needs no search: Lundberg's, or 1. A period takes the workload down by a budget at most, so that it
    /// counts for so much beyond the last workload.
    given: Vec<f64>,
    decay: f64,
    sweep: PeriodSweep<'a>,
    weight: ErrorWeight,
    blur: Blur,
}

impl<'a> LawSearch<'a> {
    fn new(
        queue: &'a LatticeQueue,
        passages: &'a Passages,
        side: BracketSide,
        precision: f64,
    ) -> Self {
        let decay = queue.decay();
        let wanted = -(TAIL * precision).ln() / (decay * (1.0 - PART_OF_DECAY));
        let last = wanted.ceil().min(MOST_STATES) as usize + 1;
        let beyond = last + queue.budget_steps;
        let lundberg = |z| -(-decay * z as f64).exp_m1();
        let given = match side {
            BracketSide::Pessimistic => (0..=beyond).map(lundberg).collect(),
            BracketSide::Optimistic => vec![1.0; beyond + 1],
        };
        Self {
            side,
            last,
            given,
            decay,
            sweep: PeriodSweep::new(queue, passages, beyond),
            weight: ErrorWeight::new(queue, PART_OF_DECAY * decay),
            blur: Blur::of(queue),
        }
    }

    /// The best bound that guesses prove, of the workloads up to the last.
    fn bound(&self, precision: f64, watch: &dyn SearchWatch) -> Vec<f64> {
        let periods = self.blur.periods;
        let most = (MOST_OPERATIONS / self.sweep.operations()).max(1);
        let mut memory = self.sweep.memory();
        let mut mixing = Mixing::default();
        let mut law = self.law(self.blur.guess(self.decay, self.last + 1));
        let mut best = (f64::INFINITY, self.given[..=self.last].to_vec());
        let mut since_best = 0;
        let mut start = law.clone();
        for swept in 1..=most {
            let next = self.sweep.apply(&law, &mut memory);
            let error = self.weight.error(&law[..=self.last], &next);
            since_best += 1;
            if error.distance() < best.0 {
                if error.distance() < 0.9 * best.0 {
                    since_best = 0;
                }
                let bound = self.weight.bound(&law[..=self.last], error, self.side);
                best = (error.distance(), bound);
            }
            if best.0 <= precision || since_best > PATIENCE * periods || watch.is_stopped() {
                break;
            }
            law = if swept % periods == 0 {
                let start = &start[..=self.last];
                let changes: Vec<f64> = next.iter().zip(start).map(|(n, s)| n - s).collect();
                self.law(mixing.next(start, self.blur.sum(&changes)))
            } else {
                self.law(next)
            };
            if swept % periods == 0 {
                start.clone_from(&law);
            }
        }
        best.1
    }

    /// The least distribution function that is nowhere below a guess, and is the known bound beyond the last workload.
    fn law(&self, mut guess: Vec<f64>) -> Vec<f64> {
        guess.truncate(self.last + 1);
        let most = self.given[self.last + 1];
        let mut highest = 0.0_f64;
        for value in &mut guess {
            highest = highest.max(value.min(most));
            *value = highest;
        }
        guess.extend(&self.given[self.last + 1..]);
        guess
    }
}

/// The factors of the weight by which a guess may be wrong: too high, and too low.
#[derive(Clone, Copy, Debug)]
struct GuessError {
    too_high: f64,
    too_low: f64,
}

impl GuessError {
    /// How far both bounds of a guess are apart.
    fn distance(self) -> f64 {
        self.too_high + self.too_low
    }
}

/// A weight phi of errors, and what of it is left after a period.
#[derive(Clone, Copy, Debug)]
struct ErrorWeight {
    theta: f64,
    left: f64,
}

impl ErrorWeight {
    fn new(queue: &LatticeQueue, theta: f64) -> Self {
        Self {
            theta,
            left: queue.growth(theta),
        }
    }

    /// The errors of `law` that the law after a period, `next`, proves it to have at most.
    fn error(self, law: &[f64], next: &[f64]) -> GuessError {
        let factor = self.theta.exp();
        let mut inverse = 1.0;
        let (mut risen, mut fallen) = (NOISE, NOISE);
        for (before, after) in law.iter().zip(next) {
            let change = after - before;
            risen = f64::max(risen, (change + NOISE) * inverse);
            fallen = f64::max(fallen, (NOISE - change) * inverse);
            inverse *= factor;
        }
        let error = |most: f64| {
            let error = most / (1.0 - self.left);
            if error >= 0.0 { error } else { f64::INFINITY }
        };
        GuessError {
            too_high: error(fallen),
            too_low: error(risen),
        }
    }

    /// The bound that `law` is, up to its error.
    fn bound(self, law: &[f64], error: GuessError, side: BracketSide) -> Vec<f64> {
        let factor = (-self.theta).exp();
        let mut error = match side {
            BracketSide::Pessimistic => -error.too_high,
            BracketSide::Optimistic => error.too_low,
        };
        let value = |law: &f64| {
            let value = law + error;
            error *= factor;
            value
        };
        law.iter().map(value).collect()
    }
}

/// The workload as it looks from far, and what of it is one class: workloads that are apart by anything but whole
/// strides meet only where the queue is empty.
struct Blur {
    diffusion: Diffusion,
    /// The largest common divisor of the budget and all sizes.
    stride: usize,
    /// The periods that one step covers: at least one job comes in it, in the mean, and two where that takes many
    /// periods, so that details blur.
    periods: usize,
}

impl Blur {
    fn of(queue: &LatticeQueue) -> Self {
        let sizes = queue.work.sizes.iter().enumerate();
        let occurring = sizes.filter(|(_, weight)| **weight > 0.0);
        let stride = occurring.fold(queue.budget_steps, |divisor, (size, _)| gcd(divisor, size));
        let (size, square) = queue.work.size_moments();
        let of = PeriodMoments {
            budget_steps: queue.budget_steps as f64,
            period_steps: queue.period_steps as f64,
            jobs: queue.work.jobs_per_step * queue.period_steps as f64,
            size,
            square,
        };
        let jobs = if of.jobs < 0.5 { 2.0 } else { 1.0 };
        let periods = (jobs / of.jobs).ceil().max(1.0);
        Self {
            diffusion: Diffusion::new(of, periods, stride as f64),
            stride,
            periods: periods as usize,
        }
    }

    /// The law of the workload.
    fn guess(&self, decay: f64, count: usize) -> Vec<f64> {
        let below = self.diffusion.overshoot * self.stride as f64;
        let value = |z| -(-decay * (z as f64 + below)).exp_m1();
        (0..count).map(value).collect()
    }

    /// The sum over all steps to come of the changes of one.
    fn sum(&self, changes: &[f64]) -> Vec<f64> {
        let mut sums = changes.to_vec();
        for class in 0..self.stride.min(changes.len()) {
            let own: Vec<f64> = changes[class..]
                .iter()
                .step_by(self.stride)
                .copied()
                .collect();
            let later = self
                .diffusion
                .later(class as f64 / self.stride as f64, &own);
            let of_class = sums[class..].iter_mut().step_by(self.stride);
            of_class.zip(later).for_each(|(sum, later)| *sum += later);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::compound::LatticeWork;
    use super::*;
    use crate::Unwatched;

    /// A queue with jobs of one and of `long` strides, and so much load.
    fn queue(
        stride: usize,
        (budget_strides, idle_strides): (usize, usize),
        long: usize,
        load: f64,
    ) -> LatticeQueue {
        let mut sizes = vec![0.0; long * stride + 1];
        sizes[stride] += 0.5;
        sizes[long * stride] += 0.5;
        let mean = stride as f64 * (1.0 + long as f64) / 2.0;
        let (budget, idle) = (budget_strides * stride, idle_strides * stride);
        let bandwidth = budget as f64 / (budget + idle) as f64;
        LatticeQueue {
            work: LatticeWork {
                jobs_per_step: load * bandwidth / mean,
                sizes,
            },
            budget_steps: budget,
            period_steps: budget + idle,
        }
    }

    fn sums(law: &[f64]) -> Vec<f64> {
        let mut sum = 0.0;
        let add = |p: &f64| {
            sum += p;
            sum
        };
        law.iter().map(add).collect()
    }

    /// The distribution function of the workload at replenishments, from one side.
    fn cumulative(queue: &LatticeQueue, passages: &Passages, side: BracketSide) -> Vec<f64> {
        sums(&workload(queue, passages, side, (1e-7, &Unwatched)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Nothing is rounded here, so both sides tend to one law, and a wrong proof would let them cross.
        #[test]
        fn bounds_from_both_sides_meet_and_do_not_cross(
            stride in 1_usize..4, budget in 1_usize..10, idle in 0_usize..8, long in 1_usize..30, load in 0.3..0.9_f64,
        ) {
            let queue = queue(stride, (budget, idle), long, load);
            let passages = Passages::of(&queue);
            let lower = cumulative(&queue, &passages, BracketSide::Pessimistic);
            let upper = cumulative(&queue, &passages, BracketSide::Optimistic);
            for (at, (low, high)) in lower.iter().zip(&upper).enumerate() {
                prop_assert!(low - high < 1e-10, "{} {} {}", at, low, high);
                prop_assert!(high - low < 1e-5, "{} {} {}", at, low, high);
            }
        }

        #[test]
        fn whatever_the_guess_it_proves_bounds(
            budget in 1_usize..10, idle in 0_usize..8, long in 1_usize..10, load in 0.3..0.85_f64,
            rises in prop::collection::vec(0.0..1.0_f64, 40),
        ) {
            let queue = queue(1, (budget, idle), long, load);
            let passages = Passages::of(&queue);
            for (side, sign) in [(BracketSide::Pessimistic, 1.0), (BracketSide::Optimistic, -1.0)] {
                let truth = cumulative(&queue, &passages, side);
                let search = LawSearch::new(&queue, &passages, side, 1e-7);
                let all: f64 = rises.iter().sum();
                let drawn: Vec<f64> = rises.iter().map(|rise| rise / all.max(1e-3)).collect();
                let mut guess = sums(&drawn);
                guess.resize(search.last + 1, 1.0);
                let law = search.law(guess);
                let next = search.sweep.apply(&law, &mut search.sweep.memory());
                let error = search.weight.error(&law[..=search.last], &next);
                let bound = search.weight.bound(&law[..=search.last], error, side);
                for (at, (bound, truth)) in bound.iter().zip(&truth).enumerate() {
                    prop_assert!(sign * (bound - truth) < 2e-7, "{:?} {} {} {}", side, at, bound, truth);
                }
            }
        }
    }

    /// Thousands of periods would be needed until nothing changes; the search needs a few dozen sweeps, of which
    /// everything that is stopped sooner is a bound as well.
    #[test]
    fn a_stopped_search_leaves_a_bound_and_a_patient_one_ends() {
        let queue = queue(1, (6, 4), 3, 0.97);
        let passages = Passages::of(&queue);
        let lower = cumulative(&queue, &passages, BracketSide::Pessimistic);
        let upper = cumulative(&queue, &passages, BracketSide::Optimistic);
        let search = LawSearch::new(&queue, &passages, BracketSide::Pessimistic, 1e-7);
        let stopped = search.bound(1e-7, &ImpatientWatch);
        assert!(lower.iter().zip(&upper).all(|(l, u)| u - l < 1e-6));
        assert!(stopped.iter().zip(&upper).all(|(s, u)| s - u < 1e-9));
        assert!(stopped.iter().zip(&lower).any(|(s, l)| l - s > 1e-3));
    }

    #[derive(Debug)]
    struct ImpatientWatch;

    impl SearchWatch for ImpatientWatch {
        fn is_stopped(&self) -> bool {
            true
        }

        fn hear(&self, _: crate::SearchStage) {}
    }
}
