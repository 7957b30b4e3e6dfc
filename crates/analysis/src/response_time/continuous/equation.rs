//! Q = T Q at one place between the lattice points, and how it is solved.
//!
//! T takes what it makes of x from the places x + B - w strides. So it links classes of places that
//! are whole strides apart: class r depends on class r + B (modulo the stride) alone, and as B and
//! the stride have no common divisor, the classes form one cycle. Vectors are kept class by class.

use super::StepQueue;
use super::linear::Banded;
use super::norm::Norm;
use super::rows::Rows;
use crate::AnalysisError;
use crate::response_time::anderson::Mixing;
use crate::response_time::diffusion::Diffusion;

/// By how much an iteration brings the residual down, at most, and next to the tolerance.
const SETTLED: f64 = 1e-13;
const SETTLED_TO_TOLERANCE: f64 = 1e-3;
/// Changes below this are those of floating point.
const ROUNDING: f64 = 1e-14;
/// What an elimination of one row from another costs besides its multiplications, in these.
const SHORT_ROW: usize = 12;
/// So many sums are computed together.
const TOGETHER: usize = 8;
/// The most multiplications for one place.
const MOST_MULTIPLICATIONS: f64 = 4e9;
/// With more rounds than this, what the last ones tell about the next is worth its cost.
const ROUNDS_WITH_MIXING: f64 = 30.0;
/// Fewer jobs than this in a round, in the mean, leave details that do not blur.
const JOBS_WITH_MIXING: f64 = 5.0;
/// The most entries of a matrix.
const MOST_ENTRIES: f64 = 3e7;
/// A solution that may be more wrong is none.
const TOO_WRONG: f64 = 1e-4;

/// Q = T Q at one place between the lattice points.
pub(super) struct Equation<'a> {
    queue: &'a StepQueue,
    norm: &'a Norm,
    place: f64,
    /// The places of a class.
    rows: usize,
    /// The work of a period.
    arrived: Vec<f64>,
    /// For the last idle moment v steps before the end of the period (place later): the work from
    /// the start of the period until then, times the probability that it is the last.
    before: Rows,
    /// For the same v: the probabilities of so many strides in the time from then on that they exceed
    /// v, from the least number on (see [`Equation::first`]).
    after: Rows,
    /// What is above x whatever the workload at the start was.
    fresh: Vec<f64>,
}

/// How a class is made of the one that it depends on.
struct ClassLink {
    /// The other class.
    source: usize,
    /// Row j of the class looks up to row j + shift of the other.
    shift: usize,
}

impl<'a> Equation<'a> {
    pub(super) fn new(queue: &'a StepQueue, norm: &'a Norm, place: f64) -> Self {
        let StepQueue {
            ref work,
            stride,
            budget_steps: budget,
            period_steps: period,
            ..
        } = *queue;
        let (mut before, mut after) = (Rows::default(), Rows::default());
        before.push(&[]);
        after.push(&[]);
        let mut terms = Vec::new();
        for v in 1..=budget {
            let time = period - v as f64 + place;
            work.probabilities_into(time, (budget - v) / stride, &mut terms);
            for (y, value) in terms.iter_mut().enumerate() {
                *value *= 1.0 - (y * stride) as f64 / time;
            }
            before.push(&terms);
            let (left, first) = (v as f64 - place, v.div_ceil(stride));
            let last = norm.reach(queue, left).max(first);
            work.probabilities_into(left, last, &mut terms);
            after.push(&terms[first..]);
        }
        let mut equation = Self {
            queue,
            norm,
            place,
            rows: norm.states.div_ceil(stride),
            arrived: work.probabilities(period, norm.reach(queue, period)),
            before,
            after,
            fresh: Vec::new(),
        };
        equation.fresh = equation.whatever_was_there();
        equation
    }

    /// T of a workload that is above every place.
    fn whatever_was_there(&self) -> Vec<f64> {
        // Summed from the small ones on.
        let mut beyond = self.arrived.clone();
        for index in (0..beyond.len().saturating_sub(1)).rev() {
            beyond[index] += beyond[index + 1];
        }
        let mut fresh = vec![0.0; self.rows * self.queue.stride];
        for (class, chunk) in fresh.chunks_exact_mut(self.rows).enumerate() {
            let shift = self.link(class).shift;
            for (row, value) in chunk.iter_mut().enumerate() {
                *value = beyond.get(row + shift + 1).copied().unwrap_or(0.0);
            }
            for v in self.idle_moments(class) {
                let idle: f64 = self.before.row(v).iter().sum();
                self.add_wasted(class, v, -idle, chunk);
            }
        }
        fresh
    }

    fn link(&self, class: usize) -> ClassLink {
        let moved = class + self.queue.budget_steps;
        ClassLink {
            source: moved % self.queue.stride,
            shift: moved / self.queue.stride,
        }
    }

    /// The last idle moments after which whole strides lead to places of the class.
    fn idle_moments(&self, class: usize) -> impl Iterator<Item = usize> + use<> {
        let stride = self.queue.stride;
        (stride - class..=self.queue.budget_steps).step_by(stride)
    }

    /// The least number of strides that is v steps or more.
    fn first(&self, v: usize) -> usize {
        v.div_ceil(self.queue.stride)
    }

    /// Takes `idle` times what comes after v from the rows of the class.
    fn add_wasted(&self, class: usize, v: usize, idle: f64, rows: &mut [f64]) {
        let late = self.after.row(v);
        let begin = self.first(v) - (v + class) / self.queue.stride;
        let rows = rows.iter_mut().skip(begin);
        rows.zip(late).for_each(|(row, p)| *row -= p * idle);
    }

    /// What the linear part of T makes of `values` at the places of one class: with `fresh` added it
    /// is 1 - T(1 - values).
    fn apply(&self, class: usize, values: &[f64], padded: &mut Vec<f64>, image: &mut [f64]) {
        let ClassLink { source, shift } = self.link(class);
        let source_class = source;
        let source = &values[source * self.rows..(source + 1) * self.rows];
        self.arrive(source, shift, padded, image);
        for v in self.idle_moments(class) {
            let top = (self.queue.budget_steps - v - source_class) / self.queue.stride;
            let earlier = self.before.row(v).iter().enumerate();
            let idle: f64 = earlier
                .filter_map(|(y, p)| Some(p * source.get(top.checked_sub(y)?)?))
                .sum();
            self.add_wasted(class, v, idle, image);
        }
    }

    /// What the work of a period makes of `source`: found(x) = sum over w of p(w) source(x + shift -
    /// w). `padded` is room for the source between zeros, so that no sum needs a special end.
    fn arrive(&self, source: &[f64], shift: usize, padded: &mut Vec<f64>, image: &mut [f64]) {
        let most = self.arrived.len();
        padded.clear();
        padded.resize(most, 0.0);
        padded.extend_from_slice(source);
        padded.resize(most + self.rows + shift + TOGETHER, 0.0);
        for (block, rows) in image.chunks_mut(TOGETHER).enumerate() {
            let mut sums = [0.0; TOGETHER];
            let end = most + block * TOGETHER + shift;
            for (w, p) in self.arrived.iter().enumerate() {
                let window = &padded[end - w..end - w + TOGETHER];
                let pairs = sums.iter_mut().zip(window);
                pairs.for_each(|(sum, value)| *sum += p * value);
            }
            rows.copy_from_slice(&sums[..rows.len()]);
        }
    }

    /// T for all classes.
    fn apply_all(&self, values: &[f64]) -> Vec<f64> {
        let mut image = vec![0.0; values.len()];
        let mut padded = Vec::new();
        for (class, rows) in image.chunks_exact_mut(self.rows).enumerate() {
            self.apply(class, values, &mut padded, rows);
        }
        image
    }

    /// The values by class, and what they may be wrong by: |Q~ - Q| <= |Q~ - T Q~| / (1 - factor) in
    /// the weighted norm, which is at least the largest difference, and what was cut off.
    /// `start` is a guess.
    pub(super) fn solve(
        &self,
        tolerance: f64,
        start: Option<&[f64]>,
    ) -> Result<(Vec<f64>, f64), AnalysisError> {
        let weight = self.weights();
        let within = SETTLED.max(tolerance * SETTLED_TO_TOLERANCE);
        let values = self.values(&weight, within, start)?;
        let image = self.apply_all(&values);
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

    /// What values at the places, class by class, count for in the norm.
    fn weights(&self) -> Vec<f64> {
        let theta = self.norm.theta;
        let per_row = (theta * self.queue.stride as f64).exp();
        let mut weights = Vec::with_capacity(self.rows * self.queue.stride);
        for class in 0..self.queue.stride {
            let mut weight = (theta * (class as f64 + self.place)).exp();
            weights.extend((0..self.rows).map(|_| {
                let this = weight;
                weight *= per_row;
                this
            }));
        }
        weights
    }

    /// By what takes fewer multiplications.
    fn values(
        &self,
        weight: &[f64],
        within: f64,
        start: Option<&[f64]>,
    ) -> Result<Vec<f64>, AnalysisError> {
        let (states, budget) = (self.fresh.len() as f64, self.queue.budget_steps);
        let wasted = self.after.len();
        let round = self.arrived.len() as f64 * states + 2.0 * wasted as f64;
        let keeps = self.norm.factor;
        let within = (within * (1.0 - keeps)).max(ROUNDING);
        let rounds = 1.0 + within.ln() / keeps.ln() / self.queue.stride as f64;
        let moments = self.queue.moments();
        let mixes = rounds > ROUNDS_WITH_MIXING
            && moments.jobs * self.queue.stride as f64 > JOBS_WITH_MIXING;
        let walk = round * if mixes { ROUNDS_WITH_MIXING } else { rounds };
        let band = self.band();
        let direct = if states * (band + budget) as f64 <= MOST_ENTRIES {
            states * (budget * (band + SHORT_ROW)) as f64
        } else {
            f64::INFINITY
        };
        if direct.min(walk) > MOST_MULTIPLICATIONS {
            return Err(AnalysisError::NotAnalysed {
                reason:
                    "the load is so near to the bandwidth that the exact method would take too \
                         long"
                        .into(),
            });
        }
        if direct <= walk {
            let solution = self.matrix(band).solve(self.by_height(&self.fresh));
            return Ok(self.by_place(&solution));
        }
        let values = start.unwrap_or(&self.fresh).to_vec();
        if mixes {
            let most_rounds = (4.0 * ROUNDS_WITH_MIXING) as usize;
            return Ok(self.mixed_walk(values, weight, within, most_rounds));
        }
        Ok(self.walk(values, weight, within, (2.0 * rounds) as usize + 2))
    }

    /// Goes around the cycle of the classes, each being made of the one before: an error shrinks by
    /// the factor of the norm with every class, not only with every round. Once all have been seen,
    /// only the class at which the walk stands can contradict the others, so its change is the
    /// residual.
    fn walk(
        &self,
        mut values: Vec<f64>,
        weight: &[f64],
        within: f64,
        most_rounds: usize,
    ) -> Vec<f64> {
        let (mut image, mut padded) = (vec![0.0; self.rows], Vec::new());
        for (turn, class) in self
            .classes()
            .take(most_rounds * self.queue.stride)
            .enumerate()
        {
            let change = self.renew(class, &mut values, weight, (&mut image, &mut padded));
            if turn >= self.queue.stride && change <= within {
                break;
            }
        }
        values
    }

    /// The same where it takes many rounds. What a round makes of the values depends on the class alone from which it
    /// starts, and leads from there to the same class so many periods later as there are classes: the last rounds, and what the
    /// workload looks like from far, tell where more of them would lead.
    fn mixed_walk(
        &self,
        mut values: Vec<f64>,
        weight: &[f64],
        within: f64,
        most_rounds: usize,
    ) -> Vec<f64> {
        let (stride, rows) = (self.queue.stride, self.rows);
        let (mut image, mut padded) = (vec![0.0; rows], Vec::new());
        let diffusion = Diffusion::new(self.queue.moments(), stride as f64, stride as f64);
        let first = self.queue.budget_steps % stride;
        let first_rows = first * rows..(first + 1) * rows;
        let mut mixing = Mixing::default();
        for _ in 0..most_rounds {
            let start = values[first_rows.clone()].to_vec();
            let mut change = 0.0;
            for class in self.classes().take(stride) {
                change = self.renew(class, &mut values, weight, (&mut image, &mut padded));
            }
            if change <= within {
                break;
            }
            let end = values[first_rows.clone()].iter();
            let changes: Vec<f64> = end.zip(&start).map(|(e, s)| e - s).collect();
            let later = diffusion.later((first as f64 + self.place) / stride as f64, &changes);
            let step = changes.iter().zip(later).map(|(c, l)| c + l).collect();
            values[first_rows.clone()].copy_from_slice(&mixing.next(&start, step));
        }
        values
    }

    /// The classes, each after the one that it is made of; the last one of a round is that of the budget.
    fn classes(&self) -> impl Iterator<Item = usize> + use<> {
        let stride = self.queue.stride;
        let back = stride - self.queue.budget_steps % stride;
        std::iter::successors(Some(0), move |class| Some((class + back) % stride))
    }

    /// Makes the values of a class of those of the one before, and tells the largest change.
    fn renew(
        &self,
        class: usize,
        values: &mut [f64],
        weight: &[f64],
        (image, padded): (&mut [f64], &mut Vec<f64>),
    ) -> f64 {
        self.apply(class, values, padded, image);
        let range = class * self.rows..(class + 1) * self.rows;
        let own = values[range.clone()]
            .iter_mut()
            .zip(&self.fresh[range.clone()]);
        let changes = own.zip(image).zip(&weight[range]);
        changes.fold(0.0, |most: f64, (((old, fresh), linear), weight)| {
            let new = fresh + *linear;
            let change = (new - *old).abs() * weight;
            *old = new;
            most.max(change)
        })
    }

    /// Values by class, put in the order of their places.
    fn by_height(&self, classes: &[f64]) -> Vec<f64> {
        let stride = self.queue.stride;
        (0..classes.len())
            .map(|x| classes[x % stride * self.rows + x / stride])
            .collect()
    }

    /// The other way round.
    fn by_place(&self, heights: &[f64]) -> Vec<f64> {
        let stride = self.queue.stride;
        (0..heights.len())
            .map(|index| heights[index % self.rows * stride + index / self.rows])
            .collect()
    }

    /// How far below the diagonal I - T reaches.
    fn band(&self) -> usize {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let arrived = (self.arrived.len() * stride).saturating_sub(budget);
        let wasted = (1..=budget).map(|v| {
            let last = (self.first(v) + self.after.row(v).len()).saturating_sub(1) * stride;
            last.saturating_sub(v)
        });
        arrived
            .max(wasted.max().unwrap_or(0))
            .min(self.rows * stride)
    }

    /// I - T as a matrix.
    fn matrix(&self, band: usize) -> Banded {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let states = self.rows * stride;
        let mut matrix = Banded::unit(states, band, budget);
        for x in 0..states {
            let most = ((x + budget) / stride).min(self.arrived.len() - 1);
            for (w, p) in self.arrived[..=most].iter().enumerate() {
                matrix.subtract(x, x + budget - w * stride, *p);
            }
        }
        for v in 1..=budget {
            for (k, p) in (self.first(v)..).zip(self.after.row(v)) {
                for (y, early) in self.before.row(v).iter().enumerate() {
                    matrix.subtract(k * stride - v, budget - v - y * stride, -p * early);
                }
            }
        }
        matrix
    }
}
