//! The response times of a law that no lattice holds, from lattices that keep its mean.
//!
//! Where bounds round every execution time outward, here each is split over its two neighbours on the lattice such that
//! its mean stays. What that changes is, but for little, a part that halves with the step and one that falls with its
//! square, so that three lattices tell what both of them are (Richardson). It is an estimate, and says so.

use tailbound_distribution::Interval;
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::{BracketSide, JobStream, Lattice, LatticeLaws, LatticePlaces, LatticePlan};
use crate::{SharpPoints, Unwatched};

/// The steps of the lattices, in those of the finest one: each is twice the one before.
const COARSENESS: [usize; 3] = [2, 4, 8];

/// Response times at single points, each with what it may be wrong by.
#[derive(Clone, Debug)]
pub(in crate::response_time) struct LatticeEstimate {
    /// By probability.
    pub quantiles: Vec<(f64, Interval)>,
    /// By response time.
    pub shares: Vec<(Duration, (f64, f64))>,
    pub mean: Interval,
}

/// The steps of the coarsest lattice after a bend of the distribution function in which no value is estimated.
const STEPS_OF_A_BEND: f64 = 4.0;

/// The estimate of the responses of all jobs together, whose execution times follow formulas; `None` where the lattices
/// do not hold the budget.
pub(in crate::response_time) fn estimate(
    streams: &[JobStream],
    server: ReservationServer,
    overhead: Duration,
    points: &SharpPoints,
) -> Option<LatticeEstimate> {
    let plan = LatticePlan::of(streams, server, overhead).ok()?;
    let finest = plan.lattice(COARSENESS[0]).points;
    let lattices: Option<Vec<_>> = COARSENESS
        .iter()
        .map(|coarseness| plan.centred((finest * COARSENESS[0]).checked_div(*coarseness)?))
        .collect();
    let lattices = lattices?;
    let all = |of: &dyn Fn(&CentredResponses) -> f64| {
        extrapolated([of(&lattices[0]), of(&lattices[1]), of(&lattices[2])])
    };
    let time = |(at, error): (f64, f64)| {
        let ends =
            [at - error, at + error].map(|end| Duration::from_secs_f64_nearest(end.max(0.0)));
        let [low, high] = ends.map(|end| end.saturating_add(overhead));
        Interval::between(low, Some(high.saturating_add(Duration::from_nanos(1))))
    };
    // The distribution function bends at the shortest execution time, which coarse lattices see only from afar.
    let shortest = streams
        .iter()
        .map(|stream| stream.law.shortest_ns())
        .min()?;
    let from_seconds = shortest as f64 * 1e-9 + STEPS_OF_A_BEND * lattices[2].step_seconds;
    let quantile = |&probability: &f64| {
        let at = all(&|responses| responses.quantile(probability));
        (at.0 >= from_seconds).then(|| (probability, time(at)))
    };
    let seconds = |at: &Duration| at.saturating_sub(overhead).as_secs_f64();
    let within = points.times.iter().filter(|at| seconds(at) >= from_seconds);
    let share = |at: &Duration| {
        let seconds = seconds(at);
        let (value, error) = all(&|responses| responses.share(seconds));
        (*at, ((value - error).max(0.0), (value + error).min(1.0)))
    };
    Some(LatticeEstimate {
        quantiles: points.probabilities.iter().filter_map(quantile).collect(),
        shares: within.map(share).collect(),
        mean: time(all(&CentredResponses::mean)),
    })
}

/// The value that lattices tend to whose steps double from one to the next, and what it may be wrong by.
fn extrapolated([fine, middle, coarse]: [f64; 3]) -> (f64, f64) {
    let (sharp, rough) = (2.0 * fine - middle, 2.0 * middle - coarse);
    let error = (sharp - rough) / 3.0;
    (sharp + error, 3.0 * error.abs())
}

/// The distribution function at the points of a lattice.
struct CentredResponses {
    step_seconds: f64,
    /// At 0, 1, ... steps.
    values: Vec<f64>,
    /// By which part of it a step lets the rest beyond the last value fall.
    decay: f64,
}

impl LatticePlan<'_> {
    /// The responses on a lattice of so many points per period, which it has to hold with the budget.
    fn centred(&self, points: usize) -> Option<CentredResponses> {
        let lattice = Lattice {
            period_ns: self.period.as_nanos().max(1),
            points,
        };
        let budget = u128::from(self.budget.as_nanos()) * points as u128;
        if points == 0 || !budget.is_multiple_of(u128::from(lattice.period_ns)) {
            return None;
        }
        let LatticeLaws { arriving, jobs } = self.laws_by(&|law| law.centred(lattice)).ok()?;
        let queue = self.queue(lattice, BracketSide::Pessimistic, arriving);
        if !queue.is_stable() {
            return None;
        }
        let asked = (BracketSide::Pessimistic, LatticePlaces::All);
        let values = self.values(&queue, &jobs[..1], asked, &Unwatched)?;
        // The value for responses from k steps on is that of jobs that come at the end of a step and are done after one
        // step less, exactly; on a CPU of its own it is that of jobs that are done after k steps.
        let step = usize::from(self.kind.is_some());
        Some(CentredResponses {
            step_seconds: lattice.step_seconds(),
            values: values.into_iter().next()?.into_iter().skip(step).collect(),
            decay: queue.decay() * queue.budget_steps as f64 / queue.period_steps as f64,
        })
    }
}

impl CentredResponses {
    fn quantile(&self, probability: f64) -> f64 {
        let after = self.values.partition_point(|value| *value < probability);
        let at = |k: usize| self.values.get(k).copied();
        let steps = match (after.checked_sub(1).and_then(at), at(after)) {
            (Some(before), Some(value)) => {
                (after - 1) as f64 + (probability - before) / (value - before)
            }
            (None, _) => 0.0,
            (Some(last), None) => {
                let rest = ((1.0 - last) / (1.0 - probability)).ln();
                (after - 1) as f64 + rest.max(0.0) / self.decay
            }
        };
        steps * self.step_seconds
    }

    fn share(&self, seconds: f64) -> f64 {
        let steps = seconds / self.step_seconds;
        let below = steps.floor();
        let at = |k: f64| match self.values.get(k as usize) {
            Some(value) => *value,
            None => 1.0,
        };
        let before = at(below);
        before + (steps - below) * (at(below + 1.0) - before)
    }

    fn mean(&self) -> f64 {
        let above: f64 = self.values.iter().map(|value| 1.0 - value).sum();
        let first = self.values.first().map_or(0.0, |value| 1.0 - value);
        let last = self.values.last().map_or(0.0, |value| 1.0 - value);
        (above - 0.5 * (first + last) + last / self.decay) * self.step_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_fall_with_the_step_and_its_square_cancel() {
        let of = |step: f64| 3.0 + 0.2 * step - 0.05 * step * step;
        let (value, error) = extrapolated([of(1.0), of(2.0), of(4.0)]);
        // The error is the difference of the extrapolations by the step alone, 3.1 and 3.4.
        assert!((value - 3.0).abs() < 1e-12, "{value}");
        assert!((error - 0.3).abs() < 1e-12, "{error}");
        // With a third power the error that is told is about the true one.
        let of = |step: f64| 3.0 + 0.2 * step - 0.05 * step * step + 1e-3 * step.powi(3);
        let (value, error) = extrapolated([of(1.0), of(2.0), of(4.0)]);
        assert!((value - 3.0).abs() < error, "{value} {error}");
    }
}
