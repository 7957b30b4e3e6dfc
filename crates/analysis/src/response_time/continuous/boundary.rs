//! The workload at period starts, between the points of the lattice too.

use super::StepQueue;
use super::equation::Equation;
use super::norm::Norm;
use super::quadrature::{Chebyshev, remainder};
use crate::AnalysisError;

/// Numbers of places between two lattice points, tried one after the other.
const PLACES: [usize; 6] = [3, 5, 8, 14, 24, 40];
/// Strides of at least so many steps make a lattice so fine that few places do.
const FINE: usize = 24;
/// So does a tolerance like this.
const LAX: f64 = 1e-6;

/// The law of the workload at period starts: for each of some places between lattice points the
/// probabilities 1 - Q(x + place) that it is above x + place, x = 0, 1, ... These, and not Q, since
/// small ones are wanted to as many digits as large ones.
#[derive(Clone, Debug)]
pub(super) struct StartLaw {
    chebyshev: Chebyshev,
    stride: usize,
    /// By place, then by x modulo the stride, then by x.
    above: Vec<Vec<f64>>,
    /// For each class of lattice points modulo the stride, how much Q jumps there at most, beyond what
    /// may be interpolation's.
    pub jumps: Vec<f64>,
    /// What any value may be wrong by.
    pub error: f64,
    /// The workload is above x with at most e^(-lundberg x).
    pub lundberg: f64,
}

impl StartLaw {
    /// Solves Q = T Q (see the parent module) at as many places as it takes for interpolation to be
    /// wrong by `tolerance` at most.
    pub(super) fn solve(queue: &StepQueue, tolerance: f64) -> Result<Self, AnalysisError> {
        let norm = Norm::of(queue, tolerance)?;
        let mut best: Option<Self> = None;
        let first = usize::from(queue.stride < FINE && tolerance < LAX);
        for count in &PLACES[first..] {
            let chebyshev = Chebyshev::new(*count);
            let mut error = 0.0_f64;
            let mut above: Vec<Vec<f64>> = Vec::with_capacity(*count);
            for place in &chebyshev.points {
                // The solution at the place before is a good one to start from.
                let start = above.last().map(Vec::as_slice);
                let (values, wrong) =
                    Equation::new(queue, &norm, *place).solve(tolerance, start)?;
                error = error.max(wrong);
                above.push(values);
            }
            let remainder = remainder(chebyshev.last_coefficients(&above), tolerance);
            let boundary = Self {
                chebyshev,
                stride: queue.stride,
                above,
                jumps: Vec::new(),
                error: error + remainder,
                lundberg: norm.lundberg,
            };
            if best
                .as_ref()
                .is_none_or(|before| boundary.error < before.error)
            {
                best = Some(boundary);
            }
            if remainder < tolerance {
                break;
            }
        }
        let mut best = best.ok_or_else(|| AnalysisError::Invalid {
            what: "the workload at period starts was not found".into(),
        })?;
        best.jumps = best.jumps_by_class();
        Ok(best)
    }

    fn jumps_by_class(&self) -> Vec<f64> {
        let mut ends = [Vec::new(), Vec::new()];
        for (at, mixture) in [0.0, 1.0].into_iter().zip(&mut ends) {
            self.chebyshev.basis(at, mixture);
        }
        let mut jumps = vec![0.0; self.stride];
        // At the start of a class, less at the end of the one below it.
        for (class, jump) in jumps.iter_mut().enumerate() {
            let (below, skipped) = match class {
                0 => (self.stride - 1, 1),
                _ => (class - 1, 0),
            };
            let upper = self.row_values(class, &ends[0]).skip(skipped);
            let lower = self.row_values(below, &ends[1]);
            let largest = upper
                .zip(lower)
                .map(|(upper, lower)| (upper - lower).abs())
                .fold(0.0, f64::max);
            *jump = (largest - self.error).max(0.0);
        }
        jumps
    }

    /// What is above the places of a class, rising.
    fn row_values<'a>(
        &'a self,
        class: usize,
        mixture: &'a [f64],
    ) -> impl Iterator<Item = f64> + 'a {
        let rows = self.above.first().map_or(0, Vec::len) / self.stride;
        (class * rows..(class + 1) * rows).map(move |index| {
            let pairs = self.above.iter().zip(mixture);
            pairs.map(|(place, share)| share * place[index]).sum()
        })
    }

    /// The mean workload, and what it may be wrong by.
    pub(super) fn mean(&self) -> (f64, f64) {
        let weights = self.chebyshev.weights_up_to(1.0);
        let places = self.above.iter().zip(&weights);
        let mean = places.map(|(place, weight)| weight * place.iter().sum::<f64>());
        let states = self.above.first().map_or(0, Vec::len) as f64;
        let beyond = (-self.lundberg * states).exp() / self.lundberg;
        (mean.sum(), self.error * states + beyond)
    }

    /// What the values at `place` are mixed of.
    pub(super) fn mixture(&self, place: f64, mixture: &mut Vec<f64>) {
        self.chebyshev.basis(place, mixture);
    }

    /// Q at x, x less a stride, x less two strides and so on, `count` of them, each with the place
    /// of `mixture` added. x is at least `count - 1` strides.
    pub(super) fn at_strides_below(
        &self,
        x: usize,
        count: usize,
        mixture: &[f64],
        values: &mut Vec<f64>,
    ) {
        let (class, top) = (x % self.stride, x / self.stride);
        let rows = self.above.first().map_or(0, Vec::len) / self.stride;
        values.clear();
        values.resize(count, 1.0);
        // Beyond the last row nothing is above.
        let beyond = (top + 1).saturating_sub(rows).min(count);
        let last = (top + 1).min(rows);
        for (place, share) in self.above.iter().zip(mixture) {
            let column = &place[class * rows..class * rows + last];
            let pairs = values[beyond..].iter_mut().zip(column.iter().rev());
            pairs.for_each(|(value, above)| *value -= share * above);
        }
    }
}
