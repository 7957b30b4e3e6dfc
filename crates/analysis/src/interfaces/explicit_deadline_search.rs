//! The least explicit-deadline periodic resource of a component (Easwaran, Anand and Lee 2007).
//!
//! Budget Θ, period Π and deadline Δ give a longest gap Π + Δ - 2Θ, which is least at Δ = Θ: no other
//! deadline needs less budget. Of all deadlines with which that budget suffices, the latest leaves the
//! scheduler above the most freedom. The pair is their bandwidth-deadline-optimal interface.

use tailbound_time::Duration;

use super::component::LocalScheduler;
use super::demand::Workload;
use super::search::{InterfaceSearch, LeastInterface, ResourceModel};
use crate::AnalysisError;

/// The least budget of this period for any deadline of the budget, and the latest deadline with
/// which it suffices, in [`LeastInterface::model`].
///
/// # Errors
/// As of [`InterfaceSearch::least_budget`].
pub fn least_explicit_deadline(
    workload: &Workload,
    scheduler: LocalScheduler,
    period: Duration,
    overhead: Duration,
) -> Result<LeastInterface, AnalysisError> {
    let with = |model: ResourceModel| InterfaceSearch {
        workload,
        scheduler,
        model,
        overhead,
    };
    // A deferrable server that nothing holds up gives its budget by Δ = Θ.
    let soonest = ResourceModel::Deferrable {
        jitter: Duration::ZERO,
    };
    let least = with(soonest).least_budget(period)?;
    let by = |deadline: Duration| with(ResourceModel::ExplicitDeadline { deadline });
    let suffices = |deadline: Duration| match by(deadline).test(least.budget, period) {
        Err(AnalysisError::NotAnalysed { .. }) => Ok(false),
        verdict => verdict.map(|verdict| verdict.schedulable),
    };
    let (mut good, mut bad) = (least.budget.as_nanos(), period.as_nanos() + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match suffices(Duration::from_nanos(middle))? {
            true => good = middle,
            false => bad = middle,
        }
    }
    let deadline = Duration::from_nanos(good);
    let verdict = by(deadline).test(least.budget, period)?;
    Ok(LeastInterface {
        model: ResourceModel::ExplicitDeadline { deadline },
        method: format!(
            "least budget, and the latest deadline with it (Easwaran, Anand and Lee 2007); {}",
            verdict.method
        ),
        ..least
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::SporadicTask;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Over all deadlines, none needs less, and no later one suffices.
        #[test]
        fn no_deadline_needs_less(
            raw in prop::collection::vec((1_u64..4, 6_u64..30), 1..4),
            period in 2_u64..8,
            by_priority in any::<bool>(),
        ) {
            let tasks = raw.iter().map(|(c, t)| SporadicTask::implicit(ns(*c), ns(*t)).unwrap());
            let workload = Workload::new(tasks.collect()).unwrap();
            let scheduler = match by_priority {
                true => LocalScheduler::FixedPriority,
                false => LocalScheduler::EarliestDeadlineFirst,
            };
            let each = (1..=period).map(|deadline| {
                let search = InterfaceSearch {
                    workload: &workload,
                    scheduler,
                    model: ResourceModel::ExplicitDeadline { deadline: ns(deadline) },
                    overhead: Duration::ZERO,
                };
                (search.least_budget(ns(period)).ok().map(|least| least.budget), ns(deadline))
            });
            let each: Vec<_> = each.filter_map(|(budget, deadline)| Some((budget?, deadline))).collect();
            let best = each.iter().min_by_key(|(budget, deadline)| (*budget, std::cmp::Reverse(*deadline)));
            let least = least_explicit_deadline(&workload, scheduler, ns(period), Duration::ZERO);
            match (best, least) {
                (Some((budget, deadline)), Ok(least)) => {
                    prop_assert_eq!(least.budget, *budget);
                    prop_assert_eq!(least.model, ResourceModel::ExplicitDeadline { deadline: *deadline });
                }
                (None, Err(_)) => {}
                (best, least) => prop_assert!(false, "{:?} {:?}", best, least),
            }
        }
    }
}
