//! The work that arrives in a time: compound Poisson sums on the lattice.

use crate::lundberg;
use tailbound_fourier::{Complex, Transform, turned};

/// What is neglected of a tail: far below the guard that the results are rounded by.
const NEGLECTED_LOG: f64 = 32.0;

/// The weight of what wraps around in a damped transform: with what it takes to undo the damping of two fifths,
/// the noise of floating point stays below the guard, too.
const WRAPPED: f64 = 1e-13;

/// Weights that fall geometrically, for the first values of sums that reach further than a transform: what wraps around
/// counts for next to nothing then.
#[derive(Clone, Copy, Debug)]
struct Damping {
    log_factor: f64,
}

impl Damping {
    const NONE: Self = Self { log_factor: 0.0 };

    /// The damping of what lies so many values further.
    fn below(size: usize) -> Self {
        Self {
            log_factor: WRAPPED.ln() / size as f64,
        }
    }

    /// The first values of a sequence, damped. No later one has a part in the first values of sums.
    fn damped(self, values: &[f64], count: usize) -> Vec<f64> {
        let count = match self.log_factor == 0.0 {
            true => values.len(),
            false => count,
        };
        let damped = |(k, value): (usize, &f64)| value * (self.log_factor * k as f64).exp();
        values.iter().take(count).enumerate().map(damped).collect()
    }

    /// The factors that undo the damping.
    fn restoring(self, count: usize) -> Vec<f64> {
        let factor = |k| (-self.log_factor * k as f64).exp();
        (0..count).map(factor).collect()
    }
}

/// Work that arrives as a Poisson process of jobs with independent sizes, in lattice steps.
#[derive(Clone, Debug)]
pub(super) struct LatticeWork {
    /// Mean number of jobs per step of time.
    pub jobs_per_step: f64,
    /// The probability of each size in steps.
    pub sizes: Vec<f64>,
}

impl LatticeWork {
    /// Mean work per step of time.
    pub(super) fn load(&self) -> f64 {
        self.jobs_per_step * self.mean_size()
    }

    fn mean_size(&self) -> f64 {
        self.sizes
            .iter()
            .enumerate()
            .map(|(k, w)| k as f64 * w)
            .sum()
    }

    /// The mean of the sizes, and of their squares.
    pub(super) fn size_moments(&self) -> (f64, f64) {
        let square = |(k, w): (usize, &f64)| (k * k) as f64 * w;
        let squares = self.sizes.iter().enumerate().map(square);
        (self.mean_size(), squares.sum())
    }

    /// The mean of e^(theta size).
    pub(super) fn moment(&self, theta: f64) -> f64 {
        // Horner's rule: one multiplication per size.
        let factor = theta.exp();
        self.sizes.iter().rev().fold(0.0, |sum, w| sum * factor + w)
    }

    /// A size that the work of `steps` exceeds with less than e^-32 probability (Chernoff).
    pub(super) fn reach(&self, steps: usize) -> usize {
        let rate = self.jobs_per_step * steps as f64;
        let longest = self.sizes.len() as f64;
        let exceeded = |theta: f64| (rate * (self.moment(theta) - 1.0) + NEGLECTED_LOG) / theta;
        let candidates =
            (0..60).map(|power| exceeded(0.001 * 1.25_f64.powi(power) / longest * 10.0));
        let best = candidates
            .filter(|v| v.is_finite())
            .fold(f64::INFINITY, f64::min);
        best.ceil().min(1e9) as usize
    }

    /// The largest theta with jobs_per_step (E e^(theta size) - 1) <= theta share: work served at
    /// the constant rate `share` exceeds z with at most e^(-theta z) probability (Lundberg).
    /// Zero if the load is not below the share.
    pub(super) fn decay(&self, share: f64) -> f64 {
        if self.load() >= share {
            return 0.0;
        }
        let jobs = self.jobs_per_step / share;
        lundberg::decay(jobs, |theta| self.moment(theta), (1.0, 512.0))
    }

    /// The transform of the work of so many steps.
    pub(super) fn spectrum(&self, transform: &Transform, steps: usize) -> Vec<Complex> {
        let jobs = self.jobs_per_step * steps as f64;
        let exponent = |value: &Complex| (*value - 1.0).scale(jobs).exp();
        transform
            .forward(&self.sizes)
            .iter()
            .map(exponent)
            .collect()
    }

    /// For t = 0 to `last` the first `length(t)` probabilities of the work of t steps plus a
    /// size of law `extra`.
    pub(super) fn rows(
        &self,
        last: usize,
        extra: &[f64],
        length: impl Fn(usize) -> usize,
    ) -> Vec<Vec<f64>> {
        let longest = (0..=last).map(&length).max().unwrap_or(0);
        let whole = (self.reach(last) + extra.len()).max(longest) + 1;
        let transform = Transform::holding(whole.min(5 * longest / 2));
        let damping = match transform.size() < whole {
            true => Damping::below(transform.size()),
            false => Damping::NONE,
        };
        let damped = Self {
            jobs_per_step: self.jobs_per_step,
            sizes: damping.damped(&self.sizes, longest),
        };
        let step = damped.spectrum(&transform, 1);
        let mut spectrum = transform.forward(&damping.damped(extra, longest));
        let restored = damping.restoring(longest);
        let mut rows = Vec::with_capacity(last + 1);
        let mut scratch = transform.scratch();
        let mut both = Vec::with_capacity(spectrum.len());
        while rows.len() <= last {
            // Two rows at a time: the later one in the imaginary part.
            both.clear();
            both.extend(spectrum.iter_mut().zip(&step).map(|(a, b)| {
                let (earlier, later) = (*a, *a * *b);
                *a = later * *b;
                earlier + turned(later)
            }));
            transform.inverse(&mut both, &mut scratch);
            let row = |part: fn(&Complex) -> f64, t: usize| {
                let values = both.iter().map(part).zip(&restored);
                values
                    .take(length(t))
                    .map(|(v, r)| v * r)
                    .collect::<Vec<_>>()
            };
            let t = rows.len();
            rows.push(row(|value| value.re, t));
            rows.push(row(|value| value.im, t + 1));
        }
        rows.truncate(last + 1);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long jobs, of which few values of the sums are asked: the transform is far shorter than what could come.
    #[test]
    fn the_first_values_of_long_sums_are_those_of_a_transform_that_holds_them_whole() {
        let mut sizes = vec![0.0; 400];
        (sizes[3], sizes[20], sizes[399]) = (0.5, 0.3, 0.2);
        let work = LatticeWork {
            jobs_per_step: 0.05,
            sizes,
        };
        let extra = [0.0, 0.25, 0.75];
        let whole = work.rows(200, &extra, |_| 3_000);
        let first = work.rows(200, &extra, |t| t.min(60) + 1);
        for (t, (whole, first)) in whole.iter().zip(&first).enumerate() {
            assert_eq!(first.len(), t.min(60) + 1);
            for (i, (whole, first)) in whole.iter().zip(first).enumerate() {
                assert!((whole - first).abs() < 1e-11, "{t} {i} {whole} {first}");
            }
        }
        assert!(whole[200][..61].iter().sum::<f64>() < 0.5);
    }
}
