//! Earliest deadline first on one CPU, preemptive: exact worst-case response times.
//!
//! Spuri, *Analysis of deadline scheduled real-time systems*, INRIA research report 2772, 1996
//! (arbitrary deadlines, release jitter).
//!
//! The longest response of a task i is found in a busy period of the jobs that are due no later
//! than its own, in which all other tasks start together, as late after their arrivals as they can
//! be, and then come as often as they can. A job that arrives at a (counted from that start, maybe
//! before it) is complete at the least L with
//!
//! ```text
//! L = own(a) C_i + sum over the others j of
//!         min(ceil((L + J_j) / T_j), floor((a + D_i - D_j + J_j) / T_j) + 1) C_j
//! own(a) = floor((a + J_i) / T_i) + 1
//! ```
//!
//! where tasks whose first deadline is later than a + D_i do not count, and has taken L - a. Only
//! those a matter at which a job comes to count.

use std::cmp::Ordering;

use tailbound_time::Duration;

use super::processor_demand::{busy_period_within, hyperperiod_up_to};
use super::response_time::{NoResponseTime, TaskResponse, WorstCaseResponses};
use super::utilisation::compare_utilisation;
use super::window_demand::LONGEST_WINDOW;
use crate::AnalysisError;
use crate::sporadic_task::{SporadicTask, total_execution};

/// The most arrivals that are looked at for one task.
pub const MOST_ARRIVALS: usize = 1_000_000;

/// The most steps towards completions that are taken for one task.
const MOST_STEPS: u64 = 10_000_000;

/// The name of the method.
pub const METHOD: &str = "response-time analysis for EDF (Spuri 1996)";
/// Assumptions under which the method holds.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "earliest deadline first, preemption at no cost",
    "tasks are independent, do not suspend themselves, and may all be ready at the same time",
    "exact if, of jobs that are due together, the task's own may run last",
];

/// The worst-case response times of `tasks` under preemptive EDF on one CPU, whether or not they
/// meet their deadlines.
///
/// # Errors
/// [`AnalysisError::OutOfRange`] where the execution times sum up to more than
/// [`LONGEST_PARAMETER`](crate::LONGEST_PARAMETER). A task without a response time is no error: its
/// [`TaskResponse`] says why.
pub fn response_times(tasks: &[SporadicTask]) -> Result<WorstCaseResponses, AnalysisError> {
    total_execution(tasks)?;
    let longest = longest_arrival(tasks);
    let one = |index: usize| {
        let response_time = longest.and_then(|longest| longest_response(tasks, index, longest));
        let task = &tasks[index];
        TaskResponse {
            response_time,
            meets_deadline: response_time.is_ok_and(|response| response <= task.deadline()),
            jobs: longest.map_or(0, |longest| {
                task.jobs_ready(Duration::from_nanos(longest.unsigned_abs()))
            }),
        }
    };
    Ok(WorstCaseResponses {
        method: METHOD,
        assumptions: ASSUMPTIONS,
        tasks: (0..tasks.len()).map(one).collect(),
    })
}

/// Arrivals from here on tell nothing new, in nanoseconds: the end of the longest busy period; where
/// it never ends (full utilisation with jitter), two hyperperiods after all tasks have begun to
/// count, since from then on completions move by a hyperperiod in every hyperperiod.
fn longest_arrival(tasks: &[SporadicTask]) -> Result<i64, NoResponseTime> {
    let beyond = NoResponseTime::BeyondRange {
        limit: Duration::from_nanos(LONGEST_WINDOW),
    };
    let jitter = tasks.iter().any(|task| !task.jitter().is_zero());
    let longest = match compare_utilisation(tasks, 1) {
        Ordering::Greater => return Err(NoResponseTime::Overloaded),
        Ordering::Equal if jitter => {
            let counts = |task: &SporadicTask| task.deadline().max(task.jitter()).as_nanos();
            let all_count = tasks.iter().map(counts).max().unwrap_or(0);
            let hyperperiod = hyperperiod_up_to(LONGEST_WINDOW / 4, tasks);
            hyperperiod.and_then(|length| (2 * length).checked_add(all_count))
        }
        _ => busy_period_within(LONGEST_WINDOW, tasks, METHOD)
            .map_err(|_| NoResponseTime::TooManySteps { jobs: 0 })?,
    };
    let longest = longest.filter(|longest| *longest < LONGEST_WINDOW);
    longest.map(u64::cast_signed).ok_or(beyond)
}

/// The longest response of one task, for arrivals before `longest`.
fn longest_response(
    tasks: &[SporadicTask],
    index: usize,
    longest: i64,
) -> Result<Duration, NoResponseTime> {
    let own = Numbers::of(&tasks[index]);
    let others: Vec<Numbers> = tasks
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
        .map(|(_, task)| Numbers::of(task))
        .collect();
    let mut worst = 0;
    // A job that arrives later completes no earlier, so each search starts where the last ended.
    let mut complete = 1;
    let mut steps = 0;
    for arrival in arrivals(own, &others, longest)? {
        let own_work = ((arrival + own.jitter_ns) / own.period_ns + 1) * own.execution_ns;
        let due = arrival + own.deadline_ns;
        loop {
            let before: i64 = others.iter().map(|one| one.work(complete, due)).sum();
            let next = own_work + before;
            if next <= complete {
                break;
            }
            complete = next;
            steps += 1;
            if steps > MOST_STEPS {
                let jobs = (arrival / own.period_ns).unsigned_abs();
                return Err(NoResponseTime::TooManySteps { jobs });
            }
            if complete.unsigned_abs() > LONGEST_WINDOW {
                return Err(NoResponseTime::BeyondRange {
                    limit: Duration::from_nanos(LONGEST_WINDOW),
                });
            }
        }
        worst = worst.max(complete - arrival);
    }
    Ok(Duration::from_nanos(worst.unsigned_abs()))
}

/// The arrivals of a job of `own` at which it, or a job that is due together with it, comes to
/// count; ascending.
fn arrivals(own: Numbers, others: &[Numbers], longest: i64) -> Result<Vec<i64>, NoResponseTime> {
    let first_own = -own.jitter_ns;
    let mut arrivals = Vec::new();
    let firsts = others.iter().map(|other| {
        let first = other.deadline_ns - other.jitter_ns - own.deadline_ns;
        (first, other.period_ns)
    });
    for (first, period_ns) in firsts.chain([(first_own, own.period_ns)]) {
        // The first of first + k period that is not before the first own arrival.
        let skipped = (first_own - first).max(0);
        let ahead = skipped / period_ns + i64::from(skipped % period_ns > 0);
        let mut arrival = first + ahead * period_ns;
        while arrival < longest {
            if arrivals.len() == MOST_ARRIVALS {
                let jobs = (arrival / own.period_ns).unsigned_abs();
                return Err(NoResponseTime::TooManySteps { jobs });
            }
            arrivals.push(arrival);
            arrival += period_ns;
        }
    }
    arrivals.sort_unstable();
    arrivals.dedup();
    Ok(arrivals)
}

/// A task in signed nanoseconds: parameters are at most 2^60 and windows 2^61, so sums of four and
/// the work in a window, at a utilisation of at most one, fit.
#[derive(Clone, Copy)]
struct Numbers {
    execution_ns: i64,
    period_ns: i64,
    deadline_ns: i64,
    jitter_ns: i64,
}

impl Numbers {
    const fn of(task: &SporadicTask) -> Self {
        Self {
            execution_ns: task.execution().as_nanos().cast_signed(),
            period_ns: task.period().as_nanos().cast_signed(),
            deadline_ns: task.deadline().as_nanos().cast_signed(),
            jitter_ns: task.jitter().as_nanos().cast_signed(),
        }
    }

    /// The work that is ready before `end`, above zero, and due at `due` or before.
    const fn work(self, end: i64, due: i64) -> i64 {
        let late = due - self.deadline_ns + self.jitter_ns;
        if late < 0 {
            return 0;
        }
        let jobs_due = late / self.period_ns + 1;
        let jobs_ready = (end + self.jitter_ns - 1) / self.period_ns + 1;
        let jobs = if jobs_due < jobs_ready {
            jobs_due
        } else {
            jobs_ready
        };
        jobs * self.execution_ns
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::nanosecond_task::task;
    use super::*;

    fn responses(tasks: &[SporadicTask]) -> Vec<u64> {
        let responses = response_times(tasks).unwrap();
        let response = |one: &TaskResponse| one.response_time.unwrap().as_nanos();
        responses.tasks.iter().map(response).collect()
    }

    #[test]
    fn the_worst_case_need_not_be_the_common_start() {
        // Where both start together, the first task goes first and takes 3. If it comes a
        // nanosecond later, it is due together with the other, which may go first.
        assert_eq!(responses(&[task(3, 12, 11), task(3, 6, 12)]), [5, 6]);
        assert_eq!(responses(&[task(2, 4, 4), task(1, 4, 4)]), [3, 3]);
        assert_eq!(responses(&[]), [0; 0]);
    }

    #[test]
    fn more_than_a_cpu_has_no_response_times() {
        let responses = response_times(&[task(3, 4, 4), task(2, 4, 4)]).unwrap();
        let overloaded = Err(NoResponseTime::Overloaded);
        assert!(
            responses
                .tasks
                .iter()
                .all(|one| one.response_time == overloaded)
        );
        assert!(!responses.schedulable());
    }

    #[test]
    fn extremes_are_no_overflow() {
        let long = 1 << 60;
        let responses = response_times(&[task(long - 1, long, long), task(1, long, 1)]).unwrap();
        assert_eq!(
            responses.tasks[0].response_time,
            Ok(Duration::from_nanos(long))
        );
        let tiny = task(1, 2, 2);
        let responses = response_times(&[tiny, task(1 << 58, long, long)]).unwrap();
        let reason = responses.tasks[0].response_time.unwrap_err();
        assert!(matches!(reason, NoResponseTime::TooManySteps { .. }));
    }
}
