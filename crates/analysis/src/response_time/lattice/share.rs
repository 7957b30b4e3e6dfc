//! The share of responses within one time: one entry of what [`LatticeResponses::of`] computes for all of them.
//!
//! Where a promise asks for one time, the sums over the arrival's place in the period are formed for that time alone.
//! Every number in them is the same as there, so the share is the same bound; no transform a place is needed.

use super::boundary::{Backwards, LatticeQueue};
use super::response::{LatticeResponses, product};
use super::rounding::BracketSide;
use crate::response_time::BudgetUse;
use tailbound_fourier::Transform;

/// The CPU time in steps that a server which is never idle has given `at` steps after a replenishment.
pub(super) fn given(queue: &LatticeQueue, kind: BudgetUse, at: usize) -> usize {
    let (budget, period) = (queue.budget_steps, queue.period_steps);
    let (whole, rest) = (at / period * budget, at % period);
    whole
        + match kind {
            BudgetUse::Deferrable => rest.min(budget),
            BudgetUse::Periodic => rest.saturating_sub(period - budget),
        }
}

/// The most work, in steps, that shares within `steps` steps of response time look at.
pub(super) fn work_within(queue: &LatticeQueue, kind: BudgetUse, steps: usize) -> usize {
    given(queue, kind, steps + queue.period_steps + 2)
}

/// The terms of the shares of jobs with sizes of one law, within any time up to one.
pub(super) struct ShareTerms<'a> {
    responses: &'a LatticeResponses<'a>,
    /// Pr(workload at the start of a period + job <= v), the last v first.
    backlog: Backwards,
    /// Work beyond which nothing is computed.
    reach: usize,
    /// The work of t steps and a job.
    with_job: Vec<Vec<f64>>,
    /// The probabilities that the server has nothing to do k steps after its idle part.
    idle: Vec<f64>,
}

impl<'a> ShareTerms<'a> {
    /// The terms of jobs of law `job` for shares that look at no more than `most` work.
    pub(super) fn new(responses: &'a LatticeResponses<'a>, job: &[f64], most: usize) -> Self {
        let LatticeQueue {
            work,
            budget_steps: budget,
            period_steps: period,
        } = responses.queue;
        let (budget, period) = (*budget, *period);
        let start = responses.start;
        let reach = start.len().max(budget) + work.reach(period) + job.len() + 1;
        let columns = (most + 1).min(reach).max(budget + 1);
        let transform = Transform::holding(start.len() + job.len());
        let mut sums = product(&transform.forward(start), &transform.forward(job));
        transform.inverse(&mut sums, &mut transform.scratch());
        let mut sum = 0.0;
        let cumulative = sums.iter().map(|value| {
            sum += value.re;
            sum
        });
        let mut backlog: Vec<f64> = cumulative.take(columns).collect();
        let all = backlog.last().copied().unwrap_or(0.0);
        backlog.resize(columns, all);
        let longest = work.reach(budget) + job.len();
        Self {
            responses,
            backlog: Backwards::of(&backlog, columns),
            reach,
            with_job: work.rows(budget, job, |_| columns.min(longest)),
            idle: responses.passages.empty(start, period - budget, budget),
        }
    }

    /// The share of responses that take no more than `steps` and less than another step, towards the side.
    pub(super) fn within(&self, steps: usize) -> f64 {
        let period = self.responses.queue.period_steps;
        let (first, last, lead) = match self.responses.side {
            BracketSide::Pessimistic if steps == 0 => return 0.0,
            BracketSide::Pessimistic => (1, period, steps - 1),
            BracketSide::Optimistic => (0, period - 1, steps + 2),
        };
        let deferrable = self.responses.kind == BudgetUse::Deferrable;
        let budget = self.responses.queue.budget_steps;
        let place = |n: usize| match n + lead {
            done_by if deferrable && done_by < period => self.arrived(n, done_by.min(budget)),
            done_by => self.done(n, given(self.responses.queue, self.responses.kind, done_by)),
        };
        let mut sum: f64 = (first..=last).map(place).sum();
        if deferrable {
            sum -= self.wasted_in_same_period(lead);
        }
        (sum / period as f64).clamp(0.0, 1.0)
    }

    /// The probability that workload, the arrivals of `n` steps and a job are no more than `work`.
    fn arrived(&self, n: usize, work: usize) -> f64 {
        self.backlog
            .convolved(&self.responses.passages.work[n], work)
    }

    /// The probability that a job that comes at step `n` is done by the time that `work` is given.
    fn done(&self, n: usize, work: usize) -> f64 {
        let work = match self.responses.side {
            BracketSide::Optimistic if work >= self.reach => return 1.0,
            _ => work.min(self.reach - 1),
        };
        let queue = self.responses.queue;
        let since = n.saturating_sub(queue.period_steps - queue.budget_steps);
        (self.arrived(n, work) - self.wasted(since, work)).clamp(0.0, 1.0)
    }

    /// The part of [`Self::arrived`] in which the server had nothing to do meanwhile, so that given CPU time passed unused
    /// and the job is not done: for a job that comes `since` steps after the idle part of the period.
    fn wasted(&self, since: usize, work: usize) -> f64 {
        let term = |steps: usize| {
            let idle = since - steps;
            let arrived = self.with_job[steps].get(work.checked_sub(idle)?)?;
            Some(self.idle[idle] * arrived)
        };
        (1..=since).filter_map(term).sum()
    }

    /// The same part as [`Self::wasted`], for jobs that are done in the period that they come in,
    /// `lead` steps after they come, summed over the steps at which they can.
    fn wasted_in_same_period(&self, lead: usize) -> f64 {
        let LatticeQueue {
            budget_steps: budget,
            period_steps: period,
            ..
        } = *self.responses.queue;
        let (passages, start) = (self.responses.passages, self.responses.start);
        let last = budget.min(period - 1);
        let mut wasted = 0.0;
        if lead < last {
            let mut before = 0.0;
            let sums = passages.empty(start, 0, last).into_iter().map(|p| {
                before += p;
                before
            });
            let started: Vec<f64> = std::iter::once(0.0).chain(sums).collect();
            let terms = 1..=last - lead;
            wasted += terms
                .map(|t| {
                    self.with_job[t].get(t + lead).unwrap_or(&0.0) * started[last - lead - t + 1]
                })
                .sum::<f64>();
        }
        if lead < budget {
            let elapsed = budget - lead;
            let latest = (period - 1).saturating_sub(budget);
            let empty = passages.empty_summed(start, latest, budget);
            let term =
                |j: usize| empty[j] * self.with_job[elapsed - j].get(budget - j).unwrap_or(&0.0);
            wasted += (0..elapsed).map(term).sum::<f64>();
        }
        wasted
    }
}

#[cfg(test)]
mod tests {
    use super::super::boundary::Passages;
    use super::super::compound::LatticeWork;
    use super::super::equilibrium;
    use super::*;
    use crate::Unwatched;

    const SIZES: [f64; 8] = [0.0, 0.2, 0.0, 0.5, 0.2, 0.0, 0.0, 0.1];

    /// Checks the responses of a small queue on both servers, towards both sides.
    fn each(
        (budget_steps, period_steps): (usize, usize),
        most: impl Fn(&LatticeQueue) -> usize,
        check: impl Fn(&LatticeResponses<'_>),
    ) {
        let queue = LatticeQueue {
            work: LatticeWork {
                jobs_per_step: 0.14,
                sizes: SIZES.to_vec(),
            },
            budget_steps,
            period_steps,
        };
        let passages = Passages::reaching(&queue, most(&queue));
        for kind in [BudgetUse::Deferrable, BudgetUse::Periodic] {
            for side in [BracketSide::Optimistic, BracketSide::Pessimistic] {
                let start = equilibrium::workload(&queue, &passages, side, (1e-7, &Unwatched));
                check(&LatticeResponses {
                    queue: &queue,
                    passages: &passages,
                    start: &start,
                    kind,
                    side,
                });
            }
        }
    }

    #[test]
    fn every_share_is_the_one_of_the_whole_distribution() {
        let length = 60;
        let most = |queue: &LatticeQueue| work_within(queue, BudgetUse::Deferrable, length);
        each((7, 11), most, |responses| {
            let all = responses.of(&SIZES, (length, 1), &Unwatched);
            let all = all.unwrap_or_default();
            let terms = ShareTerms::new(responses, &SIZES, most(responses.queue));
            assert_eq!(all.len(), length);
            for (steps, whole) in all.iter().enumerate() {
                let share = terms.within(steps);
                let (kind, side) = (responses.kind, responses.side);
                assert!(
                    (share - whole).abs() < 1e-12,
                    "{kind:?} {side:?} {steps}: {share} {whole}"
                );
            }
        });
    }

    /// A place stands for those before it or after it, on the side that keeps a bound one.
    #[test]
    fn fewer_places_give_wider_bounds() {
        each(
            (8, 12),
            |_| 0,
            |responses| {
                let of = |stride| responses.of(&SIZES, (60, stride), &Unwatched);
                let (all, few) = (of(1).unwrap_or_default(), of(4).unwrap_or_default());
                assert_eq!((all.len(), few.len()), (60, 60));
                for (k, (all_places, few_places)) in all.iter().zip(&few).enumerate() {
                    let wrong = match responses.side {
                        BracketSide::Pessimistic => few_places - all_places,
                        BracketSide::Optimistic => all_places - few_places,
                    };
                    let (kind, side) = (responses.kind, responses.side);
                    let what = format!("{kind:?} {side:?} {k}: {all_places} {few_places}");
                    assert!(wrong < 1e-12 && wrong > -0.45, "{what}");
                }
            },
        );
    }
}
