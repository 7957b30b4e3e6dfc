//! Global fixed priorities on identical CPUs, preemptive: upper bounds of response times.
//!
//! Bertogna & Cirinei, *Response-time analysis for globally scheduled symmetric multiprocessor
//! platforms*, RTSS 2007. The bound of a task rests on those of all higher priorities,
//! so that the test is not OPA-compatible.

use tailbound_time::Duration;

use super::PriorityOrder;
use super::global_workload::{GlobalBound, GlobalTask, MOST_STEPS, global_bound, global_tasks};
use crate::AnalysisError;
use crate::sporadic_task::SporadicTask;

/// The name of the method.
pub const METHOD: &str =
    "response-time analysis for global fixed priorities (Bertogna & Cirinei 2007)";
/// Assumptions under which the method holds.
pub const ASSUMPTIONS: &[&str] = &[
    "identical CPUs that are always available",
    "global fixed priorities; preemption and migration at no cost",
    "deadlines up to the periods; releases and execution times in whole nanoseconds",
    "tasks are independent, use one CPU at a time, and do not suspend themselves",
    "sufficient: a set that is not accepted may be schedulable",
];

/// Upper bounds under global fixed priorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalPriorityBounds {
    /// The method by name, with its source.
    pub method: &'static str,
    /// Assumptions under which the method holds.
    pub assumptions: &'static [&'static str],
    /// Per task, in the order of the tasks, an upper bound of its response time within its
    /// deadline. `None` where there is none, and for all tasks of lower priority than such a one.
    pub bounds: Vec<Option<Duration>>,
}

impl GlobalPriorityBounds {
    /// Whether the test proves that every job meets its deadline. `false` proves nothing.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.bounds.iter().all(Option::is_some)
    }
}

/// Bounds the response times of `tasks` on `cpus` CPUs, from the highest priority down.
///
/// # Errors
/// [`AnalysisError::Invalid`] for no CPU, a task with jitter, a deadline beyond the period, or an
/// order for another number of tasks; [`AnalysisError::OutOfRange`] where the execution times sum
/// up to too much.
pub fn sufficient_response_times(
    tasks: &[SporadicTask],
    order: &PriorityOrder,
    cpus: u32,
) -> Result<GlobalPriorityBounds, AnalysisError> {
    let ranked = global_tasks(&order.ranked(tasks)?, cpus)?;
    let mut bounded: Vec<(GlobalTask, u64)> = Vec::with_capacity(ranked.len());
    let mut steps_left = MOST_STEPS;
    for task in &ranked {
        let bound = global_bound(task, cpus, &mut steps_left, |window| {
            let above = bounded.iter();
            above.map(move |(other, response)| other.workload(window, *response))
        });
        match bound {
            GlobalBound::Within(bound) => bounded.push((*task, bound)),
            GlobalBound::None | GlobalBound::GivenUp => break,
        }
    }
    let mut bounds: Vec<_> = bounded
        .iter()
        .map(|(_, bound)| Some(Duration::from_nanos(*bound)))
        .collect();
    bounds.resize(ranked.len(), None);
    Ok(GlobalPriorityBounds {
        method: METHOD,
        assumptions: ASSUMPTIONS,
        bounds: order.unranked(&bounds),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_highest_priorities_have_a_cpu_each() {
        let ns = Duration::from_nanos;
        let task = |c, t| SporadicTask::implicit(ns(c), ns(t)).unwrap();
        let tasks = [task(9, 10), task(2, 4), task(3, 4)];
        let order = PriorityOrder::new(vec![2, 1, 0]).unwrap();
        let bounds = sufficient_response_times(&tasks, &order, 2).unwrap();
        assert_eq!(bounds.bounds, [None, Some(ns(2)), Some(ns(3))]);
        assert!(!bounds.accepted());
        assert!(
            sufficient_response_times(&tasks, &order, 3)
                .unwrap()
                .accepted()
        );
    }
}
