//! The least budget by halving, one solution of the queue per guess: for servers that follow the
//! arrivals, and for execution times of many values.

use tailbound_distribution::Evidence;
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::{SizedBudget, SizingQuery};
use crate::AnalysisError;
use crate::response_time::{BudgetUse, PoissonQueue};

/// More different execution times than this are halved for.
const MOST_VALUES: usize = 16;
/// The same for the longest, in common divisors of all.
const MOST_STRIDES: u64 = 128;
/// A period is looked at in about so many parts.
const PARTS: u64 = 64;

/// The kind of server that the exact lattice search is for; `None` where halving has to do.
pub(super) fn exact_kind(query: &SizingQuery) -> Option<BudgetUse> {
    let kind = match query.kind {
        super::ServerKind::Deferrable => BudgetUse::Deferrable,
        super::ServerKind::Periodic => BudgetUse::Periodic,
        _ => return None,
    };
    let queue = &query.queue;
    let times = queue.execution_times.iter().map(|(time, _)| *time);
    let longest = times.max().unwrap_or(Duration::ZERO).as_nanos();
    let few = queue.execution_times.len() <= MOST_VALUES;
    (few && longest / queue.stride().as_nanos().max(1) <= MOST_STRIDES).then_some(kind)
}

/// What halving takes for granted.
pub(super) fn assumption(query: &SizingQuery) -> String {
    format!(
        "budgets of a {} server are looked at in about {PARTS} parts of a period, by halving: what \
         is told was shown to be enough, and a budget less by the resolution was not; that more \
         budget is never worse is taken for granted between them",
        query.kind
    )
}

/// The least of the budgets in equal steps at a period; `None` if none of them is shown to be
/// enough.
///
/// # Errors
/// As of [`PoissonQueue::solve`], where a load near the bandwidth counts as not enough.
pub(super) fn least_budget(
    query: &SizingQuery,
    period: Duration,
) -> Result<Option<SizedBudget>, AnalysisError> {
    let step_ns = step_ns(query.queue.stride().as_nanos().max(1), period.as_nanos());
    let budget = |steps: u64| {
        let budget_ns = steps.saturating_mul(step_ns);
        Duration::from_nanos(budget_ns).min(period)
    };
    let load_ns = query.queue.utilisation() * period.as_nanos() as f64;
    let mut too_little = (load_ns / step_ns as f64) as u64;
    let mut enough = period.as_nanos().div_ceil(step_ns);
    if too_little >= enough {
        return Ok(None);
    }
    let Some(mut evidence) = keeps(query, budget(enough), period)? else {
        return Ok(None);
    };
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        match keeps(query, budget(middle), period)? {
            Some(of_middle) => (enough, evidence) = (middle, of_middle),
            None => too_little = middle,
        }
    }
    Ok(Some(SizedBudget {
        budget: budget(enough),
        resolution: Duration::from_nanos(step_ns),
        evidence,
    }))
}

/// About a 64th of the period, such that budgets and execution times have large common divisors: a
/// whole part or a multiple of the stride.
fn step_ns(stride_ns: u64, period_ns: u64) -> u64 {
    let aimed = (period_ns / PARTS).max(1);
    if stride_ns <= aimed {
        return aimed.div_ceil(stride_ns) * stride_ns;
    }
    let least = stride_ns.div_ceil(aimed);
    let part = (least..=least.saturating_mul(2)).find(|part| stride_ns.is_multiple_of(*part));
    part.map_or(aimed, |part| stride_ns / part)
}

/// The evidence by which the budget is shown to keep every promise; `None` if it is not.
fn keeps(
    query: &SizingQuery,
    budget: Duration,
    period: Duration,
) -> Result<Option<Evidence>, AnalysisError> {
    let queue = PoissonQueue {
        server: query.kind.with(budget, period),
        ..query.queue.clone()
    };
    let single = queue.batches.iter().all(|(jobs, _)| *jobs == 1);
    let solved = match queue.server {
        ReservationServer::Deferrable { .. } | ReservationServer::Periodic { .. } if single => {
            queue.on_a_lattice()
        }
        _ => queue.solve(),
    };
    match solved {
        Ok(responses) => {
            let mut promises = query.promises.iter();
            let kept =
                promises.all(|promise| responses.cdf(promise.latency).lower >= promise.probability);
            Ok(kept.then(|| responses.evidence()))
        }
        // So near to saturation that no answer comes in time: not for sure.
        Err(AnalysisError::Overloaded { .. } | AnalysisError::NotAnalysed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{ServerKind, size};
    use super::*;
    use crate::Promise;
    use tailbound_model::PercentagePoints;
    use tailbound_time::Rate;

    fn query(kind: ServerKind, execution_times: Vec<(Duration, f64)>) -> SizingQuery {
        SizingQuery {
            queue: PoissonQueue {
                rate: Rate::per_second(100.0).unwrap(),
                execution_times,
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: 0.95,
                latency: Duration::from_millis(50),
            }],
            kind,
            periods: vec![Duration::from_millis(10)],
            margin: PercentagePoints(5.0),
        }
    }

    #[test]
    fn steps_divide_or_hold_the_stride() {
        assert_eq!(step_ns(2_000_000, 10_000_000), 2_000_000 / 16);
        assert_eq!(step_ns(1_000, 10_000_000) % 1_000, 0);
        assert_eq!(step_ns(7, 10), 1);
    }

    #[test]
    fn what_is_told_is_enough_and_a_step_less_is_not() {
        for kind in [ServerKind::Polling, ServerKind::ConstantBandwidth] {
            let query = query(kind, vec![(Duration::from_millis(2), 1.0)]);
            let found = size(&query).unwrap();
            let choice = &found.choices[found.best.unwrap()];
            let budget = choice.budget.unwrap();
            let evidence = keeps(&query, budget, choice.period).unwrap();
            assert_eq!(evidence, Some(found.evidence));
            let less = budget - choice.resolution;
            assert_eq!(keeps(&query, less, choice.period).unwrap(), None);
        }
    }

    #[test]
    fn batches_on_servers_that_follow_the_arrivals_are_refused() {
        for kind in [ServerKind::Polling, ServerKind::ConstantBandwidth] {
            let mut query = query(kind, vec![(Duration::from_millis(2), 1.0)]);
            query.queue.batches = vec![(2, 1.0)];
            let refused = size(&query).unwrap_err();
            assert!(matches!(refused, AnalysisError::NotAnalysed { .. }));
        }
    }

    #[test]
    fn samples_in_nanoseconds_are_sized() {
        let value = |index: u64| Duration::from_nanos(2_000_003 + index * 9_973);
        let samples: Vec<_> = (0..40).map(|index| (value(index), 0.025)).collect();
        let query = query(ServerKind::Deferrable, samples);
        assert_eq!(exact_kind(&query), None);
        let found = size(&query).unwrap();
        let choice = &found.choices[found.best.unwrap()];
        let evidence = keeps(&query, choice.budget.unwrap(), choice.period).unwrap();
        assert_eq!(evidence, Some(Evidence::Bound));
        assert_eq!(found.evidence, Evidence::Bound);
    }
}
