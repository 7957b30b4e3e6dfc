//! The mean response time, in one pass over the workload.
//!
//! A server whose budget comes off time first has offered y at D⁻(y) = y + off times the number of whole budgets
//! below y, so a job of d that finds E(n) is done at D⁻(E(n) + d): the mean takes the mean of E, and for each budget j
//! the probability that E(n) + d is above it, averaged over n. Both are integrals that
//! [`ContinuousResponses`](super::ContinuousResponses) knows without a search in the time of response. A deferrable
//! server does the same from the next period on; in the period that a job comes in, with G(y) the integral over n of
//! Pr(E(n) <= y), what matters is the integral of G over y (docs/concepts/response-time.md).

use super::idle::IdleLaw;
use super::quadrature::GaussLegendre;
use super::response::{ContinuousResponses, OwnPeriod};
use super::stretches::Panel;

/// Numbers of nodes per lattice step of two integrals that are compared.
const COARSE: usize = 2;
const FINE: usize = 4;
/// The share of the shortest job that the budgets beyond the last one may add to the mean.
const BEYOND: f64 = 1e-9;
/// The part of Lundberg's exponent at which the tail is bounded.
const SLOWER: f64 = 0.9;
/// The share of a period that rounding of floats may lose.
const ROUNDING: f64 = 1e-14;

/// A value and about what it may be wrong by.
#[derive(Clone, Copy, Default)]
struct Uncertain {
    value: f64,
    error: f64,
}

impl ContinuousResponses<'_> {
    /// The mean response time in steps, and about what it may be wrong by.
    pub(in crate::response_time) fn mean(&self) -> (f64, f64) {
        let (budget, period) = (self.queue.budget_steps as f64, self.queue.period_steps);
        let tagged = self.queue.tagged.iter();
        let own: f64 = tagged
            .map(|(own, share)| share * (own * self.queue.stride) as f64)
            .sum();
        let answer = self.mean_at_arrival();
        let (late, own_period) = match &self.idling.own_period {
            None => (self.above_budgets(0), Uncertain::default()),
            Some(own_period) => {
                let mut less = self.within_budget(own_period);
                less.value += period - budget;
                (self.above_budgets(2), less)
            }
        };
        let off = self.off();
        let mean = answer.value + own - 0.5 * period + off * late.value + own_period.value;
        let error = answer.error + off * late.error + own_period.error + ROUNDING * period;
        (mean, error)
    }

    /// The mean of E(n), of a job's arrival n.
    fn mean_at_arrival(&self) -> Uncertain {
        let period = self.queue.period_steps;
        let (started, wrong) = self.boundary.mean();
        let load = self.queue.work.rate * self.queue.work.mean() * self.queue.stride as f64;
        let budget = self.queue.budget_steps as f64;
        let idle = &self.idling.idle;
        let of_idle = 0.5 * budget * budget / period * (idle.error + self.boundary.error);
        Uncertain {
            value: started + 0.5 * load * period + idle.sum_of_integrals() / period,
            error: wrong + of_idle,
        }
    }

    /// The sum over the budgets from the one of that number on of the probability that E(n) and the job are above
    /// them.
    fn above_budgets(&self, first: usize) -> Uncertain {
        let budget = self.queue.budget_steps;
        let period = Panel {
            low: 0.0,
            high: self.queue.period_steps,
            periods: 0,
            on: None,
        };
        let last = self.last_budget();
        let mut sum = Uncertain::default();
        for count in first..=last.max(first) {
            let below = self.queue.tagged.iter().map(|(own, share)| {
                let limit = (count * budget).checked_sub(own * self.queue.stride);
                share * limit.map_or(0.0, |limit| self.done_later(&period, limit))
            });
            sum.value += 1.0 - below.sum::<f64>() / period.high;
            sum.error += self.boundary.error + ROUNDING;
        }
        sum.error += BEYOND;
        sum
    }

    /// The last budget that a job may be above, but for a negligible sum of probabilities. By Chernoff's bound: with
    /// Lundberg's exponent theta of the workload z, and a below it, E e^(az) is at most theta / (theta - a), and E(n)
    /// at most z + X(P) + B.
    fn last_budget(&self) -> usize {
        let (stride, budget) = (self.queue.stride as f64, self.queue.budget_steps as f64);
        let theta = self.boundary.lundberg;
        let a = SLOWER * theta;
        let arrived = self.queue.work.rate
            * self.queue.period_steps
            * (self.queue.work.moment(a * stride) - 1.0);
        let tagged = self.queue.tagged.iter();
        let own: f64 = tagged
            .map(|(own, share)| share * (a * *own as f64 * stride).exp())
            .sum();
        let log = -(1.0 - SLOWER).ln() + arrived + a * budget + own.ln();
        let sum = -(1.0 - (-a * budget).exp()).ln();
        ((log + sum - BEYOND.ln()) / (a * budget)).ceil() as usize
    }

    /// The change of the mean by the budget of the period that a job comes in: for each job the integral of
    /// Pr(E(n) + d <= y) up to the budget, which the later periods do not count, less what is done at once.
    fn within_budget(&self, own_period: &OwnPeriod) -> Uncertain {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let period = self.queue.period_steps;
        let passed = self.passed();
        let of = |idle: &IdleLaw, off: f64| self.sums_below(idle, off, &passed);
        let later = of(&self.idling.idle, self.off());
        let at_once = of(&own_period.at_once, 0.0);
        let mut answer = Uncertain::default();
        for (own, share) in &self.queue.tagged {
            let Some(limit) = budget.checked_sub(own * stride) else {
                continue;
            };
            let spent = self.done_with_budget_spent(limit, own * stride, own_period, &passed);
            let value = later[limit].value - at_once[limit].value - spent;
            answer.value += share * value / period;
            answer.error += share * (later[limit].error + at_once[limit].error) / period;
        }
        answer.error += self.boundary.error * (2.0 * budget as f64 + period);
        answer
    }

    /// For each number of strides k from 0 on: the integral of g_k(t) over t up to k strides.
    fn passed(&self) -> Vec<f64> {
        let last = (self.queue.budget_steps / self.queue.stride).min(self.idling.reach);
        let up_to = |k: usize| {
            let time = (k * self.queue.stride) as f64;
            self.idling.sums.integral((0.0, time), k)
        };
        let mut answer: Vec<f64> = (0..=last).map(up_to).collect();
        let kept = answer.iter().rposition(|value| *value > 1e-18);
        answer.truncate(kept.map_or(1, |last| last + 1));
        answer
    }

    /// For each lattice point up to the budget: the integral over y up to it of the integral over n of Pr(E(n) <= y),
    /// where the server is off for `off` steps first.
    fn sums_below(&self, idle: &IdleLaw, off: f64, passed: &[f64]) -> Vec<Uncertain> {
        let rules = [COARSE, FINE].map(GaussLegendre::new);
        let nodes = rules.each_ref().map(|rule| {
            let places = rule.nodes.iter().map(|(rest, weight)| {
                let mut mixture = Vec::new();
                self.boundary.mixture(*rest, &mut mixture);
                (*rest, *weight, mixture, idle.place(*rest))
            });
            places.collect::<Vec<_>>()
        });
        let weights: f64 = passed.iter().skip(1).sum();
        let (mut waiting, mut sum) = (Vec::new(), Uncertain::default());
        let mut answer = vec![sum];
        for step in 0..self.queue.budget_steps {
            let integrals = nodes.each_ref().map(|nodes| {
                let values = nodes.iter().map(|(rest, weight, mixture, place)| {
                    let strides = step / self.queue.stride;
                    let count = strides.min(self.idling.reach) + 1;
                    self.boundary
                        .at_strides_below(step, count, mixture, &mut waiting);
                    let until = step as f64 + rest + off;
                    let integrals = self.idling.sums.integrals((0.0, until));
                    let terms = waiting.iter().enumerate();
                    let arrived: f64 = terms
                        .map(|(w, q)| q * self.idling.sums.mixed(&integrals, w))
                        .sum();
                    let late = passed.iter().enumerate().skip(1).take(strides);
                    let crossed: f64 = late
                        .map(|(k, late)| late * idle.at(step - k * self.queue.stride, place))
                        .sum();
                    weight * (arrived - crossed)
                });
                values.sum::<f64>()
            });
            sum.value += integrals[1];
            sum.error += (integrals[1] - integrals[0]).abs() + weights * idle.error;
            answer.push(sum);
        }
        answer
    }

    /// The integral over n, and over the moments T of the same period after the budget, of C(n, T): z + X(n) and the
    /// job of `own` steps fit in the budget, and n is early enough for the job to be done by T.
    fn done_with_budget_spent(
        &self,
        limit: usize,
        own: usize,
        own_period: &OwnPeriod,
        passed: &[f64],
    ) -> f64 {
        let (stride, period) = (self.queue.stride, self.queue.period_steps);
        let (early, late) = (limit as f64, period - own as f64);
        let sums = &self.idling.sums;
        let at_first = sums.integrals((0.0, early));
        let then = sums.integrals((early, late));
        let count = (limit / stride).min(self.idling.reach) + 1;
        let (mut mixture, mut waiting) = (Vec::new(), Vec::new());
        self.boundary.mixture(0.0, &mut mixture);
        self.boundary
            .at_strides_below(limit, count, &mixture, &mut waiting);
        let arrived: f64 = waiting
            .iter()
            .enumerate()
            .map(|(w, q)| {
                let before = self.off() * sums.mixed(&at_first, w);
                let falling = late * sums.mixed(&then, w) - sums.mixed_with_time(&then, w);
                q * (before + falling)
            })
            .sum();
        let crossed: f64 = passed
            .iter()
            .enumerate()
            .skip(1)
            .take(limit / stride)
            .map(|(k, passed)| passed * own_period.over_offs[(limit - k * stride) / stride])
            .sum();
        arrived - crossed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{BudgetUse, Solved, StepQueue};

    #[test]
    fn the_mean_is_the_integral_of_the_share_of_longer_responses() {
        let sizes = vec![(1, 0.6), (2, 0.4)];
        for kind in [BudgetUse::Deferrable, BudgetUse::Periodic] {
            for shape in [(7, 11.5), (25, 38.3), (2, 3.25), (11, 11.0)] {
                let queue = StepQueue::new(0.09, sizes.clone(), sizes.clone(), 3, shape, kind);
                let solved = Solved::new(queue, 1e-9).unwrap();
                let responses = solved.responses();
                let (mean, error) = responses.mean();
                // Midpoints, of pieces that end where the shares jump.
                let longer = |piece: u32| 1.0 - responses.cdf((f64::from(piece) + 0.5) * 0.1).0;
                let slowly = (0..1_500).map(longer).sum::<f64>() * 0.1;
                assert!(
                    (mean - slowly).abs() < error + 1e-3 * slowly,
                    "{kind:?} {shape:?}: {mean} {slowly} {error}"
                );
                assert!(error < 1e-5 * mean, "{kind:?} {shape:?}: {mean} {error}");
            }
        }
    }
}
