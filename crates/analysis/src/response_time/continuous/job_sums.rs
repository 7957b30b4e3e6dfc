//! The work of so many jobs, and with it integrals over time of the probabilities of work.
//!
//! The probability g_k(t) of k strides of work in t is a mixture over the number n of batches, whose weights do not
//! depend on time: the sum over n of Po(n; rate t) f_n(k), with f_n the law of the work of n batches. So integrals
//! over time are those of Poisson's terms, which are differences of Poisson's distribution function.

use super::work::StrideWork;

/// Weights, and probabilities, below this are neglected.
const NEGLECTED: f64 = 1e-18;

/// The laws f_n of the work of 0, 1, 2, ... batches, by amount.
#[derive(Clone, Debug)]
pub(super) struct JobSums {
    /// Batches per step of time.
    rate: f64,
    /// ln n!
    log_factorials: Vec<f64>,
    /// For each amount in strides the numbers n of batches that may bring it, with f_n of it.
    by_amount: Vec<Vec<(usize, f64)>>,
}

/// For each number n of batches an integral over a range of time of the Poisson probability of n.
pub(super) struct PoissonIntegrals {
    first: usize,
    values: Vec<f64>,
}

impl PoissonIntegrals {
    fn of(&self, n: usize) -> f64 {
        let index = n.checked_sub(self.first);
        let answer = index.and_then(|index| self.values.get(index));
        answer.copied().unwrap_or(0.0)
    }
}

impl JobSums {
    /// The laws of up to `last` strides, as far as they come in `steps` of time.
    pub(super) fn of(work: &StrideWork, last: usize, steps: f64) -> Self {
        let most = poisson_reach(work.rate * steps);
        let mut by_amount = vec![Vec::new(); last + 1];
        // The law of n batches from the amount `low` on.
        let (mut low, mut law) = (0, vec![1.0]);
        for n in 0..=most {
            for (amount, p) in (low..=last).zip(&law) {
                if *p > NEGLECTED {
                    by_amount[amount].push((n, *p));
                }
            }
            (low, law) = one_more(work, low, &law, last);
            if law.is_empty() {
                break;
            }
        }
        let mut sum = 0.0;
        let log_factorials = (0..=most + 1).map(|n| {
            sum += (n.max(1) as f64).ln();
            sum
        });
        Self {
            rate: work.rate,
            log_factorials: log_factorials.collect(),
            by_amount,
        }
    }

    /// The probability that exactly `strides` come in `steps` of time.
    pub(super) fn probability(&self, steps: f64, strides: usize) -> f64 {
        let Some(counts) = self.by_amount.get(strides) else {
            return 0.0;
        };
        let mean = self.rate * steps;
        counts.iter().map(|(n, p)| p * self.poisson(mean, *n)).sum()
    }

    /// The integral over time, between two times, of the probability of exactly `strides`.
    pub(super) fn integral(&self, (from, to): (f64, f64), strides: usize) -> f64 {
        let Some(counts) = self.by_amount.get(strides) else {
            return 0.0;
        };
        let at_most = |steps: f64, n: usize| self.at_most(self.rate * steps, n);
        let terms = counts
            .iter()
            .map(|(n, p)| p * (at_most(from, *n) - at_most(to, *n)).max(0.0));
        terms.sum::<f64>() / self.rate
    }

    /// What [`JobSums::mixed`] and [`JobSums::mixed_without_idling`] mix between two times.
    pub(super) fn integrals(&self, (from, to): (f64, f64)) -> PoissonIntegrals {
        let window = |steps: f64| poisson_window(self.rate * steps);
        let ((first, early), (late_first, late)) = (window(from), window(to));
        let last = late_first + late.len();
        let (mut by, mut by_late) = (0.0, 0.0);
        let values = (first..last.max(first + early.len())).map(|n| {
            by += early.get(n - first).copied().unwrap_or(0.0);
            let index = n.checked_sub(late_first);
            by_late += index.and_then(|index| late.get(index)).unwrap_or(&0.0);
            (by - by_late).max(0.0) / self.rate
        });
        PoissonIntegrals {
            first,
            values: values.collect(),
        }
    }

    /// The integral of the probability of exactly `strides`.
    pub(super) fn mixed(&self, integrals: &PoissonIntegrals, strides: usize) -> f64 {
        let counts = self.by_amount.get(strides).into_iter().flatten();
        counts.map(|(n, p)| p * integrals.of(*n)).sum()
    }

    /// The integral of t times the probability of exactly `strides` in t: t Po(n; rate t) is (n + 1) / rate
    /// Po(n + 1; rate t).
    pub(super) fn mixed_with_time(&self, integrals: &PoissonIntegrals, strides: usize) -> f64 {
        let counts = self.by_amount.get(strides).into_iter().flatten();
        let terms = counts.map(|(n, p)| p * (n + 1) as f64 * integrals.of(n + 1));
        terms.sum::<f64>() / self.rate
    }

    /// The integral of the probability of exactly `strides` in t, times 1 less `strides` / t, with `stride` steps
    /// each: Po(n; rate t) / t is rate / n Po(n - 1; rate t).
    pub(super) fn mixed_without_idling(
        &self,
        integrals: &PoissonIntegrals,
        strides: usize,
        stride: usize,
    ) -> f64 {
        let length = (strides * stride) as f64;
        let counts = self.by_amount.get(strides).into_iter().flatten();
        counts
            .map(|(n, p)| match n.checked_sub(1) {
                None => p * integrals.of(0),
                Some(less) => {
                    let share = length * self.rate / *n as f64;
                    p * (integrals.of(*n) - share * integrals.of(less))
                }
            })
            .sum()
    }

    fn poisson(&self, mean: f64, n: usize) -> f64 {
        if mean <= 0.0 {
            return if n == 0 { 1.0 } else { 0.0 };
        }
        (n as f64 * mean.ln() - mean - self.log_factorials[n]).exp()
    }

    /// Poisson's distribution function: from the term of n towards the tail that n is in.
    fn at_most(&self, mean: f64, n: usize) -> f64 {
        let mut term = self.poisson(mean, n);
        let mut sum = 0.0;
        if (n as f64) < mean {
            for k in (0..=n).rev() {
                sum += term;
                term *= k as f64 / mean;
                if term < NEGLECTED {
                    break;
                }
            }
            return sum.min(1.0);
        }
        let mut k = n;
        loop {
            k += 1;
            term *= mean / k as f64;
            sum += term;
            if term < NEGLECTED {
                return (1.0 - sum).max(0.0);
            }
        }
    }
}

/// The law of one batch more, as far as it matters up to `last`.
fn one_more(work: &StrideWork, low: usize, law: &[f64], last: usize) -> (usize, Vec<f64>) {
    let sizes = work.sizes.iter().map(|(size, _)| *size);
    let least = sizes.clone().min().unwrap_or(1);
    let longest = sizes.max().unwrap_or(1);
    let begin = low + least;
    let end = (low + law.len() + longest).min(last + 1);
    let mut next = vec![0.0; end.saturating_sub(begin)];
    for (size, p) in &work.sizes {
        let skipped = size - least;
        let target = next.iter_mut().skip(skipped);
        target.zip(law).for_each(|(sum, value)| *sum += p * value);
    }
    let matters = |value: &f64| *value > NEGLECTED;
    let skipped = next.iter().position(matters).unwrap_or(next.len());
    let kept = next.iter().rposition(matters).map_or(skipped, |at| at + 1);
    (begin + skipped, next[skipped..kept].to_vec())
}

/// More events than this have a negligible probability where `mean` are expected.
fn poisson_reach(mean: f64) -> usize {
    let (first, window) = poisson_window(mean);
    first + window.len()
}

/// Poisson's probabilities that are not negligible, from the least number on: from the mode outward, and so that
/// they sum up to one.
fn poisson_window(mean: f64) -> (usize, Vec<f64>) {
    let mut window = Vec::new();
    let first = poisson_window_into(mean, &mut window);
    (first, window)
}

/// The window of [`poisson_window`] in memory that is there, and its first number.
pub(super) fn poisson_window_into(mean: f64, window: &mut Vec<f64>) -> usize {
    let mode = mean.floor().max(0.0) as usize;
    window.clear();
    // Probabilities that are not negligible lie within about nine standard deviations of the mean.
    let side = 9.0 * mean.sqrt() + 40.0;
    window.reserve(2 * side as usize);
    let (mut value, per_event) = (1.0, 1.0 / mean);
    for k in (1..=mode).rev() {
        value *= k as f64 * per_event;
        if value < NEGLECTED {
            break;
        }
        window.push(value);
    }
    let first = mode - window.len();
    window.reverse();
    value = 1.0;
    let mut k = mode;
    while value >= NEGLECTED {
        window.push(value);
        k += 1;
        value *= mean / k as f64;
    }
    let sum: f64 = window.iter().sum();
    window.iter_mut().for_each(|value| *value /= sum);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works() -> [StrideWork; 2] {
        [
            (0.4, vec![(1, 1.0)]),
            (0.7, vec![(2, 0.5), (3, 0.3), (7, 0.2)]),
        ]
        .map(|(rate, sizes)| StrideWork { rate, sizes })
    }

    #[test]
    fn the_mixture_over_batches_is_the_compound_law() {
        for work in works() {
            let sums = JobSums::of(&work, 60, 30.0);
            for steps in [0.0, 0.3, 9.0, 30.0] {
                for (k, value) in work.probabilities(steps, 60).iter().enumerate() {
                    let answer = sums.probability(steps, k);
                    assert!(
                        (answer - value).abs() < 1e-14,
                        "{steps} {k}: {answer} {value}"
                    );
                }
            }
        }
    }

    /// By the midpoints of many short pieces.
    fn integrated((from, to): (f64, f64), f: impl Fn(f64) -> f64) -> f64 {
        let pieces = 20_000;
        let length = (to - from) / f64::from(pieces);
        let values = (0..pieces).map(|at| f(from + (f64::from(at) + 0.5) * length));
        values.sum::<f64>() * length
    }

    #[test]
    fn integrals_are_those_of_the_probabilities() {
        for work in works() {
            let sums = JobSums::of(&work, 40, 20.0);
            for between in [(0.0, 20.0), (2.5, 3.0), (7.0, 19.0)] {
                let integrals = sums.integrals(between);
                for k in [0, 1, 4, 9, 25] {
                    let answer = [
                        sums.integral(between, k),
                        sums.mixed(&integrals, k),
                        sums.mixed_without_idling(&integrals, k, 2),
                    ];
                    let slowly = integrated(between, |t| sums.probability(t, k));
                    let timed = integrated(between, |t| t * sums.probability(t, k));
                    let timed_answer = sums.mixed_with_time(&integrals, k);
                    assert!(
                        (timed_answer - timed).abs() < 1e-5,
                        "{between:?} {k}: {timed_answer} {timed}"
                    );
                    let idling = integrated(between, |t| {
                        sums.probability(t, k) * (1.0 - (2 * k) as f64 / t)
                    });
                    for (answer, slowly) in answer.iter().zip([slowly, slowly, idling]) {
                        assert!(
                            (answer - slowly).abs() < 1e-6,
                            "{between:?} {k}: {answer} {slowly}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn windows_sum_up_to_one_and_hold_the_mean() {
        for mean in [0.0, 0.01, 3.0, 700.0, 20_000.0] {
            let (first, window) = poisson_window(mean);
            let answer: f64 = (first..).zip(&window).map(|(k, p)| k as f64 * p).sum();
            assert!((answer - mean).abs() <= 1e-12 * mean, "{mean}: {answer}");
        }
    }
}
