//! The workload at period starts, between the points of the lattice too.

use super::Queue;
use super::linear::{self, Banded};
use super::quadrature::{Chebyshev, remainder};
use crate::AnalysisError;

/// By how much an iteration brings the residual down, at most, and next to the tolerance.
const SETTLED: f64 = 1e-13;
const SETTLED_TO_TOLERANCE: f64 = 1e-3;
/// Steps of the iteration at most.
const MOST_STEPS: usize = 200;
/// Steps that an iteration takes, about, are this over the square root of how far T is from keeping
/// what it is given.
const STEPS: f64 = 15.0;
/// Multiplications per row and step.
const ROW: f64 = 80.0;
/// What e to the minus this is, is neglected of the workload's tail.
const NEGLECTED_LOG: f64 = 30.0;
/// A solution that may be more wrong is none.
const TOO_WRONG: f64 = 1e-4;
/// Numbers of places between two lattice points, tried one after the other.
const PLACES: [usize; 6] = [3, 5, 8, 14, 24, 40];
/// Strides of at least so many steps make a lattice so fine that few places do.
const FINE: usize = 24;
/// So does a tolerance like this.
const LAX: f64 = 1e-6;
/// The most places on the workload's axis.
const MOST_STATES: usize = 2_000_000;

/// The law of the workload at period starts: for each of some places between lattice points the
/// probabilities 1 - Q(x + place) that it is above x + place, x = 0, 1, ... These, and not Q, since
/// small ones are wanted to as many digits as large ones.
#[derive(Clone, Debug)]
pub(super) struct Boundary {
    chebyshev: Chebyshev,
    /// By place, then by x.
    above: Vec<Vec<f64>>,
    /// What any value may be wrong by.
    pub error: f64,
}

impl Boundary {
    /// Solves Q = T Q (see the parent module) at as many places as it takes for interpolation to be
    /// wrong by `tolerance` at most.
    pub(super) fn solve(queue: &Queue, tolerance: f64) -> Result<Self, AnalysisError> {
        let norm = Norm::of(queue)?;
        let mut best: Option<Self> = None;
        let first = usize::from(queue.stride < FINE && tolerance < LAX);
        for count in &PLACES[first..] {
            let chebyshev = Chebyshev::new(*count);
            let mut error = 0.0_f64;
            let mut above = Vec::with_capacity(*count);
            for place in &chebyshev.points {
                let (found, wrong) = Equation::new(queue, &norm, *place).solve(tolerance)?;
                error = error.max(wrong);
                above.push(found);
            }
            let states = above.first().map_or(0, Vec::len);
            let coefficients = (0..states).fold((0.0_f64, 0.0_f64), |most, x| {
                let across: Vec<f64> = above.iter().map(|row| row[x]).collect();
                let found = chebyshev.last_coefficients(&across);
                (most.0.max(found.0), most.1.max(found.1))
            });
            let remainder = remainder(coefficients);
            let found = Self {
                chebyshev,
                above,
                error: error + remainder,
            };
            if best
                .as_ref()
                .is_none_or(|before| found.error < before.error)
            {
                best = Some(found);
            }
            if remainder < tolerance {
                break;
            }
        }
        best.ok_or_else(|| AnalysisError::Invalid {
            what: "the workload at period starts was not found".into(),
        })
    }

    /// What the values at `place` are mixed of.
    pub(super) fn mixture(&self, place: f64) -> Vec<f64> {
        self.chebyshev.basis(place)
    }

    /// Q(x + place) for the place of `mixture`.
    pub(super) fn at(&self, x: usize, mixture: &[f64]) -> f64 {
        let rows = self.above.iter().zip(mixture);
        if self.above.first().is_none_or(|row| x >= row.len()) {
            return 1.0;
        }
        let above: f64 = rows.map(|(row, share)| row[x] * share).sum();
        1.0 - above
    }
}

/// The weighted norm in which T is a contraction: sup |f(x)| e^(theta x) for a theta below
/// Lundberg's, since T e^(-theta x) <= e^(-theta x) E e^(theta (X(P) - B)).
struct Norm {
    /// Per lattice step.
    theta: f64,
    /// By how much T contracts.
    factor: f64,
    /// Where the workload's axis is cut off.
    states: usize,
    /// What that may do to a value.
    cut: f64,
}

impl Norm {
    fn of(queue: &Queue) -> Result<Self, AnalysisError> {
        let stride = queue.stride as f64;
        let share = queue.budget_steps as f64 / queue.period_steps;
        let lundberg = queue.work.decay(share / stride) / stride;
        let exponent = |theta: f64| {
            let arrived =
                queue.work.rate * queue.period_steps * (queue.work.moment(theta * stride) - 1.0);
            arrived - theta * queue.budget_steps as f64
        };
        let candidates = (1..64).map(|part| lundberg * f64::from(part) / 64.0);
        let theta = candidates
            .min_by(|a, b| exponent(*a).total_cmp(&exponent(*b)))
            .unwrap_or(0.0);
        let factor = exponent(theta).exp();
        let states = (NEGLECTED_LOG / lundberg).ceil();
        let tractable = factor < 1.0 - 1e-9 && states < MOST_STATES as f64;
        if !tractable {
            return Err(AnalysisError::NotAnalysed {
                reason:
                    "the load is so near to the bandwidth, or budget and execution time have so \
                         small a common divisor, that the exact method would take too long"
                        .into(),
            });
        }
        let states = states as usize + queue.budget_steps + 1;
        // Taking what lies beyond for zero makes every value too small by at most its largest: T
        // never makes more of a constant.
        let cut = (-lundberg * states as f64).exp();
        Ok(Self {
            theta,
            factor,
            states,
            cut,
        })
    }
}

/// Q = T Q at one place between the lattice points.
struct Equation<'a> {
    queue: &'a Queue,
    norm: &'a Norm,
    place: f64,
    /// The work of a period.
    arrived: Vec<f64>,
    /// For the last idle moment v steps before the end of the period (place later): the work from
    /// the start of the period until then, times the probability that it is the last.
    before: Vec<Vec<f64>>,
    /// For x: the v, and the probability of exactly x + v work in the time from then on.
    after: Vec<Vec<(usize, f64)>>,
    /// What is above x whatever the workload at the start was.
    fresh: Vec<f64>,
}

impl<'a> Equation<'a> {
    fn new(queue: &'a Queue, norm: &'a Norm, place: f64) -> Self {
        let Queue {
            ref work,
            stride,
            budget_steps: budget,
            period_steps: period,
            ..
        } = *queue;
        let mut before = Vec::with_capacity(budget + 1);
        before.push(Vec::new());
        let mut after = vec![Vec::new(); norm.states];
        for v in 1..=budget {
            let time = period - v as f64 + place;
            let mut early = work.probabilities(time, (budget - v) / stride);
            for (y, value) in early.iter_mut().enumerate() {
                *value *= 1.0 - (y * stride) as f64 / time;
            }
            before.push(early);
            let left = v as f64 - place;
            let last = work.reach(left);
            let late = work.probabilities(left, last);
            for (k, probability) in late.iter().enumerate().skip(v.div_ceil(stride)) {
                if let Some(row) = after.get_mut(k * stride - v) {
                    row.push((v, *probability));
                }
            }
        }
        let arrived = work.probabilities(period, work.reach(period));
        // Summed from the small ones on.
        let mut beyond: Vec<f64> = arrived.clone();
        for index in (0..beyond.len().saturating_sub(1)).rev() {
            beyond[index] += beyond[index + 1];
        }
        let idle: Vec<f64> = before.iter().map(|early| early.iter().sum()).collect();
        let fresh = after.iter().enumerate().map(|(x, row)| {
            let more = beyond
                .get((x + budget) / stride + 1)
                .copied()
                .unwrap_or(0.0);
            let wasted: f64 = row.iter().map(|(v, p)| p * idle[*v]).sum();
            more + wasted
        });
        let fresh = fresh.collect();
        Self {
            queue,
            norm,
            place,
            arrived,
            before,
            after,
            fresh,
        }
    }

    /// The linear part of T, applied to probabilities of being above: with `fresh` added it is
    /// 1 - T(1 - values).
    fn apply(&self, values: &[f64]) -> Vec<f64> {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let at = |x: usize| values.get(x).copied().unwrap_or(0.0);
        let idle: Vec<f64> = self
            .before
            .iter()
            .enumerate()
            .map(|(v, early)| {
                let term = |(y, p): (usize, &f64)| p * at(budget - v - y * stride);
                early.iter().enumerate().map(term).sum()
            })
            .collect();
        let next = |x: usize| {
            let most = ((x + budget) / stride).min(self.arrived.len() - 1);
            let served: f64 = self.arrived[..=most]
                .iter()
                .enumerate()
                .map(|(w, p)| p * at(x + budget - w * stride))
                .sum();
            let wasted: f64 = self.after[x].iter().map(|(v, p)| p * idle[*v]).sum();
            served - wasted
        };
        (0..self.norm.states).map(next).collect()
    }

    /// The values, and what they may be wrong by: |Q~ - Q| <= |Q~ - T Q~| / (1 - factor) in the
    /// weighted norm, which is at least the largest difference, and what was cut off.
    fn solve(&self, tolerance: f64) -> Result<(Vec<f64>, f64), AnalysisError> {
        let weight: Vec<f64> = (0..self.norm.states)
            .map(|x| (self.norm.theta * (x as f64 + self.place)).exp())
            .collect();
        let band = self.band();
        let steps = (STEPS / (1.0 - self.norm.factor).sqrt()).min(MOST_STEPS as f64);
        let iterating = steps * ROW;
        let values = if ((band * self.queue.budget_steps) as f64) < iterating {
            self.matrix(band).solve(self.fresh.clone())
        } else {
            let apply = |values: &[f64]| self.apply(values);
            let within = SETTLED.max(tolerance * SETTLED_TO_TOLERANCE);
            linear::fixed_point(apply, &self.fresh, &weight, within, MOST_STEPS)
        };
        let image = self.apply(&values);
        let residual = (0..values.len())
            .map(|x| (image[x] + self.fresh[x] - values[x]).abs() * weight[x])
            .fold(0.0, f64::max);
        let error = residual / (1.0 - self.norm.factor) + self.norm.cut + 1e-14;
        if error > TOO_WRONG || !error.is_finite() {
            return Err(AnalysisError::NotAnalysed {
                reason: "the workload at period starts does not settle: the load is too near to \
                         the bandwidth"
                    .into(),
            });
        }
        Ok((values, error))
    }

    /// How far below the diagonal I - T reaches.
    fn band(&self) -> usize {
        let arrived =
            (self.arrived.len() * self.queue.stride).saturating_sub(self.queue.budget_steps);
        let wasted = self.after.iter().rposition(|row| !row.is_empty());
        arrived.max(wasted.unwrap_or(0)).min(self.norm.states)
    }

    /// I - T as a matrix.
    fn matrix(&self, band: usize) -> Banded {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let mut matrix = Banded::unit(self.norm.states, band, budget);
        for (x, row) in self.after.iter().enumerate() {
            let most = ((x + budget) / stride).min(self.arrived.len() - 1);
            for (w, p) in self.arrived[..=most].iter().enumerate() {
                matrix.subtract(x, x + budget - w * stride, *p);
            }
            for (v, late) in row {
                for (y, early) in self.before[*v].iter().enumerate() {
                    matrix.subtract(x, budget - v - y * stride, -late * early);
                }
            }
        }
        matrix
    }
}
