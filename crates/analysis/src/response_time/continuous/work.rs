//! The work that arrives in a stretch of time: compound Poisson sums, at any time.

use super::job_sums::poisson_window_into;
use crate::lundberg;

/// What is neglected of a tail.
const NEGLECTED: f64 = 1e-18;
/// Sums are scaled down beyond this, so that they can neither overflow nor vanish.
const LARGE: f64 = 1e250;
/// e to the minus this is far from the least float.
const SMALL: f64 = 500.0;

/// Work that comes as a Poisson process of batches with independent sizes. Sizes are multiples of
/// a stride.
#[derive(Clone, Debug)]
pub(super) struct StrideWork {
    /// Batches per step of time.
    pub rate: f64,
    /// The sizes in strides, each with its probability.
    pub sizes: Vec<(usize, f64)>,
}

impl StrideWork {
    /// The mean size in strides.
    pub(super) fn mean(&self) -> f64 {
        self.sizes.iter().map(|(size, p)| *size as f64 * p).sum()
    }

    /// The mean of e^(theta size), for theta per stride.
    pub(super) fn moment(&self, theta: f64) -> f64 {
        let term = |(size, p): &(usize, f64)| p * (theta * *size as f64).exp();
        self.sizes.iter().map(term).sum()
    }

    /// So many strides that the work of `steps` of time exceeds them with a negligible probability
    /// (Chernoff's bound).
    pub(super) fn reach(&self, steps: f64) -> usize {
        let log = -NEGLECTED.ln();
        let longest = self.sizes.iter().map(|(size, _)| *size).max().unwrap_or(1) as f64;
        let exceeded = |theta: f64| (self.rate * steps * (self.moment(theta) - 1.0) + log) / theta;
        let candidates = (0..48).map(|power| exceeded(0.01 * 1.25_f64.powi(power) / longest));
        let best = candidates.filter(|value| value.is_finite());
        best.fold(1e9, f64::min).ceil() as usize
    }

    /// The probabilities that 0, 1, ... `last` strides of work come in `steps` of time, by Panjer's
    /// recursion.
    pub(super) fn probabilities(&self, steps: f64, last: usize) -> Vec<f64> {
        let mut probabilities = Vec::new();
        self.probabilities_into(steps, last, &mut probabilities);
        probabilities
    }

    /// The same, into a vector that is there already.
    pub(super) fn probabilities_into(&self, steps: f64, last: usize, probabilities: &mut Vec<f64>) {
        let mean = self.rate * steps;
        probabilities.clear();
        if let ([(1, _)], true) = (&self.sizes[..], mean < SMALL) {
            let mut value = (-mean).exp();
            probabilities.push(value);
            probabilities.extend((1..=last).map(|k| {
                value *= mean * inverse(k);
                value
            }));
            return;
        }
        probabilities.resize(last + 1, 0.0);
        probabilities[0] = 1.0;
        let mut log_scale = -mean;
        for k in 1..=last {
            let term = |(size, p): &(usize, f64)| match k.checked_sub(*size) {
                Some(rest) => *size as f64 * p * probabilities[rest],
                None => 0.0,
            };
            let sum: f64 = self.sizes.iter().map(term).sum();
            probabilities[k] = mean / k as f64 * sum;
            if probabilities[k] > LARGE {
                probabilities[..=k]
                    .iter_mut()
                    .for_each(|value| *value /= LARGE);
                log_scale += LARGE.ln();
            }
        }
        let scale = log_scale.exp();
        probabilities.iter_mut().for_each(|value| *value *= scale);
    }

    /// The probabilities of those numbers of strides up to `last` that are not negligible in `steps` of time;
    /// returns the first of these numbers.
    pub(super) fn window_into(&self, steps: f64, last: usize, values: &mut Vec<f64>) -> usize {
        if let [(1, _)] = self.sizes[..] {
            let first = poisson_window_into(self.rate * steps, values);
            values.truncate((last + 1).saturating_sub(first));
            return first;
        }
        self.probabilities_into(steps, last, values);
        let matters = |value: &f64| *value > NEGLECTED;
        let first = values.iter().position(matters).unwrap_or(values.len());
        values.drain(..first);
        first
    }

    /// The largest theta per stride for which work served at `share` strides per step of time
    /// exceeds z with at most e^(-theta z) probability (Lundberg): rate (E e^(theta size) - 1) <=
    /// theta share. Zero if the load is not below the share.
    pub(super) fn decay(&self, share: f64) -> f64 {
        if self.rate * self.mean() >= share {
            return 0.0;
        }
        lundberg::decay(self.rate / share, |theta| self.moment(theta), (1e-6, 1e3))
    }
}

/// Reciprocals, since dividing takes longer than multiplying.
const INVERSES: [f64; 64] = {
    let mut inverses = [0.0; 64];
    let mut k = 1;
    while k < inverses.len() {
        inverses[k] = 1.0 / k as f64;
        k += 1;
    }
    inverses
};

/// 1 / k.
fn inverse(k: usize) -> f64 {
    match INVERSES.get(k) {
        Some(inverse) => *inverse,
        None => 1.0 / k as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_size_is_a_poisson_law() {
        let work = StrideWork {
            rate: 0.4,
            sizes: vec![(1, 1.0)],
        };
        let all = work.probabilities(5.0, 40);
        let mut poisson = (-2.0_f64).exp();
        for (k, value) in all.iter().enumerate() {
            assert!((value / poisson - 1.0).abs() < 1e-12, "{k}");
            poisson *= 2.0 / (k + 1) as f64;
        }
        let sum: f64 = all.iter().sum();
        assert!((sum - 1.0).abs() < 1e-14);
    }

    #[test]
    fn long_times_neither_overflow_nor_vanish() {
        let work = StrideWork {
            rate: 2.0,
            sizes: vec![(1, 0.5), (3, 0.5)],
        };
        let reach = work.reach(2_000.0);
        let all = work.probabilities(2_000.0, reach);
        let sum: f64 = all.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let mean: f64 = all.iter().enumerate().map(|(k, p)| k as f64 * p).sum();
        assert!((mean / 8_000.0 - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn the_decay_solves_lundberg_s_equation() {
        let work = StrideWork {
            rate: 0.4,
            sizes: vec![(1, 1.0)],
        };
        let theta = work.decay(0.6);
        let both = (0.4 * (theta.exp() - 1.0), 0.6 * theta);
        assert!((both.0 - both.1).abs() < 1e-9 && theta > 0.5);
        assert_eq!(work.decay(0.4), 0.0);
    }
}
