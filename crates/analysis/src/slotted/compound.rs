//! The work that Poisson arrivals bring in a time, in whole grains: compound Poisson laws.

use crate::lundberg;

/// What is neglected of a tail is below e to the minus this.
const NEGLECTED_LOG: f64 = 38.0;
/// Probabilities below this are left out.
pub(super) const NEGLIGIBLE: f64 = 1e-20;
/// The most jobs expected at once, for which e to the minus that is still a number.
pub(super) const MOST_JOBS: f64 = 600.0;

/// Work that arrives as a Poisson process of batches, with independent sizes in grains.
#[derive(Clone, Debug)]
pub(super) struct GrainWork {
    /// Batches per second.
    pub per_second: f64,
    /// The probability of each size, from 0 grains on.
    pub sizes: Vec<f64>,
}

/// A law on the lattice.
#[derive(Clone, Debug)]
pub(super) struct LatticeLaw {
    dense: Vec<f64>,
    /// The places that carry more than nothing, and what.
    sparse: Vec<(usize, f64)>,
}

impl LatticeLaw {
    pub(super) fn new(dense: Vec<f64>) -> Self {
        debug_assert!(
            dense.iter().sum::<f64>() < 1.0 + 1e-6,
            "a law weighs one at most"
        );
        let kept = |(at, p): (usize, &f64)| (*p > NEGLIGIBLE).then_some((at, *p));
        let sparse = dense.iter().enumerate().filter_map(kept).collect();
        Self { dense, sparse }
    }

    pub(super) fn at(&self, place: usize) -> f64 {
        self.dense.get(place).copied().unwrap_or(0.0)
    }

    pub(super) fn terms(&self) -> &[(usize, f64)] {
        &self.sparse
    }

    /// Adds to `sums` the law of this variable plus one of law `other`, as far as `sums` reaches.
    pub(super) fn convolve_into(&self, other: &[f64], sums: &mut [f64]) {
        let reach = sums.len();
        for (shift, weight) in self.sparse.iter().filter(|(shift, _)| *shift < reach) {
            for (sum, value) in sums[*shift..].iter_mut().zip(other) {
                *sum += weight * value;
            }
        }
    }
}

impl GrainWork {
    /// The mean size in grains.
    pub(super) fn mean_size(&self) -> f64 {
        let weighted = |(size, weight): (usize, &f64)| size as f64 * weight;
        self.sizes.iter().enumerate().map(weighted).sum()
    }

    /// The mean of e^(theta size).
    fn moment(&self, theta: f64) -> f64 {
        let factor = theta.exp();
        self.sizes.iter().rev().fold(0.0, |sum, w| sum * factor + w)
    }

    /// The law of the work of `seconds` (Panjer's recursion, all of whose terms are positive, so
    /// that nothing cancels). What is left out weighs less than 10^-16.
    pub(super) fn law(&self, seconds: f64) -> LatticeLaw {
        let jobs = self.per_second * seconds;
        let length = self.reach(jobs);
        let sizes: Vec<(usize, f64)> = self
            .sizes
            .iter()
            .enumerate()
            .filter(|(size, weight)| *size > 0 && **weight > 0.0)
            .map(|(size, weight)| (size, size as f64 * weight))
            .collect();
        let none = self.sizes.first().copied().unwrap_or(0.0);
        let mut law = vec![0.0; length + 1];
        law[0] = (-jobs * (1.0 - none)).exp();
        for total in 1..=length {
            let within = sizes.iter().take_while(|(size, _)| *size <= total);
            let sum: f64 = within
                .map(|(size, weight)| weight * law[total - size])
                .sum();
            law[total] = jobs / total as f64 * sum;
        }
        LatticeLaw::new(law)
    }

    /// A total that so many expected jobs exceed with less than e^-38 probability (Chernoff).
    fn reach(&self, jobs: f64) -> usize {
        let longest = self.sizes.len().max(2) as f64;
        let exceeded = |theta: f64| (jobs * (self.moment(theta) - 1.0) + NEGLECTED_LOG) / theta;
        (0..60)
            .map(|power| exceeded(0.01 * 1.25_f64.powi(power) / longest))
            .filter(|total| total.is_finite())
            .fold(1e6, f64::min)
            .ceil() as usize
    }

    /// The rate, per grain served, at which busy periods of a processor die out that takes
    /// `seconds_per_grain`: the largest theta - rate (E e^(theta size) - 1).
    pub(super) fn relaxation(&self, seconds_per_grain: f64) -> f64 {
        let jobs = self.per_second * seconds_per_grain;
        let end = self.decay(seconds_per_grain);
        let slack = |theta: f64| theta - jobs * (self.moment(theta) - 1.0);
        (1..64)
            .map(|part| slack(end * f64::from(part) / 64.0))
            .fold(0.0, f64::max)
    }

    /// The largest theta, per grain, that was found with
    /// rate (E e^(theta size) - 1) <= theta / `seconds_per_grain`: of work served at the constant
    /// rate of one grain in that time more than z waits with at most e^(-theta z) probability
    /// (Lundberg). Zero if the work outgrows that rate.
    pub(super) fn decay(&self, seconds_per_grain: f64) -> f64 {
        let jobs = self.per_second * seconds_per_grain;
        if jobs * self.mean_size() >= 1.0 {
            return 0.0;
        }
        let first = 1.0 / self.sizes.len().max(1) as f64;
        lundberg::decay(jobs, |theta| self.moment(theta), (first, 64.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson(mean: f64, count: u32) -> f64 {
        (1..=count).fold((-mean).exp(), |p, k| p * mean / f64::from(k))
    }

    #[test]
    fn constant_sizes_yield_the_poisson_law() {
        let work = GrainWork {
            per_second: 3.0,
            sizes: vec![0.0, 0.0, 1.0],
        };
        let law = work.law(0.5);
        for count in 0..12 {
            assert!((law.at(2 * count) - poisson(1.5, count as u32)).abs() < 1e-15);
            assert!(law.at(2 * count + 1).abs() < 1e-300);
        }
        let sum: f64 = law.terms().iter().map(|(_, p)| p).sum();
        assert!((sum - 1.0).abs() < 1e-14);
    }

    #[test]
    fn laws_of_consecutive_times_convolve() {
        let work = GrainWork {
            per_second: 2.0,
            sizes: vec![0.1, 0.4, 0.0, 0.5],
        };
        let (one, two, both) = (work.law(0.3), work.law(0.9), work.law(1.2));
        let mut sums = vec![0.0; 40];
        one.convolve_into(&two.dense, &mut sums);
        for (at, sum) in sums.iter().enumerate() {
            assert!((sum - both.at(at)).abs() < 1e-15);
        }
    }

    #[test]
    fn the_decay_solves_lundbergs_equation() {
        let work = GrainWork {
            per_second: 0.5,
            sizes: vec![0.0, 1.0],
        };
        let theta = work.decay(1.0);
        assert!((0.5 * (theta.exp() - 1.0) - theta).abs() < 1e-9 && theta > 1.0);
        assert!(work.decay(2.1) <= 0.0);
    }
}
