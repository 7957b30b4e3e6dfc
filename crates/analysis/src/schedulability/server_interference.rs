//! What reservation servers take from the tasks below them under fixed priorities.
//!
//! Strosnider, Lehoczky & Sha, *The deferrable server algorithm for enhanced aperiodic
//! responsiveness in hard real-time environments*, IEEE Transactions on Computers 44(1), 1995;
//! Bernat & Burns, *New results on fixed priority aperiodic servers*, RTSS 1999; Sprunt, Sha &
//! Lehoczky, *Aperiodic task scheduling for hard-real-time systems*, Real-Time Systems 1, 1989.
//!
//! A deferrable server keeps its budget. It may use one at the end of a period and the next at
//! once, so that in a window of length w it takes up to ceil((w + T - C) / T) C: as a periodic task
//! with the jitter T - C. Polling, periodic and sporadic servers take what a periodic task would.

use tailbound_model::ServerKind;
use tailbound_time::Duration;

use super::PriorityOrder;
use super::response_time::{FixedPriorityAnalyzer, WorstCaseResponses};
use crate::AnalysisError;
use crate::sporadic_task::SporadicTask;

/// The method of [`response_times_below`].
pub const METHOD: &str = "response-time analysis with reservation servers as tasks, deferrable \
     ones with jitter T - C (Strosnider, Lehoczky & Sha 1995; Bernat & Burns 1999)";
/// What it takes for granted.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "fixed priorities, preemption at no cost",
    "servers never exceed their budget between two replenishments; sporadic ones replenish exactly \
     what was used, one period after its use began",
    "tasks are independent but for the given blocking, and do not suspend themselves",
    "exact without blocking where the highest priority alone is a deferrable server; otherwise an \
     upper bound",
];

/// The task that takes as much from lower priorities as a reservation server does at worst. Its own response
/// time says nothing of the work that the server serves.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a budget or a period of zero, or a budget beyond the period;
/// [`AnalysisError::OutOfRange`] beyond [`LONGEST_PARAMETER`](crate::LONGEST_PARAMETER);
/// [`AnalysisError::NotAnalysed`] for a rule by which a period may get more than its budget.
pub fn interfering_task(
    kind: ServerKind,
    budget: Duration,
    period: Duration,
) -> Result<SporadicTask, AnalysisError> {
    let Some(rest) = period.checked_sub(budget).filter(|_| !budget.is_zero()) else {
        let what = format!(
            "a reservation server has the budget {budget} per period {period}; the budget must \
             be above zero and at most the period"
        );
        return Err(AnalysisError::Invalid { what });
    };
    let task = SporadicTask::implicit(budget, period)?;
    match kind {
        ServerKind::Deferrable => task.with_jitter(rest),
        kind if kind.answers().is_limit => Ok(task),
        _ => Err(AnalysisError::NotAnalysed {
            reason: format!("a {kind} server may give more than its budget in a period"),
        }),
    }
}

/// The worst-case response times of `tasks`, in `order`, below reservation servers that all have
/// higher priorities than they, each as its [`interfering_task`]. Servers between tasks have their places in
/// [`response_times`](super::response_time::response_times).
///
/// # Errors
/// As of [`response_times`](super::response_time::response_times).
pub fn response_times_below(
    servers: &[SporadicTask],
    tasks: &[SporadicTask],
    order: &PriorityOrder,
    blocking: &[Duration],
) -> Result<WorstCaseResponses, AnalysisError> {
    let mut ranked = servers.to_vec();
    ranked.extend(order.ranked(tasks)?);
    let own = order.ranked_blocking(blocking)?;
    let mut ranked_blocking = Vec::new();
    if !own.is_empty() {
        ranked_blocking.resize(servers.len(), Duration::ZERO);
        ranked_blocking.extend(own);
    }
    let mut analyzer = FixedPriorityAnalyzer::new();
    let responses = analyzer.response_times(&ranked, &ranked_blocking)?;
    let below = responses.get(servers.len()..).unwrap_or_default();
    Ok(WorstCaseResponses {
        method: METHOD,
        assumptions: ASSUMPTIONS,
        tasks: order.unranked(below),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_deferrable_server_hits_back_to_back() {
        let tasks = [SporadicTask::implicit(MS(3), MS(20)).unwrap()];
        let order = PriorityOrder::as_given(1);
        let longest = |rule| {
            let server = interfering_task(rule, MS(2), MS(6)).unwrap();
            let responses = response_times_below(&[server], &tasks, &order, &[]).unwrap();
            responses.tasks[0].response_time.unwrap()
        };
        // Two budgets, then three: 2 + 2 + 3 = 7.
        assert_eq!(longest(ServerKind::Deferrable), MS(7));
        for rule in [
            ServerKind::Periodic,
            ServerKind::Polling,
            ServerKind::Sporadic,
        ] {
            assert_eq!(longest(rule), MS(5));
        }
    }

    #[test]
    fn a_budget_beyond_the_period_is_refused() {
        assert!(interfering_task(ServerKind::Polling, MS(7), MS(6)).is_err());
        assert!(interfering_task(ServerKind::Polling, MS(0), MS(6)).is_err());
        assert!(interfering_task(ServerKind::Deferrable, MS(6), MS(6)).is_ok());
        assert!(interfering_task(ServerKind::Burstable, MS(3), MS(6)).is_err());
    }
}
