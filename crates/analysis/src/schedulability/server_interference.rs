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

use tailbound_time::Duration;

use super::PriorityOrder;
use super::response_time::{FixedPriorityAnalyzer, ResponseTimes};
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

/// By which rule a reservation server keeps and regains its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerRule {
    /// Full at every replenishment; keeps its budget while it has nothing to do.
    Deferrable,
    /// Full at every replenishment; its budget passes with time, used or not.
    Periodic,
    /// Full at every replenishment; loses its budget as soon as it has nothing to do.
    Polling,
    /// Regains what it used one period after that use began.
    Sporadic,
}

/// A reservation server, as those below it see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterferingServer {
    rule: ServerRule,
    task: SporadicTask,
}

impl InterferingServer {
    /// A server with a budget per period.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a budget or a period of zero, or a budget beyond the period;
    /// [`AnalysisError::OutOfRange`] beyond [`LONGEST_PARAMETER`](super::LONGEST_PARAMETER).
    pub fn new(
        rule: ServerRule,
        budget: Duration,
        period: Duration,
    ) -> Result<Self, AnalysisError> {
        let Some(rest) = period.checked_sub(budget).filter(|_| !budget.is_zero()) else {
            let what = format!(
                "a reservation server has the budget {budget} per period {period}; the budget must \
                 be above zero and at most the period"
            );
            return Err(AnalysisError::Invalid { what });
        };
        let task = SporadicTask::implicit(budget, period)?;
        let task = match rule {
            ServerRule::Deferrable => task.with_jitter(rest)?,
            ServerRule::Periodic | ServerRule::Polling | ServerRule::Sporadic => task,
        };
        Ok(Self { rule, task })
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> ServerRule {
        self.rule
    }

    /// The budget per period.
    #[must_use]
    pub const fn budget(&self) -> Duration {
        self.task.execution()
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.task.period()
    }

    /// The task that takes as much from lower priorities as the server does at worst. Its own
    /// response time means nothing: it says nothing of the work that the server serves.
    #[must_use]
    pub const fn as_interfering_task(&self) -> SporadicTask {
        self.task
    }

    /// The most that the server takes in a window of the given length, from when a lower priority
    /// wants the CPU on: ceil((w + J) / T) C, but never more than the window; saturates.
    #[must_use]
    pub fn interference_rounded_up(&self, window: Duration) -> Duration {
        let reach = u128::from(window.as_nanos()) + u128::from(self.task.jitter().as_nanos());
        if window.is_zero() {
            return Duration::ZERO;
        }
        let periods = reach.div_ceil(u128::from(self.period().as_nanos()));
        let taken = periods * u128::from(self.budget().as_nanos());
        u64::try_from(taken)
            .map_or(window, Duration::from_nanos)
            .min(window)
    }
}

/// The worst-case response times of `tasks`, in `order`, below reservation servers that all have
/// higher priorities than they. For servers between tasks, give
/// [`InterferingServer::as_interfering_task`] its place in
/// [`response_times`](super::response_time::response_times).
///
/// # Errors
/// As of [`response_times`](super::response_time::response_times).
pub fn response_times_below(
    servers: &[InterferingServer],
    tasks: &[SporadicTask],
    order: &PriorityOrder,
    blocking: &[Duration],
) -> Result<ResponseTimes, AnalysisError> {
    let mut ranked: Vec<_> = servers.iter().map(|server| server.task).collect();
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
    Ok(ResponseTimes {
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
            let server = InterferingServer::new(rule, MS(2), MS(6)).unwrap();
            let responses = response_times_below(&[server], &tasks, &order, &[]).unwrap();
            responses.tasks[0].response_time.unwrap()
        };
        // Two budgets, then three: 2 + 2 + 3 = 7.
        assert_eq!(longest(ServerRule::Deferrable), MS(7));
        for rule in [
            ServerRule::Periodic,
            ServerRule::Polling,
            ServerRule::Sporadic,
        ] {
            assert_eq!(longest(rule), MS(5));
        }
    }

    #[test]
    fn interference_is_a_staircase_below_the_window() {
        let server = InterferingServer::new(ServerRule::Deferrable, MS(2), MS(6)).unwrap();
        let taken: Vec<_> = [0, 1, 2, 3, 4, 8, 9]
            .map(|window| server.interference_rounded_up(MS(window)).as_nanos() / 1_000_000)
            .into();
        assert_eq!(taken, [0, 1, 2, 3, 4, 4, 6]);
    }

    #[test]
    fn a_budget_beyond_the_period_is_refused() {
        assert!(InterferingServer::new(ServerRule::Polling, MS(7), MS(6)).is_err());
        assert!(InterferingServer::new(ServerRule::Polling, MS(0), MS(6)).is_err());
        assert!(InterferingServer::new(ServerRule::Deferrable, MS(6), MS(6)).is_ok());
    }
}
