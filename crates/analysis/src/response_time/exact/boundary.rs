//! The workload at period starts, between the points of the lattice too.

use super::Queue;
use super::quadrature::Chebyshev;
use crate::AnalysisError;

/// The residual at which an iteration ends, in the weighted norm.
const SETTLED: f64 = 1e-14;
/// What e to the minus this is, is neglected of the workload's tail.
const NEGLECTED_LOG: f64 = 32.0;
/// Sweeps that are tried.
const MOST_SWEEPS: usize = 4_000;
/// So many past sweeps are combined into the next guess.
const MEMORY: usize = 6;
/// Numbers of places between two lattice points, tried one after the other.
const PLACES: [usize; 4] = [8, 14, 24, 40];
/// Interpolation may be this wrong before more places are taken.
const SMOOTH: f64 = 1e-12;
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
    /// Solves Q = T Q (see the parent module) at as many places as it takes.
    pub(super) fn solve(queue: &Queue) -> Result<Self, AnalysisError> {
        let norm = Norm::of(queue)?;
        let mut best: Option<Self> = None;
        for count in PLACES {
            let chebyshev = Chebyshev::new(count);
            let mut error = 0.0_f64;
            let mut values = Vec::with_capacity(count);
            for place in &chebyshev.points {
                let (found, wrong) = Equation::new(queue, &norm, *place).solve()?;
                error = error.max(wrong);
                values.push(found);
            }
            let states = values.first().map_or(0, Vec::len);
            let remainder = (0..states)
                .map(|x| {
                    let across: Vec<f64> = values.iter().map(|row| row[x]).collect();
                    chebyshev.remainder(&across)
                })
                .fold(0.0, f64::max);
            let found = Self {
                chebyshev,
                above: values,
                error: error + remainder,
            };
            let good = remainder < SMOOTH;
            if best
                .as_ref()
                .is_none_or(|before| found.error < before.error)
            {
                best = Some(found);
            }
            if good {
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
    /// What that may do to a value, in this norm.
    cut: f64,
}

impl Norm {
    fn of(queue: &Queue) -> Result<Self, AnalysisError> {
        let stride = queue.stride as f64;
        let share = queue.budget as f64 / queue.period;
        let lundberg = queue.work.decay(share / stride) / stride;
        let exponent = |theta: f64| {
            let arrived =
                queue.work.rate * queue.period * (queue.work.moment(theta * stride) - 1.0);
            arrived - theta * queue.budget as f64
        };
        let candidates = (1..64).map(|part| lundberg * f64::from(part) / 64.0);
        let theta = candidates
            .min_by(|a, b| exponent(*a).total_cmp(&exponent(*b)))
            .unwrap_or(0.0);
        let factor = exponent(theta).exp();
        let states = (NEGLECTED_LOG / (lundberg - theta)).ceil();
        let tractable = factor < 1.0 - 1e-9 && states < MOST_STATES as f64;
        if !tractable {
            return Err(AnalysisError::NotAnalysed {
                reason:
                    "the load is so near to the bandwidth, or budget and execution time have so \
                         small a common divisor, that the exact method would take too long"
                        .into(),
            });
        }
        let states = states as usize + queue.budget + 1;
        let cut = factor * (-(lundberg - theta) * states as f64).exp() / (1.0 - factor);
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
    period: Vec<f64>,
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
            budget,
            period,
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
        let period = work.probabilities(period, work.reach(period));
        // Summed from the small ones on.
        let mut beyond: Vec<f64> = period.clone();
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
            period,
            before,
            after,
            fresh,
        }
    }

    /// One application of T, to probabilities of being above: 1 - T(1 - values).
    fn apply(&self, values: &[f64]) -> Vec<f64> {
        let (stride, budget) = (self.queue.stride, self.queue.budget);
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
            let most = ((x + budget) / stride).min(self.period.len() - 1);
            let arrived = &self.period[..=most];
            let served: f64 = arrived
                .iter()
                .enumerate()
                .map(|(w, p)| p * at(x + budget - w * stride))
                .sum();
            let wasted: f64 = self.after[x].iter().map(|(v, p)| p * idle[*v]).sum();
            (self.fresh[x] + served - wasted).clamp(0.0, 1.0)
        };
        (0..self.norm.states).map(next).collect()
    }

    /// The values, and what they may be wrong by: |Q~ - Q| <= (|Q~ - T Q~| + what was cut off) /
    /// (1 - factor), in the weighted norm, which is at least the largest difference.
    fn solve(&self) -> Result<(Vec<f64>, f64), AnalysisError> {
        let weight: Vec<f64> = (0..self.norm.states)
            .map(|x| (self.norm.theta * (x as f64 + self.place)).exp())
            .collect();
        let mut anderson = Anderson::default();
        let mut values: Vec<f64> = weight.iter().map(|w| 0.5 / w).collect();
        let mut best = (values.clone(), f64::INFINITY);
        let mut stuck = 0;
        for _ in 0..MOST_SWEEPS {
            let next = self.apply(&values);
            let residual = next
                .iter()
                .zip(&values)
                .zip(&weight)
                .map(|((a, b), w)| (a - b).abs() * w)
                .fold(0.0, f64::max);
            stuck += 1;
            if residual < best.1 {
                if residual < 0.5 * best.1 {
                    stuck = 0;
                }
                best = (values.clone(), residual);
            }
            if residual < SETTLED || (stuck > 60 && best.1 < 1e-11) {
                break;
            }
            values = anderson.next(values, next, &weight);
        }
        let (values, residual) = best;
        let error = residual / (1.0 - self.norm.factor) + self.norm.cut + 1e-14;
        if error > 1e-3 {
            return Err(AnalysisError::NotAnalysed {
                reason: "the workload at period starts does not settle: the load is too near to \
                         the bandwidth"
                    .into(),
            });
        }
        Ok((values, error))
    }
}

/// Anderson's acceleration of a fixed-point iteration: the combination of past guesses whose
/// residual is least.
#[derive(Debug, Default)]
struct Anderson {
    guesses: Vec<Vec<f64>>,
    images: Vec<Vec<f64>>,
}

impl Anderson {
    fn next(&mut self, guess: Vec<f64>, image: Vec<f64>, weight: &[f64]) -> Vec<f64> {
        self.guesses.push(guess);
        self.images.push(image);
        if self.guesses.len() > MEMORY {
            self.guesses.remove(0);
            self.images.remove(0);
        }
        let count = self.guesses.len();
        let residual =
            |index: usize, x: usize| (self.images[index][x] - self.guesses[index][x]) * weight[x];
        let last = count - 1;
        // Least squares on the differences to the last residual, by normal equations.
        let mut matrix = vec![vec![0.0; last]; last];
        let mut right = vec![0.0; last];
        for x in 0..weight.len() {
            let own = residual(last, x);
            let differences: Vec<f64> = (0..last).map(|i| residual(i, x) - own).collect();
            for i in 0..last {
                right[i] -= differences[i] * own;
                for j in 0..=i {
                    matrix[i][j] += differences[i] * differences[j];
                }
            }
        }
        let shares = solved(matrix, right);
        let own: f64 = 1.0 - shares.iter().sum::<f64>();
        let mut next: Vec<f64> = self.images[last].iter().map(|value| value * own).collect();
        for (share, image) in shares.iter().zip(&self.images) {
            next.iter_mut()
                .zip(image)
                .for_each(|(sum, value)| *sum += share * value);
        }
        next.iter_mut()
            .for_each(|value| *value = value.clamp(0.0, 1.0));
        next
    }
}

/// Solves a symmetric positive system given by its lower half, a little regularised, by Cholesky's
/// factors; zeros where that does not go.
fn solved(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for i in 0..size {
        for j in 0..=i {
            let (before, row) = matrix.split_at(i);
            let other = before.get(j).unwrap_or(&row[0]);
            let sum: f64 = row[0][..j]
                .iter()
                .zip(&other[..j])
                .map(|(a, b)| a * b)
                .sum();
            let value = row[0][j] * if i == j { 1.0 + 1e-12 } else { 1.0 } - sum;
            let factor = match i == j {
                true => value.max(0.0).sqrt(),
                false => value / other[j],
            };
            matrix[i][j] = factor;
        }
        let known: f64 = matrix[i][..i].iter().zip(&right).map(|(a, b)| a * b).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| matrix[j][i] * right[j]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    if right
        .iter()
        .all(|value| value.is_finite() && value.abs() < 1e6)
    {
        right
    } else {
        vec![0.0; size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_systems_are_solved_and_singular_ones_told() {
        let lower = vec![vec![4.0, 0.0], vec![2.0, 3.0]];
        let found = solved(lower, vec![10.0, 9.0]);
        assert!(
            (found[0] - 1.5).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9,
            "{found:?}"
        );
        let singular = vec![vec![0.0, 0.0], vec![0.0, 0.0]];
        assert_eq!(solved(singular, vec![1.0, 1.0]), [0.0, 0.0]);
    }
}
