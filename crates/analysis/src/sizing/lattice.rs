//! Budgets counted in parts of the execution times' common divisor, on which the exact method
//! solves the queue.

use tailbound_time::Duration;

use super::{Choice, SizedBudget, SizingQuery};
use crate::AnalysisError;
use crate::Promise;
use crate::response_time::BudgetUse;

/// Budgets are first tried in such parts of the mean execution time.
const COARSE: u64 = 4;
/// Then in as many as make about so many of a period, within these limits.
const PARTS: f64 = 250.0;
const FINE: (u64, u64) = (8, 64);
/// The best choice is refined to such a part.
const FINEST: u64 = 128;
/// Beyond so many steps of budget a lattice is not refined.
const MOST_STEPS: u64 = 4_000;
/// What a probability may be wrong by while searching, as a part of the share that is promised
/// nothing; the bounds count, so that a budget that is told is enough for sure.
const TOLERANCE: f64 = 0.005;
/// The same on the coarse lattice, which only says where to look.
const ROUGHLY: f64 = 0.05;

/// A budget in steps, and the margin that it leaves.
type Tried = (u64, f64);

/// Budgets of one period, counted in parts of the stride of the execution times.
struct BudgetSearch<'a> {
    query: &'a SizingQuery,
    kind: BudgetUse,
    period: Duration,
    /// Nanoseconds per stride.
    stride: Duration,
    /// Steps per stride.
    per_stride: u64,
}

impl<'a> BudgetSearch<'a> {
    /// A lattice of which a mean execution time holds about `parts` steps.
    fn new(query: &'a SizingQuery, kind: BudgetUse, period: Duration, parts: u64) -> Self {
        let stride = query.queue.stride();
        let mean_ns = query.queue.mean_execution_time().as_nanos() as f64;
        let per_stride = (parts as f64 * stride.as_nanos() as f64 / mean_ns).round();
        Self {
            query,
            kind,
            period,
            stride,
            per_stride: (per_stride as u64).max(1),
        }
    }

    /// Steps in a length, rounded down.
    fn steps_in(&self, nanoseconds: f64) -> u64 {
        (nanoseconds * self.per_stride as f64 / self.stride.as_nanos() as f64) as u64
    }

    fn step_ns(&self) -> f64 {
        self.stride.as_nanos() as f64 / self.per_stride as f64
    }

    fn resolution(&self) -> Duration {
        Duration::from_nanos(self.stride.as_nanos().div_ceil(self.per_stride))
    }

    /// The least budget on this lattice, from about where it lies and the slope of the margin
    /// there, both by nanoseconds.
    fn search(&self, (guess_ns, slope): (f64, f64)) -> Result<Option<SizedBudget>, AnalysisError> {
        let whole = self.steps_in(self.period.as_nanos() as f64);
        let floor = self.steps_in(self.query.queue.utilisation() * self.period.as_nanos() as f64);
        if whole <= floor {
            return Ok(None);
        }
        let guess = self.steps_in(guess_ns) + 1;
        let found = self.near(guess, slope * self.step_ns(), (floor, whole))?;
        Ok(found.map(|steps| SizedBudget {
            budget: self.budget(steps),
            resolution: self.resolution(),
        }))
    }

    fn budget(&self, steps: u64) -> Duration {
        let product = u128::from(self.stride.as_nanos()) * u128::from(steps);
        let budget = product.div_ceil(u128::from(self.per_stride));
        Duration::from_nanos(u64::try_from(budget).unwrap_or(u64::MAX)).min(self.period)
    }

    /// By how much so many steps keep the promise that they keep least, for sure: below zero if they
    /// do not keep it.
    fn margin(&self, steps: u64, tolerance: f64) -> Result<f64, AnalysisError> {
        let kind = self.kind;
        let steps = (steps, self.per_stride);
        let solved = self
            .query
            .queue
            .solve_with_steps(kind, steps, self.period, tolerance);
        let found = match solved {
            Ok(found) => found,
            // So near to saturation that no answer comes in time: not for sure.
            Err(AnalysisError::Overloaded { .. } | AnalysisError::NotAnalysed { .. }) => {
                return Ok(-1.0);
            }
            Err(error) => return Err(error),
        };
        let promises = self.query.promises.iter();
        let margin = |promise: &Promise| found.cdf(promise.latency).lower - promise.probability;
        Ok(promises.map(margin).fold(f64::INFINITY, f64::min))
    }

    /// The fewest steps that are enough, between `low`, which is not, and `high`, which is; each with
    /// its margin. Guesses by the chord, and halves now and then where that creeps.
    fn fewest(
        &self,
        mut low: Tried,
        mut high: Tried,
        tolerance: f64,
    ) -> Result<(Tried, Tried), AnalysisError> {
        let mut turn = 0;
        while high.0 - low.0 > 1 {
            turn += 1;
            let width = high.0 - low.0;
            let chord = width as f64 * low.1 / (low.1 - high.1);
            let offset = if turn % 3 == 0 {
                width / 2
            } else {
                chord as u64
            };
            let next = low.0 + offset.clamp(1, width - 1);
            let margin = self.margin(next, tolerance)?;
            if margin < 0.0 {
                low = (next, margin);
            } else {
                high = (next, margin);
            }
        }
        Ok((low, high))
    }

    /// The fewest steps that are enough, from a guess and the slope of the margin per step;
    /// `None` if even the whole period is not shown to be.
    fn near(
        &self,
        guess: u64,
        slope: f64,
        (floor, whole): (u64, u64),
    ) -> Result<Option<u64>, AnalysisError> {
        let tolerance = TOLERANCE * self.query.promised_nothing();
        let mut at = guess.clamp(floor + 1, whole);
        let (mut low, mut high) = ((floor, -1.0), None);
        loop {
            let margin = self.margin(at, tolerance)?;
            let reach = (margin.abs() / slope.max(1e-12)).ceil().clamp(1.0, 1e9) as u64;
            if margin < 0.0 {
                low = (at, margin);
                if at == whole {
                    return Ok(None);
                }
                at = (at + reach).min(whole);
            } else {
                high = Some((at, margin));
                at = at.saturating_sub(reach).max(floor + 1);
            }
            match high {
                Some(high) if low.0 >= at || high.0 <= at => {
                    return Ok(Some(self.fewest(low, high, tolerance)?.1.0));
                }
                _ => {}
            }
        }
    }
}

/// The least budget at a period: roughly on a coarse lattice, then on a fine one; the whole period
/// where a search does not tell and `whole_suffices`.
pub(super) fn least_budget(
    query: &SizingQuery,
    kind: BudgetUse,
    period: Duration,
    whole_suffices: bool,
) -> Result<Option<SizedBudget>, AnalysisError> {
    let load_ns = query.queue.utilisation() * period.as_nanos() as f64;
    let coarse = BudgetSearch::new(query, kind, period, COARSE);
    let whole = coarse.steps_in(period.as_nanos() as f64);
    let floor = coarse.steps_in(load_ns);
    // Where it lies, and how fast the margin grows there.
    let mut guess = (period.as_nanos() as f64, 1.0 / period.as_nanos() as f64);
    if whole > floor {
        let roughly = ROUGHLY * query.promised_nothing();
        let most = coarse.margin(whole, roughly)?;
        if most >= 0.0 {
            let (low, high) = coarse.fewest((floor, -1.0), (whole, most), roughly)?;
            let share = -low.1 / (high.1 - low.1);
            let slope = (high.1 - low.1) / coarse.step_ns();
            guess = ((low.0 as f64 + share) * coarse.step_ns(), slope);
        }
    }
    let mean = query.queue.mean_execution_time().as_secs_f64();
    let parts = (PARTS * mean / period.as_secs_f64()).round() as u64;
    let fine = BudgetSearch::new(query, kind, period, parts.clamp(FINE.0, FINE.1));
    let found = fine.search(guess)?;
    Ok(found.or(whole_suffices.then(|| SizedBudget {
        budget: period,
        resolution: fine.resolution(),
    })))
}

/// The budget of `coarse` on a finer lattice, as long as that is tractable.
pub(super) fn refined(
    query: &SizingQuery,
    kind: BudgetUse,
    period: Duration,
    coarse: &Choice,
) -> Result<Option<SizedBudget>, AnalysisError> {
    let Some(budget) = coarse.budget else {
        return Ok(None);
    };
    let before = SizedBudget {
        budget,
        resolution: coarse.resolution,
    };
    let lattice = BudgetSearch::new(query, kind, period, FINEST);
    let middle = budget.as_nanos() as f64 - 0.5 * coarse.resolution.as_nanos() as f64;
    if lattice.steps_in(budget.as_nanos() as f64) > MOST_STEPS {
        return Ok(Some(before));
    }
    let slope = 0.5 / period.as_nanos() as f64;
    let found = lattice.search((middle, slope))?;
    Ok(found
        .filter(|found| found.budget <= budget)
        .or(Some(before)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use tailbound_model::{PercentagePoints, ReservationServer};

    use super::super::ServerKind;
    use super::*;
    use crate::response_time::PoissonQueue;

    /// The steps of a search have divisors in common with the parts of a stride now and then.
    #[test]
    fn steps_with_a_common_divisor_are_answered_as_without() {
        let period = Duration::from_millis(10);
        let query = SizingQuery {
            queue: PoissonQueue {
                rate: "200/s".parse().unwrap(),
                execution_times: vec![(Duration::from_millis(2), 1.0)],
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: 0.99,
                latency: Duration::from_millis(50),
            }],
            kind: ServerKind::Deferrable,
            periods: vec![period],
            margin: PercentagePoints(0.0),
        };
        let margin = |steps, parts| {
            let lattice = BudgetSearch::new(&query, BudgetUse::Deferrable, period, parts);
            lattice.margin(steps, 1e-6).unwrap()
        };
        let reduced = margin(11, 4);
        assert!(reduced > 0.0 && reduced < 0.01, "{reduced}");
        for times in [2, 4, 16] {
            assert!((margin(11 * times, 4 * times) - reduced).abs() < 1e-9);
        }
        assert!((margin(20, 8) - margin(5, 2)).abs() < 1e-9);
        let found = least_budget(&query, BudgetUse::Deferrable, period, false).unwrap();
        let budget = found.expect("it can be kept").budget;
        assert!(budget > Duration::from_micros(4_800) && budget < Duration::from_micros(4_900));
    }
}
