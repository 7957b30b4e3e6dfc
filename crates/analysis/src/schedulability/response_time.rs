//! Fixed priorities on one CPU, preemptive: exact worst-case response times.
//!
//! Joseph & Pandya, *Finding response times in a real-time system*, Computer Journal 29(5), 1986;
//! Audsley, Burns, Richardson, Tindell & Wellings, *Applying new scheduling theory to static
//! priority pre-emptive scheduling*, Software Engineering Journal 8(5), 1993 (jitter, blocking);
//! Tindell, Burns & Wellings, *An extendible approach for analyzing fixed priority hard real-time
//! tasks*, Real-Time Systems 6(2), 1994 (arbitrary deadlines: every job of the busy period).
//!
//! The job q of the busy period, counted from 0, is complete at the least w with
//!
//! ```text
//! w = B + (q + 1) C + sum over higher priorities j of ceil((w + J_j) / T_j) C_j
//! ```
//!
//! and has taken w + J - q T. The busy period ends with the first job that takes at most T.

use tailbound_time::Duration;

use super::PriorityOrder;
use super::level_load::{LevelLoad, LoadOrder, up_to};
use super::window_demand::{LONGEST_WINDOW, MOST_STEPS, Releases, WindowDemand, least_fixed_point};
use crate::AnalysisError;
use crate::sporadic_task::{SporadicTask, check_range, total_execution};

/// The most jobs of one busy period that are followed.
pub const MOST_JOBS: u64 = 1_000_000;

/// The name of the method.
pub const METHOD: &str = "response-time analysis for fixed priorities (Joseph & Pandya 1986; \
     Audsley et al. 1993; Tindell, Burns & Wellings 1994)";
/// Assumptions under which the method holds.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "fixed priorities, preemption at no cost",
    "tasks are independent but for the given blocking, and do not suspend themselves",
    "exact without blocking; with blocking an upper bound, reached if the blocking can occur \
     at the critical instant",
];

/// Why a task has no worst-case response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoResponseTime {
    /// The task and those that can delay it (under fixed priorities the higher ones, under EDF all)
    /// need more than the CPU: the backlog grows for ever.
    #[error("it and those that can delay it need more than one CPU")]
    Overloaded,
    /// The response time, if there is one, is beyond all that is calculated with.
    #[error("the response time is beyond {limit}")]
    BeyondRange {
        /// What is calculated with.
        limit: Duration,
    },
    /// The busy period holds too many jobs, or its end takes too many steps to find.
    #[error("the busy period was given up after {jobs} jobs of the task")]
    TooManySteps {
        /// The jobs that were followed.
        jobs: u64,
    },
}

/// What the analysis says of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskResponse {
    /// The longest time from arrival to completion, or why there is none. It is there for tasks
    /// that miss their deadlines, too.
    pub response_time: Result<Duration, NoResponseTime>,
    /// Whether that is within the deadline; `false` where there is no response time.
    pub meets_deadline: bool,
    /// The jobs of the task in its longest busy period; where that never ends (full utilisation
    /// with jitter or blocking) those of a hyperperiod, after which response times repeat.
    pub jobs: u64,
}

/// The worst-case response times of a set of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstCaseResponses {
    /// The method by name, with its source.
    pub method: &'static str,
    /// Assumptions under which the method holds.
    pub assumptions: &'static [&'static str],
    /// One answer per task, in the order of the tasks.
    pub tasks: Vec<TaskResponse>,
}

impl WorstCaseResponses {
    /// Whether every task meets its deadline.
    #[must_use]
    pub fn schedulable(&self) -> bool {
        self.tasks.iter().all(|task| task.meets_deadline)
    }
}

/// The worst-case response times of `tasks` under preemptive fixed priorities on one CPU.
///
/// `blocking` holds, per task, the longest time that tasks of lower priority keep it waiting, such
/// as by critical sections; it may be empty for none at all.
///
/// # Errors
/// [`AnalysisError::Invalid`] where `order` or `blocking` are not for these tasks,
/// [`AnalysisError::OutOfRange`] where the execution times sum up to more than
/// [`LONGEST_PARAMETER`](crate::LONGEST_PARAMETER), or a blocking is longer. A task without a response time is no error: its
/// [`TaskResponse`] says why.
pub fn response_times(
    tasks: &[SporadicTask],
    order: &PriorityOrder,
    blocking: &[Duration],
) -> Result<WorstCaseResponses, AnalysisError> {
    let ranked = order.ranked(tasks)?;
    let blocking = order.ranked_blocking(blocking)?;
    let mut analyzer = FixedPriorityAnalyzer::new();
    let by_rank = analyzer.response_times(&ranked, &blocking)?;
    Ok(WorstCaseResponses {
        method: METHOD,
        assumptions: ASSUMPTIONS,
        tasks: order.unranked(by_rank),
    })
}

/// The same analysis for many sets of tasks, one after the other, without allocating for each.
#[derive(Clone, Debug, Default)]
pub struct FixedPriorityAnalyzer {
    demands: Vec<WindowDemand>,
    responses: Vec<TaskResponse>,
}

impl FixedPriorityAnalyzer {
    /// An analyzer that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The response times of tasks that are given by priority, the highest first; see
    /// [`response_times`].
    ///
    /// # Errors
    /// As of [`response_times`].
    pub fn response_times(
        &mut self,
        highest_first: &[SporadicTask],
        blocking: &[Duration],
    ) -> Result<&[TaskResponse], AnalysisError> {
        self.prepare(highest_first, blocking)?;
        self.responses.clear();
        let mut load = LevelLoad::default();
        let mut before = FirstJob::default();
        for (index, task) in highest_first.iter().enumerate() {
            let higher = self.demands.get(..index).unwrap_or_default();
            let level = PreemptiveLevel::new(task, higher, nanos_at(blocking, index), load);
            load = load.plus(highest_first, index);
            let response = match load.capacity {
                LoadOrder::Above => no_response(NoResponseTime::Overloaded, 0),
                _ => level.response(&mut before, load.capacity, up_to(highest_first, index)),
            };
            self.responses.push(response);
        }
        Ok(&self.responses)
    }

    /// Whether all tasks meet their deadlines; stops at the first that does not.
    ///
    /// # Errors
    /// As of [`response_times`], and [`AnalysisError::TooManySteps`] where the verdict is out of
    /// reach.
    pub fn schedulable(
        &mut self,
        highest_first: &[SporadicTask],
        blocking: &[Duration],
    ) -> Result<bool, AnalysisError> {
        self.prepare(highest_first, blocking)?;
        let mut load = LevelLoad::default();
        let mut before = FirstJob::default();
        for (index, task) in highest_first.iter().enumerate() {
            let higher = self.demands.get(..index).unwrap_or_default();
            let level = PreemptiveLevel::new(task, higher, nanos_at(blocking, index), load);
            load = load.plus(highest_first, index);
            if load.capacity == LoadOrder::Above {
                return Ok(false);
            }
            if !level.in_time(&mut before, load.capacity, up_to(highest_first, index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the last of the tasks, which has the lowest priority, meets its deadline.
    ///
    /// # Errors
    /// As of [`schedulable`](Self::schedulable).
    pub fn lowest_schedulable(
        &mut self,
        highest_first: &[SporadicTask],
        blocking_of_lowest: Duration,
    ) -> Result<bool, AnalysisError> {
        self.prepare(highest_first, &[])?;
        check_range(blocking_of_lowest, "blocking of a task")?;
        let Some((task, others)) = highest_first.split_last() else {
            return Ok(true);
        };
        let mut load = LevelLoad::default();
        for index in 0..others.len() {
            load = load.plus(highest_first, index);
        }
        let higher = self.demands.get(..others.len()).unwrap_or_default();
        let level = PreemptiveLevel::new(task, higher, blocking_of_lowest.as_nanos(), load);
        load = load.plus(highest_first, others.len());
        match load.capacity {
            LoadOrder::Above => Ok(false),
            _ => level.in_time(&mut FirstJob::default(), load.capacity, highest_first),
        }
    }

    fn prepare(
        &mut self,
        tasks: &[SporadicTask],
        blocking: &[Duration],
    ) -> Result<(), AnalysisError> {
        total_execution(tasks)?;
        if !blocking.is_empty() && blocking.len() != tasks.len() {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "{} blocking times for {} tasks; give one per task, or none at all",
                    blocking.len(),
                    tasks.len()
                ),
            });
        }
        for one in blocking {
            check_range(*one, "blocking of a task")?;
        }
        WindowDemand::fill(&mut self.demands, tasks, Releases::BeforeEnd);
        Ok(())
    }
}

fn nanos_at(durations: &[Duration], index: usize) -> u64 {
    durations.get(index).map_or(0, |one| one.as_nanos())
}

fn no_response(reason: NoResponseTime, jobs: u64) -> TaskResponse {
    TaskResponse {
        response_time: Err(reason),
        meets_deadline: false,
        jobs,
    }
}

/// The completion of the first job at the priority above, where the next search may start.
#[derive(Clone, Copy, Debug, Default)]
struct FirstJob {
    completion: u64,
    blocking: u64,
}

/// One task and what delays it.
struct PreemptiveLevel<'a> {
    task: &'a SporadicTask,
    higher: &'a [WindowDemand],
    blocking: u64,
    load_above: LevelLoad,
}

/// How far the jobs of a busy period were followed.
enum Followed {
    /// To its end: the longest response, and the number of jobs.
    ToTheEnd(u64, u64),
    /// To a window beyond the limit.
    Beyond(u64),
    /// Until too many steps were taken.
    GivenUp(u64),
}

impl<'a> PreemptiveLevel<'a> {
    fn new(
        task: &'a SporadicTask,
        higher: &'a [WindowDemand],
        blocking: u64,
        load_above: LevelLoad,
    ) -> Self {
        Self {
            task,
            higher,
            blocking,
            load_above,
        }
    }

    fn response(
        &self,
        before: &mut FirstJob,
        capacity: LoadOrder,
        tasks: &[SporadicTask],
    ) -> TaskResponse {
        match self.follow(before, capacity, tasks, None) {
            Followed::ToTheEnd(worst, jobs) => TaskResponse {
                response_time: Ok(Duration::from_nanos(worst)),
                meets_deadline: worst <= self.task.deadline().as_nanos(),
                jobs,
            },
            Followed::Beyond(jobs) => {
                let limit = Duration::from_nanos(LONGEST_WINDOW);
                no_response(NoResponseTime::BeyondRange { limit }, jobs)
            }
            Followed::GivenUp(jobs) => no_response(NoResponseTime::TooManySteps { jobs }, jobs),
        }
    }

    fn in_time(
        &self,
        before: &mut FirstJob,
        capacity: LoadOrder,
        tasks: &[SporadicTask],
    ) -> Result<bool, AnalysisError> {
        let Some(deadline) = self.task.deadline_after_release() else {
            return Ok(false);
        };
        match self.follow(before, capacity, tasks, Some(deadline.as_nanos())) {
            Followed::ToTheEnd(..) => Ok(true),
            Followed::Beyond(_) => Ok(false),
            Followed::GivenUp(_) => Err(AnalysisError::TooManySteps {
                method: METHOD,
                limit: MOST_STEPS,
            }),
        }
    }

    /// Follows the jobs of the busy period, until one is not complete `deadline_ns` after its
    /// release if that is given.
    fn follow(
        &self,
        before: &mut FirstJob,
        capacity: LoadOrder,
        tasks: &[SporadicTask],
        deadline_ns: Option<u64>,
    ) -> Followed {
        let (execution, period) = (
            self.task.execution().as_nanos(),
            self.task.period().as_nanos(),
        );
        let jitter = self.task.jitter().as_nanos();
        let mut base = self.blocking + execution;
        let mut start = self.first_start(base, *before);
        let mut limit = deadline_ns.unwrap_or(LONGEST_WINDOW).min(LONGEST_WINDOW);
        let (mut jobs, mut worst, mut steps) = (0, 0, 0);
        loop {
            let Some(completion) = least_fixed_point(self.higher, base, start, limit, &mut steps)
            else {
                // A deadline beyond the longest window may be met all the same.
                let undecided = deadline_ns.is_some() && limit == LONGEST_WINDOW;
                return if undecided || steps > MOST_STEPS {
                    Followed::GivenUp(jobs)
                } else {
                    Followed::Beyond(jobs)
                };
            };
            if jobs == 0 {
                *before = FirstJob {
                    completion,
                    blocking: self.blocking,
                };
            }
            // A job is followed only where the one before completes after its arrival.
            let response = completion + jitter - jobs * period;
            worst = worst.max(response);
            jobs += 1;
            if response <= period {
                return Followed::ToTheEnd(worst, jobs);
            }
            if capacity == LoadOrder::Exactly && hyperperiod_ends(tasks, jobs, period) {
                return Followed::ToTheEnd(worst, jobs);
            }
            if jobs == MOST_JOBS {
                return Followed::GivenUp(jobs);
            }
            base += execution;
            start = completion + execution;
            if deadline_ns.is_some() {
                limit = (limit + period).min(LONGEST_WINDOW);
            }
        }
    }

    /// The highest known lower bound of the first completion: one job of each; the load, as if it
    /// were fluid; what the priority above needs, and this job.
    fn first_start(&self, base: u64, before: FirstJob) -> u64 {
        let one_each = base + self.load_above.one_each;
        let fluid = self.load_above.least_window(base);
        let above = if self.blocking >= before.blocking {
            before.completion + base - self.blocking
        } else {
            0
        };
        one_each.max(fluid).max(above)
    }
}

/// Whether `jobs` jobs with this period span the hyperperiod of all tasks. At full utilisation,
/// what happens in a hyperperiod repeats for ever: all demands and the completions shift by it.
fn hyperperiod_ends(tasks: &[SporadicTask], jobs: u64, period_ns: u64) -> bool {
    let span = u128::from(jobs) * u128::from(period_ns);
    tasks
        .iter()
        .all(|task| span.is_multiple_of(u128::from(task.period().as_nanos())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::nanosecond_task::task;
    use super::*;

    fn analysed(tasks: &[SporadicTask], blocking: &[u64]) -> Vec<TaskResponse> {
        let blocking: Vec<_> = blocking.iter().copied().map(Duration::from_nanos).collect();
        let mut analyzer = FixedPriorityAnalyzer::new();
        let responses = analyzer.response_times(tasks, &blocking).unwrap().to_vec();
        let schedulable = analyzer.schedulable(tasks, &blocking).unwrap();
        assert_eq!(schedulable, responses.iter().all(|one| one.meets_deadline));
        responses
    }

    fn nanos(responses: &[TaskResponse]) -> Vec<u64> {
        responses
            .iter()
            .map(|one| one.response_time.unwrap().as_nanos())
            .collect()
    }

    #[test]
    fn a_later_job_may_take_longest() {
        // Lehoczky 1990, example 2: the worst of seven jobs is not the first.
        let responses = analysed(&[task(52, 100, 100), task(52, 140, 156)], &[]);
        assert_eq!(nanos(&responses), [52, 156]);
        assert!(responses[1].meets_deadline);
        assert!(responses[1].jobs > 1);
    }

    #[test]
    fn a_nanosecond_beyond_the_period_goes_on() {
        // The first job takes a nanosecond longer than the period, the second one more, and the
        // third just the period.
        let responses = analysed(&[task(3, 6, 6), task(2, 4, 6)], &[]);
        assert_eq!(nanos(&responses), [3, 6]);
        assert_eq!(responses[1].jobs, 3);
    }

    #[test]
    fn jitter_and_blocking_add_up() {
        let ns = Duration::from_nanos;
        let jittery = task(2, 10, 10).with_jitter(ns(3)).unwrap();
        let responses = analysed(&[jittery, task(4, 20, 20)], &[1, 0]);
        // The second: 4 + ceil((w + 3) / 10) 2 = 6 at w = 6.
        assert_eq!(nanos(&responses), [6, 6]);
        let responses = analysed(&[jittery, task(6, 20, 20)], &[]);
        // 6 + 2 = 8, and the second release comes at 7.
        assert_eq!(nanos(&responses), [5, 10]);
    }

    #[test]
    fn full_utilisation_with_jitter_repeats_after_a_hyperperiod() {
        let ns = Duration::from_nanos;
        let tasks = [task(1, 2, 9).with_jitter(ns(1)).unwrap(), task(3, 6, 9)];
        let responses = analysed(&tasks, &[]);
        assert_eq!(nanos(&responses), [2, 7]);
        assert!(responses[1].meets_deadline);
    }

    #[test]
    fn overload_is_told_exactly() {
        let big = 1 << 55;
        let full = [
            task(big, 3 * big, big),
            task(2 * big + 2, 3 * big + 3, 3 * big + 3),
        ];
        // The busy period ends, but after some 2^110 ns.
        let beyond = analysed(&full, &[])[1].response_time;
        assert!(matches!(beyond, Err(NoResponseTime::BeyondRange { .. })));
        let over = [full[0], task(2 * big + 3, 3 * big + 3, 3 * big + 3)];
        assert_eq!(
            analysed(&over, &[])[1].response_time,
            Err(NoResponseTime::Overloaded)
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tasks = vec![task(1 << 58, 1 << 60, 1 << 60); 5];
        let mut analyzer = FixedPriorityAnalyzer::new();
        assert!(analyzer.response_times(&tasks, &[]).is_err());
        assert!(
            analyzer
                .response_times(&tasks[..3], &[Duration::ZERO])
                .is_err()
        );
        assert!(
            analyzer
                .response_times(&tasks[..1], &[Duration::MAX])
                .is_err()
        );
    }
}
