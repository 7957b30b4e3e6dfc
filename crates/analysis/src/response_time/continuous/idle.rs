//! When a server that is on has nothing left to do.
//!
//! A server that starts a period off for some time, and is on from then on, has nothing left to do x after it went
//! on with the probability
//!
//! ```text
//! p(x) = sum over y of g_y(off + x) (1 - y / (off + x)) Q(x - y),
//! ```
//!
//! since of the arrivals that amount to y a share y / t exceeds the diagonal at some time (the ballot theorem). What
//! becomes of a job depends on p alone: its last idle moment before it comes. Between lattice points p is as smooth
//! as Q and is interpolated like it.

use super::StepQueue;
use super::boundary::StartLaw;
use super::job_sums::JobSums;
use super::quadrature::{Chebyshev, remainder};

/// Numbers of places between two lattice points, tried one after the other.
const PLACES: [usize; 6] = [3, 5, 8, 14, 24, 40];

/// The probability p of being idle, by the time x that the server is on, from 0 up to the budget.
#[derive(Clone, Debug)]
pub(super) struct IdleLaw {
    chebyshev: Chebyshev,
    /// By lattice step, then by place: p there.
    steps: Vec<Vec<f64>>,
    /// The integral of p from 0 to each lattice point.
    sums: Vec<f64>,
    /// About what interpolation makes p wrong by.
    pub(super) error: f64,
}

/// Where in a lattice step an integral ends, as what the places count for.
pub(super) struct StepEnd {
    step: isize,
    weights: Vec<f64>,
}

impl IdleLaw {
    /// The law where the server is off for `off` steps first; interpolated to about `tolerance`.
    pub(super) fn new(queue: &StepQueue, boundary: &StartLaw, off: f64, tolerance: f64) -> Self {
        let mut best: Option<Self> = None;
        for count in PLACES {
            let law = Self::at_places(queue, boundary, off, count, tolerance);
            let enough = law.error <= tolerance;
            if best.as_ref().is_none_or(|best| law.error < best.error) {
                best = Some(law);
            }
            if enough {
                break;
            }
        }
        best.unwrap_or_else(|| Self::at_places(queue, boundary, off, PLACES[0], tolerance))
    }

    fn at_places(
        queue: &StepQueue,
        boundary: &StartLaw,
        off: f64,
        count: usize,
        tolerance: f64,
    ) -> Self {
        let chebyshev = Chebyshev::new(count);
        let rows: Vec<Vec<f64>> = chebyshev
            .points
            .iter()
            .map(|place| idle_at(queue, boundary, off, *place))
            .collect();
        let error = remainder(chebyshev.last_coefficients(&rows), tolerance);
        let steps = (0..queue.budget_steps).map(|x| rows.iter().map(|row| row[x]).collect());
        let mut law = Self {
            chebyshev,
            steps: steps.collect(),
            sums: vec![0.0],
            error,
        };
        let whole = law.chebyshev.weights_up_to(1.0);
        let mut sum = 0.0;
        for step in &law.steps {
            sum += mixed(step, &whole);
            law.sums.push(sum);
        }
        law
    }

    /// The place x, for integrals that end there or whole steps before.
    pub(super) fn end(&self, x: f64) -> StepEnd {
        let step = x.floor();
        StepEnd {
            step: step as isize,
            weights: self.chebyshev.weights_up_to(x - step),
        }
    }

    /// The weight of each place in the value at `rest` in a lattice step.
    pub(super) fn place(&self, rest: f64) -> Vec<f64> {
        let mut basis = Vec::new();
        self.chebyshev.basis(rest, &mut basis);
        basis
    }

    /// p in a lattice step, at a [`place`](IdleLaw::place).
    pub(super) fn at(&self, step: usize, place: &[f64]) -> f64 {
        self.steps
            .get(step)
            .map_or(0.0, |values| mixed(values, place))
    }

    /// The integral, over x up to the budget, of the integral of p from 0 to x.
    pub(super) fn sum_of_integrals(&self) -> f64 {
        let within = self.chebyshev.weights_of_sums();
        let steps = self.steps.iter().zip(&self.sums);
        steps
            .map(|(values, before)| before + mixed(values, &within))
            .sum()
    }

    /// The integral of p from 0 to `steps` before an end.
    pub(super) fn up_to(&self, end: &StepEnd, steps: usize) -> f64 {
        let Ok(step) = usize::try_from(end.step - steps as isize) else {
            return 0.0;
        };
        match self.steps.get(step) {
            Some(values) => self.sums[step] + mixed(values, &end.weights),
            None => self.sums[self.sums.len() - 1],
        }
    }
}

fn mixed(values: &[f64], weights: &[f64]) -> f64 {
    values.iter().zip(weights).map(|(value, w)| value * w).sum()
}

/// p at x + `place` for each lattice point x below the budget, for a server that is off for `off` steps first.
pub(super) fn idle_at(queue: &StepQueue, boundary: &StartLaw, off: f64, place: f64) -> Vec<f64> {
    let (mut arrived, mut waiting, mut mixture) = (Vec::new(), Vec::new(), Vec::new());
    boundary.mixture(place, &mut mixture);
    let stride = queue.stride;
    let idle = |x: usize| {
        let time = off + x as f64 + place;
        let first = queue.work.window_into(time, x / stride, &mut arrived);
        if arrived.is_empty() {
            return 0.0;
        }
        let top = x - first * stride;
        boundary.at_strides_below(top, arrived.len(), &mixture, &mut waiting);
        let slope = if time > 0.0 {
            stride as f64 / time
        } else {
            0.0
        };
        let terms = (first..).zip(arrived.iter().zip(&waiting));
        terms
            .map(|(y, (p, q))| p * (1.0 - y as f64 * slope) * q)
            .sum::<f64>()
            .max(0.0)
    };
    (0..queue.budget_steps).map(idle).collect()
}

/// At the lattice points x that lie whole strides below the budget: the integral of p(x) over how long the server
/// is off first, from not at all up to all but the budget. The entry of x is at x / stride.
pub(super) fn idle_over_offs(queue: &StepQueue, boundary: &StartLaw, sums: &JobSums) -> Vec<f64> {
    let (mut waiting, mut mixture) = (Vec::new(), Vec::new());
    boundary.mixture(0.0, &mut mixture);
    let (stride, budget) = (queue.stride, queue.budget_steps);
    let off = queue.period_steps - budget as f64;
    let over = |x: usize| {
        let integrals = sums.integrals((x as f64, x as f64 + off));
        boundary.at_strides_below(x, x / stride + 1, &mixture, &mut waiting);
        let terms = waiting.iter().enumerate();
        terms
            .map(|(y, q)| q * sums.mixed_without_idling(&integrals, y, stride))
            .sum::<f64>()
            .max(0.0)
    };
    (budget % stride..=budget)
        .step_by(stride)
        .map(over)
        .collect()
}
