//! The least budget at a period by the exact method, to a ten-thousandth of itself.
//!
//! More budget is never worse on a deferrable or a periodic server: whatever arrives, work is done no later. So the
//! budgets that keep the promises are those from one number on, and the search encloses it between a budget that is
//! shown to be too little and one that is shown to be enough. The logarithm of the share of late responses falls
//! nearly in a line with the budget, so chords of it lead there in a few steps.

use num_rational::Ratio;
use tailbound_time::Duration;

use super::fraction::simplest_between;
use super::{NO_BUDGET, PeriodBudget, SizedBudget, SizingQuery};
use crate::response_time::{BudgetUse, EXACT_EVIDENCE, QueueResponses};
use crate::{AnalysisError, Outlook, SearchWatch};

/// The least budget is found to this part of itself,
const WITHIN: f64 = 1e-4;
/// of which rounding up to so many digits takes at most a tenth.
const DIGITS: i32 = 6;
const ENCLOSED: f64 = 0.9 * WITHIN;
/// Budgets are tried this far from where a chord points, in parts of the way to the next known budget,
const NEAR: f64 = 0.1;
/// and at most so far where the answer is nearly enclosed, in parts of its final width.
const REACH: f64 = 0.35;
/// A probability may be wrong by this part of what the promises leave and of the excess that the search is left with,
const TOLERANCE: f64 = 0.02;
/// and by less where that does not decide, down to this part.
const LEAST_TOLERANCE: f64 = 1e-7;
const FINER: f64 = 0.01;
/// Chords that creep give way to halves: every so many steps one halves.
const HALVED: u32 = 4;
/// The most steps of a search; halves alone would need fewer.
const MOST_STEPS: u32 = 80;

/// A budget that was tried.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// The budget in strides of the execution times.
    budget_strides: f64,
    /// By how much the late responses exceed what the promises leave, as a logarithm; enough is zero or below.
    excess: f64,
}

/// The search at one period.
struct BudgetSearch<'a> {
    query: &'a SizingQuery,
    watch: &'a dyn SearchWatch,
    kind: BudgetUse,
    period: Duration,
    stride_ns: f64,
    /// The most that a budget may be, which is enough.
    high: Tried,
    /// What was tried and is not shown to be enough.
    low: Tried,
    /// The largest budget that is shown to be too little.
    too_little: f64,
}

/// The least budget at a period, of which the whole is enough, as `own_cpu` shows.
pub(super) fn least_budget(
    query: &SizingQuery,
    kind: BudgetUse,
    period: Duration,
    (own_cpu, watch): (&QueueResponses, &dyn SearchWatch),
) -> Result<PeriodBudget, AnalysisError> {
    let stride_ns = query.queue.stride().as_nanos() as f64;
    let whole = period.as_nanos() as f64 / stride_ns;
    let load = query.queue.utilisation() * whole;
    if load >= whole {
        return Ok(NO_BUDGET);
    }
    let mut search = BudgetSearch {
        query,
        watch,
        kind,
        period,
        stride_ns,
        high: Tried {
            budget_strides: whole,
            excess: excess(query, own_cpu).0,
        },
        low: Tried {
            budget_strides: load,
            excess: all_late(query),
        },
        too_little: load,
    };
    let is_settled = search.enclose()?;
    Ok(PeriodBudget {
        sized: Some(search.sized_budget()),
        is_settled,
        refusal: None,
    })
}

impl BudgetSearch<'_> {
    /// Narrows the two ends down to the width that is asked for, or to what the method can tell apart, unless that is
    /// stopped.
    fn enclose(&mut self) -> Result<bool, AnalysisError> {
        let (mut low_weight, mut high_weight) = (1.0, 1.0);
        for step in 1..=MOST_STEPS {
            let width = self.high.budget_strides - self.low.budget_strides;
            let wanted = (ENCLOSED * self.high.budget_strides).max(1.0 / self.stride_ns);
            if width <= wanted {
                break;
            }
            if self.watch.is_stopped() {
                return Ok(false);
            }
            let late = self.low.excess * low_weight;
            let share = late / (late - self.high.excess * high_weight);
            let share = if step.is_multiple_of(HALVED) || !share.is_finite() {
                0.5
            } else {
                share
            };
            let Some(next) = self.near(self.low.budget_strides + share * width, wanted) else {
                break;
            };
            (low_weight, high_weight) = if self.narrow(next)? {
                (low_weight * 0.5, 1.0)
            } else {
                (1.0, high_weight * 0.5)
            };
        }
        // The excess jumps where a budget holds one more whole job, so the least budget often is a simple one.
        match self.between(self.low.budget_strides, self.high.budget_strides) {
            Some(simplest) => self.narrow(simplest).map(|_| true),
            None => Ok(true),
        }
    }

    /// Tries a budget between the ends, which becomes one of them; whether it is enough.
    fn narrow(&mut self, budget: Ratio<u64>) -> Result<bool, AnalysisError> {
        let (excess, verdict) = self.decided(budget)?;
        let budget = in_strides(budget);
        let tried = Tried {
            budget_strides: budget,
            excess,
        };
        if verdict == Outlook::Kept {
            self.high = tried;
            return Ok(true);
        }
        self.low = tried;
        if verdict == Outlook::Missed {
            self.too_little = budget;
        }
        Ok(false)
    }

    /// The simplest budget in a range, if that lies between the ends.
    fn between(&self, low: f64, high: f64) -> Option<Ratio<u64>> {
        simplest_between(low, high).filter(|fraction| {
            let budget = in_strides(*fraction);
            budget > self.low.budget_strides && budget < self.high.budget_strides
        })
    }

    /// The simplest budget near `aim`, between the ends.
    fn near(&self, aim: f64, wanted: f64) -> Option<Ratio<u64>> {
        let (low, high) = (self.low.budget_strides, self.high.budget_strides);
        // Where a chord leads next to an end, that end is right, and the other has to come near.
        let apart = (0.6 * wanted).min(0.5 * (high - low));
        let aim = aim.clamp(low + apart, high - apart);
        let room = (aim - low).min(high - aim);
        let reach = (NEAR * room).max((REACH * wanted).min(0.6 * room));
        self.between(aim - reach, aim + reach)
    }

    /// The excess of a budget and what it says, as precisely as it takes to say anything.
    fn decided(&self, budget: Ratio<u64>) -> Result<(f64, Outlook), AnalysisError> {
        let left = self.query.promised_nothing();
        let mut part = TOLERANCE * (self.low.excess - self.high.excess).clamp(0.0, 1.0);
        loop {
            let tolerance = part.max(LEAST_TOLERANCE) * left;
            let Some((excess, verdict)) = self.tried(budget, tolerance)? else {
                return Ok((all_late(self.query), Outlook::Undecided));
            };
            if verdict != Outlook::Undecided || part <= LEAST_TOLERANCE {
                return Ok((excess, verdict));
            }
            part *= FINER;
        }
    }

    /// `None` so near to saturation, or on so fine a lattice, that no answer comes in time.
    fn tried(
        &self,
        budget: Ratio<u64>,
        tolerance: f64,
    ) -> Result<Option<(f64, Outlook)>, AnalysisError> {
        let steps = (*budget.numer(), *budget.denom());
        let queue = &self.query.queue;
        match queue.solve_with_steps(self.kind, steps, self.period, tolerance) {
            Ok(responses) => Ok(Some(excess(self.query, &responses))),
            Err(AnalysisError::Overloaded { .. }) => {
                Ok(Some((all_late(self.query), Outlook::Missed)))
            }
            Err(AnalysisError::NotAnalysed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sized_budget(&self) -> SizedBudget {
        let budget_ns = (self.high.budget_strides * self.stride_ns).ceil();
        let digit_ns = 10_u64.pow((budget_ns.log10().floor() as i32 + 1 - DIGITS).max(0) as u32);
        let budget_ns = (budget_ns as u64).next_multiple_of(digit_ns);
        let budget = Duration::from_nanos(budget_ns).min(self.period);
        let too_little = Duration::from_nanos((self.too_little * self.stride_ns) as u64);
        debug_assert!(too_little < budget, "the ends are in order");
        SizedBudget {
            budget,
            resolution: budget.saturating_sub(too_little),
            evidence: EXACT_EVIDENCE,
        }
    }
}

fn in_strides(budget: Ratio<u64>) -> f64 {
    *budget.numer() as f64 / *budget.denom() as f64
}

/// The excess where no response is in time.
fn all_late(query: &SizingQuery) -> f64 {
    let promises = query.promises.iter();
    let of_one = promises.map(|promise| -(1.0 - promise.probability).ln());
    of_one.fold(0.0, f64::max)
}

/// By how much the responses that may be late exceed what the promises leave, as the logarithm of the worst ratio,
/// and whether the promises are kept or missed for sure.
fn excess(query: &SizingQuery, responses: &QueueResponses) -> (f64, Outlook) {
    let (mut most, mut verdict) = (f64::NEG_INFINITY, Outlook::Kept);
    for promise in &query.promises {
        let share = responses.cdf(promise.latency);
        let late = (1.0 - share.lower).max(f64::MIN_POSITIVE);
        most = most.max((late / (1.0 - promise.probability)).ln());
        if share.upper < promise.probability {
            verdict = Outlook::Missed;
        } else if share.lower < promise.probability && verdict == Outlook::Kept {
            verdict = Outlook::Undecided;
        }
    }
    (most, verdict)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use tailbound_model::{PercentagePoints, ReservationServer};

    use super::super::{Choice, ServerKind, size};
    use super::*;
    use crate::Promise;
    use crate::response_time::PoissonQueue;

    fn query(
        rate: &str,
        times: &[(f64, f64)],
        promise: (f64, f64),
        periods: &[f64],
    ) -> SizingQuery {
        let milliseconds = |one: f64| Duration::from_secs_f64_nearest(one * 1e-3);
        SizingQuery {
            queue: PoissonQueue {
                rate: rate.parse().unwrap(),
                execution_times: times
                    .iter()
                    .map(|(ms, p)| (milliseconds(*ms), *p))
                    .collect(),
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: promise.0,
                latency: milliseconds(promise.1),
            }],
            kind: ServerKind::Deferrable,
            periods: periods.iter().map(|period| milliseconds(*period)).collect(),
            margin: PercentagePoints(0.0),
        }
    }

    /// The share of responses in time on a reservation, by the exact method for it alone.
    fn in_time(query: &SizingQuery, budget: Duration, period: Duration) -> (f64, f64) {
        let queue = PoissonQueue {
            server: query.kind.with(budget, period),
            ..query.queue.clone()
        };
        let share = queue.solve().unwrap().cdf(query.promises[0].latency);
        (share.lower, share.upper)
    }

    /// The budget is enough, a ten-thousandth less is not, and the resolution says so.
    fn is_least(query: &SizingQuery, choice: &Choice) {
        let budget = choice.budget.expect("it can be kept");
        let promised = query.promises[0].probability;
        let (at_least, _) = in_time(query, budget, choice.period);
        assert!(at_least >= promised, "{choice:?}: {at_least}");
        let part = budget.as_nanos() as f64 * (1.0 - 1.01 * WITHIN) - 1.0;
        let (_, at_most) = in_time(query, Duration::from_nanos(part as u64), choice.period);
        assert!(at_most < promised, "{choice:?}: {at_most}");
        let resolution = choice.resolution.as_nanos() as f64;
        assert!(
            resolution <= WITHIN * budget.as_nanos() as f64 + 2.0,
            "{choice:?}"
        );
    }

    #[test]
    fn a_period_below_the_execution_time_needs_no_more_than_it_needs() {
        let query = query("100/s", &[(4.2, 1.0)], (0.99, 40.0), &[1.21]);
        let sizing = size(&query).unwrap();
        let choice = &sizing.choices[0];
        is_least(&query, choice);
        let bandwidth = choice.bandwidth().unwrap();
        assert!((bandwidth - 0.6515).abs() < 1e-4, "{bandwidth}");
    }

    #[test]
    fn budgets_are_least_at_periods_around_the_execution_time() {
        for kind in [ServerKind::Deferrable, ServerKind::Periodic] {
            let mut query = query("200/s", &[(2.0, 1.0)], (0.99, 50.0), &[0.7, 2.0, 9.3, 25.0]);
            query.kind = kind;
            for choice in &size(&query).unwrap().choices {
                is_least(&query, choice);
            }
        }
    }

    #[test]
    fn budgets_are_least_for_several_execution_times() {
        let times = [(1.0, 0.5), (3.0, 0.5)];
        let query = query("200/s", &times, (0.95, 40.0), &[1.5, 10.0]);
        for choice in &size(&query).unwrap().choices {
            is_least(&query, choice);
        }
    }

    /// From five whole jobs on a period of eight execution times keeps the promise (thesis, section 4.3).
    #[test]
    fn a_budget_of_whole_jobs_is_told_as_such() {
        let query = query("400/s", &[(1.0, 1.0)], (0.9, 3.0), &[8.0]);
        let choice = &size(&query).unwrap().choices[0];
        assert_eq!(choice.budget, Some(Duration::from_millis(5)));
    }

    #[test]
    fn every_promise_is_kept() {
        let mut query = query("200/s", &[(2.0, 1.0)], (0.99, 50.0), &[10.0]);
        let alone = size(&query).unwrap().choices[0].budget.unwrap();
        query.promises.push(Promise {
            probability: 0.5,
            latency: Duration::from_millis(3),
        });
        let both = size(&query).unwrap().choices[0].budget.unwrap();
        assert!(both > alone, "{both} {alone}");
        query.promises.remove(0);
        is_least(&query, &size(&query).unwrap().choices[0]);
    }
}
