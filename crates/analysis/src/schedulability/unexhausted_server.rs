//! Tasks in a reservation whose budget is never used up, below reservation servers of higher priority.
//!
//! While the budget of a deferrable server lasts, its tasks run at its priority as if there were no server. So their
//! response times are those below the other servers ([`server_interference`](super::server_interference)) as long as
//! the budget is not used up. It never is if the tasks, whose jobs are complete by those response times, execute for
//! no more than the budget in any window as long as the period: up to the first instant at which it were, the response
//! times hold, and in the period of that instant no more than the budget is executed, which is a contradiction. The work
//! in a window is bounded as by Bertogna & Cirinei, *Response-time analysis for globally scheduled symmetric
//! multiprocessor platforms*, RTSS 2007: the first job as late as its response time allows, all others at once.

use tailbound_time::Duration;

use crate::sporadic_task::SporadicTask;

/// The argument that a budget is never used up, for the method of a verdict.
pub const METHOD: &str =
    "the own budget is never used up (work in a window: Bertogna & Cirinei 2007)";

/// The most that a task executes in any window of the given length if each job is complete `response` after its
/// arrival; `None` of a task with jitter, or with more than one job at a time, for which the bound is not shown.
pub fn work_in_window(
    task: &SporadicTask,
    response: Duration,
    window: Duration,
) -> Option<Duration> {
    let (execution, period) = (task.execution(), task.period());
    if !task.jitter().is_zero() || response > period || response < execution {
        return None;
    }
    let reach_ns = window
        .checked_add(response)?
        .checked_sub(execution)?
        .as_nanos();
    let (jobs, rest_ns) = (reach_ns / period.as_nanos(), reach_ns % period.as_nanos());
    let last = execution.min(Duration::from_nanos(rest_ns));
    execution.checked_mul(jobs)?.checked_add(last)
}

/// Whether the budget is never used up by tasks with these response times below the other servers.
pub fn is_never_used_up(
    tasks: &[(SporadicTask, Duration)],
    budget: Duration,
    period: Duration,
) -> bool {
    let work = tasks
        .iter()
        .try_fold(Duration::ZERO, |sum, (task, response)| {
            sum.checked_add(work_in_window(task, *response, period)?)
        });
    work.is_some_and(|work| work <= budget)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_model::ServerKind;

    use super::*;
    use crate::schedulability::PriorityOrder;
    use crate::schedulability::server_interference::{interfering_task, response_times_below};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn task(execution_ms: u64, period_ms: u64) -> SporadicTask {
        SporadicTask::implicit(MS(execution_ms), MS(period_ms)).unwrap()
    }

    #[test]
    fn a_late_job_and_the_next_meet_in_one_window() {
        let work = |response, window| work_in_window(&task(8, 40), MS(response), MS(window));
        assert_eq!(work(8, 40), Some(MS(8)));
        assert_eq!(work(12, 40), Some(MS(12)));
        assert_eq!(work(12, 20), Some(MS(8)));
        assert_eq!(work(41, 20), None);
        assert!(is_never_used_up(&[(task(8, 40), MS(12))], MS(8), MS(20)));
        assert!(!is_never_used_up(&[(task(8, 40), MS(12))], MS(11), MS(40)));
    }

    /// Ticks in which a task runs: each job as late as its response time allows, or at once.
    fn executed(execution: u64, period_ticks: u64, response: u64, late: &[bool]) -> Vec<bool> {
        let mut ticks = vec![false; late.len() * period_ticks as usize + response as usize];
        for (job, is_late) in late.iter().enumerate() {
            let delay = if *is_late { response - execution } else { 0 };
            let mut at = (job as u64 * period_ticks + delay) as usize;
            let mut left = execution;
            while left > 0 {
                left -= u64::from(!ticks[at]);
                ticks[at] = true;
                at += 1;
            }
        }
        ticks
    }

    /// The longest response of a task on its own server (budget, period) below a deferrable one, tick by tick: `wants` says
    /// when the latter has work, `gaps` by how much jobs come later than they may.
    fn longest_response(
        job: (u64, u64),
        own: (u64, u64),
        above: (u64, u64),
        wants: &[bool],
        gaps: &[u64],
    ) -> u64 {
        let (mut left, mut left_above) = (own.0, above.0);
        let (mut open, mut rest, mut next, mut longest) = (Vec::new(), 0, gaps[0], 0);
        for now in 0..400 {
            if now % own.1 == 0 {
                left = own.0;
            }
            if now % above.1 == 0 {
                left_above = above.0;
            }
            if now == next {
                open.push(now);
                next = now + job.1 + gaps[open.len() % gaps.len()];
            }
            if rest == 0 && !open.is_empty() {
                rest = job.0;
            }
            if left_above > 0 && wants[now as usize % wants.len()] {
                left_above -= 1;
            } else if rest > 0 && left > 0 {
                (rest, left) = (rest - 1, left - 1);
                if rest == 0 {
                    longest = longest.max(now + 1 - open.remove(0));
                }
            }
        }
        longest
    }

    proptest! {
        #[test]
        fn no_job_takes_longer_where_the_budget_is_never_used_up(
            execution in 1_u64..8, slack in 0_u64..20, budget in 1_u64..12, period_slack in 0_u64..12,
            above in (1_u64..4, 0_u64..12), gaps in proptest::collection::vec(0_u64..9, 1..7),
            wants in proptest::collection::vec(any::<bool>(), 1..40),
        ) {
            let above = (above.0, above.0 + above.1);
            let (job, own) = (task(execution, execution + slack), (budget, budget + period_slack));
            let server = interfering_task(ServerKind::Deferrable, MS(above.0), MS(above.1)).unwrap();
            let order = PriorityOrder::as_given(1);
            let responses = response_times_below(&[server], &[job], &order, &[]).unwrap();
            let bound = responses.tasks[0].response_time;
            let bound = bound.ok().filter(|bound| is_never_used_up(&[(job, *bound)], MS(own.0), MS(own.1)));
            prop_assume!(bound.is_some());
            let longest = longest_response((execution, execution + slack), own, above, &wants, &gaps);
            prop_assert!(MS(longest) <= bound.unwrap(), "{longest} beyond {bound:?}");
        }

        #[test]
        fn no_window_has_more_work_than_the_bound(
            execution in 1_u64..6, slack in 0_u64..6, more in 0_u64..8, window in 1_usize..30,
            late in proptest::collection::vec(any::<bool>(), 2..8),
        ) {
            let response = execution + slack;
            let period = response + more;
            let bound = work_in_window(&task(execution, period), MS(response), MS(window as u64)).unwrap();
            let ticks = executed(execution, period, response, &late);
            for part in ticks.windows(window.min(ticks.len())) {
                let work = part.iter().filter(|ran| **ran).count() as u64;
                prop_assert!(MS(work) <= bound, "{work} of {bound}");
            }
        }
    }
}
