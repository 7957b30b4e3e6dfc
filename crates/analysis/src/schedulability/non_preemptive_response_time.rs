//! Fixed priorities on one CPU or one bus, not preemptive: worst-case response times.
//!
//! Davis, Burns, Bril & Lukkien, *Controller Area Network (CAN) schedulability analysis: refuted,
//! revisited and revised*, Real-Time Systems 35(3), 2007: all jobs of the priority's
//! busy period count, not the first one only. The job q starts at the least w with
//!
//! ```text
//! w = B + q C + sum over higher priorities j of (floor((w + J_j) / T_j) + 1) C_j
//! ```
//!
//! where jobs that are released at w itself still go first; it is complete C later. B is the
//! longest execution time of a lower priority, or a blocking that is longer.

use num_integer::gcd;
use tailbound_time::Duration;

use super::PriorityOrder;
use super::level_load::{LevelLoad, LoadOrder};
use super::response_time::{MOST_JOBS, NoResponseTime, TaskResponse, WorstCaseResponses};
use super::window_demand::{LONGEST_WINDOW, MOST_STEPS, Releases, WindowDemand, least_fixed_point};
use crate::AnalysisError;
use crate::sporadic_task::{SporadicTask, check_range, total_execution};

/// The name of the method.
pub const METHOD: &str = "response-time analysis for non-preemptive fixed priorities (Davis, \
     Burns, Bril & Lukkien 2007)";
/// The assumptions of the method.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU or bus that is always available",
    "fixed priorities; a job that has begun is not preempted",
    "tasks are independent but for the given blocking, and do not suspend themselves",
    "an upper bound, by at most the nanosecond that a lower priority must have begun before",
];

/// The worst-case response times of `tasks` under non-preemptive fixed priorities.
///
/// `blocking` is per task, beside the execution times of lower priorities: the longer of the two
/// counts. It may be empty for none.
///
/// # Errors
/// As of [`response_times`](super::response_time::response_times).
pub fn non_preemptive_response_times(
    tasks: &[SporadicTask],
    order: &PriorityOrder,
    blocking: &[Duration],
) -> Result<WorstCaseResponses, AnalysisError> {
    let ranked = order.ranked(tasks)?;
    let given = order.ranked_blocking(blocking)?;
    total_execution(&ranked)?;
    for one in &given {
        check_range(*one, "blocking of a task")?;
    }
    let mut responses = Vec::with_capacity(ranked.len());
    let mut load = LevelLoad::default();
    for (index, task) in ranked.iter().enumerate() {
        load = load.plus(&ranked, index);
        let (up_to, lower) = ranked.split_at(index + 1);
        let longest_lower = lower.iter().map(SporadicTask::execution).max();
        let own = given.get(index).copied().unwrap_or(Duration::ZERO);
        let level = NonPreemptiveLevel {
            task,
            up_to,
            blocking: own.max(longest_lower.unwrap_or(Duration::ZERO)).as_nanos(),
        };
        responses.push(level.response(load.capacity));
    }
    Ok(WorstCaseResponses {
        method: METHOD,
        assumptions: ASSUMPTIONS,
        tasks: order.unranked(&responses),
    })
}

/// One task and what delays it.
struct NonPreemptiveLevel<'a> {
    task: &'a SporadicTask,
    /// The higher priorities, and the task itself at the end.
    up_to: &'a [SporadicTask],
    blocking: u64,
}

impl NonPreemptiveLevel<'_> {
    fn response(&self, capacity: LoadOrder) -> TaskResponse {
        match self.longest(capacity) {
            Ok((longest, jobs)) => TaskResponse {
                response_time: Ok(Duration::from_nanos(longest)),
                meets_deadline: longest <= self.task.deadline().as_nanos(),
                jobs,
            },
            Err(reason) => TaskResponse {
                response_time: Err(reason),
                meets_deadline: false,
                jobs: 0,
            },
        }
    }

    /// The longest response of the busy period, and the jobs in it.
    fn longest(&self, capacity: LoadOrder) -> Result<(u64, u64), NoResponseTime> {
        let jobs = match capacity {
            LoadOrder::Above => return Err(NoResponseTime::Overloaded),
            LoadOrder::Below => self.jobs_of_busy_period()?,
            // The busy period may not end; response times repeat after a hyperperiod.
            LoadOrder::Exactly => self.jobs_of_hyperperiod()?,
        };
        let (execution, period) = (
            self.task.execution().as_nanos(),
            self.task.period().as_nanos(),
        );
        let mut higher = Vec::new();
        WindowDemand::fill(&mut higher, self.higher(), Releases::UpToEnd);
        let (mut longest, mut start, mut steps) = (0, 0, 0);
        for job in 0..jobs {
            let base = self.blocking + job * execution;
            start = least_fixed_point(&higher, base, base.max(start), LONGEST_WINDOW, &mut steps)
                .ok_or_else(|| no_fixed_point(steps, job))?;
            // At full utilisation the busy period may end within the hyperperiod. Jobs after that
            // end may seem to be complete before they arrive; they do not take longer than the
            // first.
            let complete = start + execution + self.task.jitter().as_nanos();
            longest = longest.max(complete.saturating_sub(job * period));
        }
        Ok((longest, jobs))
    }

    fn higher(&self) -> &[SporadicTask] {
        self.up_to.split_last().map_or(&[], |(_, higher)| higher)
    }

    /// The jobs in the longest time that this and higher priorities keep the CPU busy.
    fn jobs_of_busy_period(&self) -> Result<u64, NoResponseTime> {
        let mut demands = Vec::new();
        WindowDemand::fill(&mut demands, self.up_to, Releases::BeforeEnd);
        let first = self.blocking + self.task.execution().as_nanos();
        let mut steps = 0;
        let length = least_fixed_point(&demands, self.blocking, first, LONGEST_WINDOW, &mut steps)
            .ok_or_else(|| no_fixed_point(steps, 0))?;
        let reach = length + self.task.jitter().as_nanos();
        within_limit(reach.div_ceil(self.task.period().as_nanos()))
    }

    /// The jobs in a hyperperiod of this and higher priorities.
    fn jobs_of_hyperperiod(&self) -> Result<u64, NoResponseTime> {
        let own = u128::from(self.task.period().as_nanos());
        let mut multiple = own;
        for task in self.higher() {
            let period = u128::from(task.period().as_nanos());
            // Below 2^61 and 2^60.
            multiple = multiple / gcd(multiple, period) * period;
            if multiple > u128::from(LONGEST_WINDOW) {
                return Err(no_fixed_point(0, 0));
            }
        }
        within_limit((multiple / own) as u64)
    }
}

fn within_limit(jobs: u64) -> Result<u64, NoResponseTime> {
    if jobs > MOST_JOBS {
        return Err(NoResponseTime::TooManySteps { jobs: 0 });
    }
    Ok(jobs)
}

const fn no_fixed_point(steps: u64, jobs: u64) -> NoResponseTime {
    if steps > MOST_STEPS {
        return NoResponseTime::TooManySteps { jobs };
    }
    NoResponseTime::BeyondRange {
        limit: Duration::from_nanos(LONGEST_WINDOW),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn longest(numbers: &[(u64, u64, u64)]) -> Vec<u64> {
        let ns = Duration::from_nanos;
        let task = |&(c, t, d): &(u64, u64, u64)| SporadicTask::new(ns(c), ns(t), ns(d)).unwrap();
        let tasks: Vec<_> = numbers.iter().map(task).collect();
        let order = PriorityOrder::as_given(tasks.len());
        let responses = non_preemptive_response_times(&tasks, &order, &[]).unwrap();
        let nanos = responses
            .tasks
            .iter()
            .map(|one| one.response_time.unwrap().as_nanos());
        nanos.collect()
    }

    #[test]
    fn the_second_job_of_the_refuting_example_is_late() {
        // Three messages of equal length, the lowest with a period of 3.5 lengths: its second
        // instance is pushed by what its first kept waiting.
        assert_eq!(
            longest(&[
                (1_000, 2_500, 2_500),
                (1_000, 3_500, 3_250),
                (1_000, 3_500, 3_250)
            ]),
            [2_000, 3_000, 3_500]
        );
    }

    #[test]
    fn a_lower_priority_blocks_once() {
        assert_eq!(longest(&[(2, 20, 20), (9, 40, 40)]), [11, 11]);
    }

    #[test]
    fn full_utilisation_is_followed_for_a_hyperperiod() {
        assert_eq!(longest(&[(1, 2, 9), (3, 6, 9)]), [4, 4]);
    }
}
