//! The workload at period starts as it looks from far: a Brownian motion with drift, absorbed a little below zero.
//!
//! The motion proves nothing. Under heavy load, one step of it changes the law about as much as thousands of periods do, so
//! that a search for the law that takes such steps needs a few dozen of them.

/// The moments of what a period brings and takes, in steps of a lattice.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodMoments {
    pub budget_steps: f64,
    pub period_steps: f64,
    /// The mean number of jobs in a period, or of batches.
    pub jobs: f64,
    /// The mean of their sizes.
    pub size: f64,
    /// The mean of the squares of the sizes.
    pub square: f64,
}

/// The motion over some periods, in strides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diffusion {
    /// By how much a large workload falls, in the mean.
    drift: f64,
    /// Half the variance of what comes.
    half_variance: f64,
    /// How far below zero the motion ends.
    pub(super) overshoot: f64,
}

impl Diffusion {
    /// The motion over so many `periods`, in strides of so many steps.
    pub(super) fn new(of: PeriodMoments, periods: f64, stride: f64) -> Self {
        /// The mean overshoot of a random walk of normal steps (Siegmund 1985), in standard deviations.
        const OVERSHOOT: f64 = 0.582_6;
        let variance = of.jobs * of.square;
        let idle = (1.0 - of.budget_steps / of.period_steps).max(0.0);
        let overshoot = OVERSHOOT * (variance * idle).sqrt() + 0.5 * of.square / of.size;
        Self {
            drift: periods * (of.budget_steps - of.jobs * of.size) / stride,
            half_variance: periods * 0.5 * variance / (stride * stride),
            overshoot: overshoot.max(1.0) / stride,
        }
    }

    /// The sum over all times to come of changes at the workloads `first`, `first` + 1, ... strides: f with
    /// -drift f' - half_variance f'' = change, in differences. Beyond the last of them nothing changes.
    pub(super) fn later(self, first: f64, changes: &[f64]) -> Vec<f64> {
        let (below, above) = (-self.half_variance, -self.half_variance - self.drift);
        let diagonal = self.drift + 2.0 * self.half_variance;
        // Elimination from below: f(z) = slope(z) f(z + 1) + offset(z).
        let mut slope = (1.0 - 1.0 / (first + self.overshoot)).max(0.0);
        let mut offset = 0.0;
        let mut rows = Vec::with_capacity(changes.len());
        for change in changes {
            let pivot = diagonal + below * slope;
            offset = (change - below * offset) / pivot;
            slope = -above / pivot;
            rows.push((slope, offset));
        }
        let mut next = 0.0;
        let mut later = vec![0.0; changes.len()];
        for (value, (slope, offset)) in later.iter_mut().zip(rows).rev() {
            next = slope * next + offset;
            *value = next;
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_changes_solves_the_equation_of_the_motion() {
        let moments = PeriodMoments {
            budget_steps: 12.0,
            period_steps: 20.0,
            jobs: 2.0,
            size: 5.5,
            square: 36.0,
        };
        let diffusion = Diffusion::new(moments, 2.0, 3.0);
        let changes: Vec<f64> = (0..40_i32).map(|z| (-0.2 * f64::from(z)).exp()).collect();
        let later = diffusion.later(0.5, &changes);
        assert_eq!(later.len(), changes.len());
        let (drift, half) = (2.0 / 3.0, 2.0 * 36.0 / 9.0);
        for (z, change) in changes.iter().enumerate().skip(1) {
            let above = later.get(z + 1).copied().unwrap_or(0.0);
            let (here, below) = (later[z], later[z - 1]);
            let left = drift * (here - above) - half * (above - 2.0 * here + below);
            assert!((left - change).abs() < 1e-9, "{z}: {left} {change}");
        }
    }
}
