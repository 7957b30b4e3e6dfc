//! Earliest deadline first on one CPU, preemptive: exact verdicts.
//!
//! Baruah, Rosier & Howell, *Algorithms and complexity concerning the preemptive scheduling of
//! periodic, real-time tasks on one processor*, Real-Time Systems 2, 1990 (the criterion); Zhang &
//! Burns, *Schedulability analysis for real-time systems with EDF scheduling*, IEEE Transactions on
//! Computers 58(9), 2009 (Quick Processor-demand Analysis, QPA).
//!
//! The demand of a window of length t is the execution time of all jobs that become ready in it and
//! have their deadlines in it:
//!
//! ```text
//! h(t) = sum over the tasks with t >= D - J of (floor((t - (D - J)) / T) + 1) C
//! ```
//!
//! The set is schedulable if and only if the utilisation is at most one and h(t) <= t for all t.
//! Jitter counts as if the first jobs had come late and all others on time, so that D - J takes the
//! place of D.

use std::cmp::Ordering;

use num_integer::gcd;
use tailbound_time::Duration;

use super::utilisation::{ONE_CPU, UtilisationEnclosure, compare_utilisation};
use crate::AnalysisError;
use crate::sporadic_task::{SporadicTask, total_execution};

/// The most windows that are looked at, and the most steps towards the end of a busy period.
pub const MOST_STEPS: u64 = 10_000_000;

/// Assumptions under which the method holds.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "earliest deadline first, preemption at no cost",
    "tasks are independent, do not suspend themselves, and may all be ready at the same time",
    "exact",
];

/// The longest window that is looked at, in nanoseconds; the demand in it is below 2^63.
const LONGEST_WINDOW: u64 = 1 << 61;

const QPA: &str = "Quick Processor-demand Analysis (Zhang & Burns 2009)";

/// The verdict of a processor-demand analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandVerdict {
    /// The method by name, with its source.
    pub method: &'static str,
    /// Assumptions under which the method holds.
    pub assumptions: &'static [&'static str],
    /// Why not, where the set is not schedulable.
    pub overload: Option<Overload>,
    /// The window lengths for which the demand was computed.
    pub windows_checked: u64,
}

impl DemandVerdict {
    /// Whether every job meets its deadline.
    #[must_use]
    pub const fn schedulable(&self) -> bool {
        self.overload.is_none()
    }
}

/// Why a set is not schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// The utilisation is above one.
    Utilisation,
    /// There is a window with more demand than time.
    Window {
        /// How long the window is.
        length: Duration,
        /// How much must be executed in it; for a job whose jitter exceeds its deadline, its own
        /// execution.
        demand: Duration,
    },
}

/// Decides by QPA: from the longest window that matters, each demand tells the next window to look
/// at.
///
/// # Errors
/// [`AnalysisError::OutOfRange`] where the execution times sum up to too much, or the windows that
/// matter do; [`AnalysisError::TooManySteps`] after [`MOST_STEPS`].
pub fn quick_processor_demand(tasks: &[SporadicTask]) -> Result<DemandVerdict, AnalysisError> {
    let demand = match Demands::of(tasks)? {
        Ok(demand) => demand,
        Err(overload) => return Ok(verdict(QPA, Some(overload), 0)),
    };
    let horizon = Horizon::of(tasks, &demand, QPA)?;
    let mut windows_checked = 0;
    let mut next = demand.last_deadline_to(horizon.longest);
    while let Some(length) = next {
        windows_checked += 1;
        if windows_checked > MOST_STEPS {
            return Err(too_many(QPA));
        }
        let needed = demand.within(length);
        if needed > length {
            return Ok(verdict(QPA, Some(window(length, needed)), windows_checked));
        }
        if needed <= demand.shortest {
            break;
        }
        // No window between the demand and the length can be overloaded: h grows with the length.
        next = match needed.cmp(&length) {
            Ordering::Less => Some(needed),
            _ => demand.last_deadline_to(length - 1),
        };
    }
    horizon.verdict_without_overload(QPA, windows_checked)
}

/// Decides by QPA, and names the shortest window that is overloaded, where there is one: the first
/// instant, after all tasks have started together, by which more is due than could be done. (After
/// [`MOST_STEPS`] deadlines before it, the one that QPA came upon.)
///
/// # Errors
/// As of [`quick_processor_demand`].
pub fn first_overload(tasks: &[SporadicTask]) -> Result<DemandVerdict, AnalysisError> {
    let quick = quick_processor_demand(tasks)?;
    let Some(Overload::Window { length, .. }) = quick.overload else {
        return Ok(quick);
    };
    let demands = Demands {
        tasks: tasks.iter().map(TaskDemand::of).collect(),
        shortest: 0,
    };
    let work = |task: &SporadicTask, end: u64| {
        let jobs = task.jobs_due(Duration::from_nanos(end));
        u128::from(jobs) * u128::from(task.execution().as_nanos())
    };
    let mut next = demands.first_deadline_from(0);
    for windows_checked in quick.windows_checked..MOST_STEPS {
        let Some(end) = next.filter(|end| *end < length.as_nanos()) else {
            break;
        };
        let needed: u128 = tasks.iter().map(|task| work(task, end)).sum();
        if needed > u128::from(end) {
            let needed = u64::try_from(needed).unwrap_or(u64::MAX);
            let first = Some(window(end, needed));
            return Ok(verdict(quick.method, first, windows_checked + 1));
        }
        next = demands.first_deadline_from(end + 1);
    }
    Ok(quick)
}

fn verdict(
    method: &'static str,
    overload: Option<Overload>,
    windows_checked: u64,
) -> DemandVerdict {
    DemandVerdict {
        method,
        assumptions: ASSUMPTIONS,
        overload,
        windows_checked,
    }
}

fn window(length: u64, demand: u64) -> Overload {
    Overload::Window {
        length: Duration::from_nanos(length),
        demand: Duration::from_nanos(demand),
    }
}

const fn too_many(method: &'static str) -> AnalysisError {
    AnalysisError::TooManySteps {
        method,
        limit: MOST_STEPS,
    }
}

/// The tasks as the demand function wants them; their utilisation is at most one.
struct Demands {
    tasks: Vec<TaskDemand>,
    /// The shortest D - J.
    shortest: u64,
}

struct TaskDemand {
    execution_ns: u64,
    period_ns: u64,
    /// D - J.
    deadline_ns: u64,
}

impl TaskDemand {
    /// A task whose jitter exceeds its deadline counts from the start of the window.
    fn of(task: &SporadicTask) -> Self {
        Self {
            execution_ns: task.execution().as_nanos(),
            period_ns: task.period().as_nanos(),
            deadline_ns: task.deadline_after_release().map_or(0, Duration::as_nanos),
        }
    }
}

impl Demands {
    /// The demands, or the overload that shows at once.
    fn of(tasks: &[SporadicTask]) -> Result<Result<Self, Overload>, AnalysisError> {
        total_execution(tasks)?;
        let mut demands = Vec::with_capacity(tasks.len());
        for task in tasks {
            let execution = task.execution().as_nanos();
            let demand = TaskDemand::of(task);
            if execution > demand.deadline_ns {
                return Ok(Err(window(demand.deadline_ns, execution)));
            }
            demands.push(demand);
        }
        if compare_utilisation(tasks, 1) == Ordering::Greater {
            return Ok(Err(Overload::Utilisation));
        }
        let shortest = demands.iter().map(|one| one.deadline_ns).min().unwrap_or(0);
        Ok(Ok(Self {
            tasks: demands,
            shortest,
        }))
    }

    /// h(length). At a utilisation of at most one, it exceeds the length by the sum of the
    /// execution times at most.
    fn within(&self, length: u64) -> u64 {
        let one = |task: &TaskDemand| match length.checked_sub(task.deadline_ns) {
            Some(rest) => (rest / task.period_ns + 1) * task.execution_ns,
            None => 0,
        };
        self.tasks.iter().map(one).sum()
    }

    /// The last deadline at or before `limit`, in the synchronous pattern.
    fn last_deadline_to(&self, limit: u64) -> Option<u64> {
        let last = |task: &TaskDemand| {
            let rest = limit.checked_sub(task.deadline_ns)?;
            Some(limit - rest % task.period_ns)
        };
        self.tasks.iter().filter_map(last).max()
    }

    /// The first deadline at or after `start`.
    fn first_deadline_from(&self, start: u64) -> Option<u64> {
        let first = |task: &TaskDemand| {
            let rest = start.saturating_sub(task.deadline_ns);
            task.deadline_ns + rest.div_ceil(task.period_ns) * task.period_ns
        };
        self.tasks.iter().map(first).min()
    }
}

/// How long the windows are that must be looked at.
struct Horizon {
    /// The longest window to look at.
    longest: u64,
    /// What is too long to calculate with, where windows beyond the longest would matter, too.
    beyond: Option<&'static str>,
}

impl Horizon {
    /// The least length that holds of these: below full utilisation (George, Rivierre & Spuri,
    /// INRIA report 2966, 1996) the sum of max(0, T - (D - J)) U over 1 - U; unless full
    /// utilisation meets jitter, the first time that a CPU on which all tasks start together is
    /// idle; else a hyperperiod after all tasks have begun to count, since from then on the demand
    /// grows by a hyperperiod in every hyperperiod.
    fn of(
        tasks: &[SporadicTask],
        demand: &Demands,
        method: &'static str,
    ) -> Result<Self, AnalysisError> {
        let full = compare_utilisation(tasks, 1) == Ordering::Equal;
        let (longest, beyond) = if full && tasks.iter().any(|task| !task.jitter().is_zero()) {
            let hyperperiod = hyperperiod_window(tasks, demand);
            (
                hyperperiod,
                "the hyperperiod, which decides at full utilisation with jitter",
            )
        } else {
            let by_utilisation = utilisation_window_rounded_up(tasks, demand);
            let sooner =
                busy_period_within(by_utilisation.unwrap_or(LONGEST_WINDOW), tasks, method)?;
            (sooner.or(by_utilisation), "the busy period")
        };
        Ok(match longest.filter(|longest| *longest < LONGEST_WINDOW) {
            Some(longest) => Self {
                longest,
                beyond: None,
            },
            None => Self {
                longest: LONGEST_WINDOW,
                beyond: Some(beyond),
            },
        })
    }

    fn verdict_without_overload(
        self,
        method: &'static str,
        windows_checked: u64,
    ) -> Result<DemandVerdict, AnalysisError> {
        match self.beyond {
            None => Ok(verdict(method, None, windows_checked)),
            Some(quantity) => Err(AnalysisError::OutOfRange {
                quantity: quantity.into(),
                limit: Duration::from_nanos(LONGEST_WINDOW),
            }),
        }
    }
}

/// The bound by the utilisation, rounded up; `None` where it is too close to one to tell.
fn utilisation_window_rounded_up(tasks: &[SporadicTask], demand: &Demands) -> Option<u64> {
    let enclosure = tasks
        .iter()
        .fold(UtilisationEnclosure::default(), |sum, task| sum.plus(task));
    let idle = ONE_CPU
        .checked_sub(enclosure.rounded_up)
        .filter(|idle| *idle > 0)?;
    // In 2^-32 ns: each term is at most T - D + J times the utilisation, below 2^61, and their sum
    // is too.
    let term = |task: &TaskDemand| {
        let gap = u128::from(task.period_ns.saturating_sub(task.deadline_ns));
        let product = gap * u128::from(task.execution_ns);
        let period = u128::from(task.period_ns);
        let (whole, rest) = (product / period, product % period);
        (whole << 32) + ((rest << 32) / period) + 1
    };
    let sum: u128 = demand.tasks.iter().map(term).sum();
    // Times 2^64 over the idle share, and back from 2^-32 ns, in an order that keeps the most
    // digits.
    let idle_rounded_down = idle >> 32;
    let length = sum.checked_div(idle_rounded_down)? + 1;
    u64::try_from(length)
        .ok()
        .map(|length| length.min(LONGEST_WINDOW))
}

/// The first idle time after a synchronous start, if it comes before `limit`.
pub(super) fn busy_period_within(
    limit: u64,
    tasks: &[SporadicTask],
    method: &'static str,
) -> Result<Option<u64>, AnalysisError> {
    let released = |end: u64| -> u64 {
        let one = |task: &SporadicTask| {
            let jobs = (end + task.jitter().as_nanos()).div_ceil(task.period().as_nanos());
            jobs * task.execution().as_nanos()
        };
        tasks.iter().map(one).sum()
    };
    let mut end: u64 = tasks.iter().map(|task| task.execution().as_nanos()).sum();
    for _ in 0..MOST_STEPS {
        if end >= limit {
            return Ok(None);
        }
        let next = released(end);
        if next <= end {
            return Ok(Some(end));
        }
        end = next;
    }
    Err(too_many(method))
}

/// A hyperperiod after every task has begun to count, or `None` where that is beyond all bounds.
fn hyperperiod_window(tasks: &[SporadicTask], demand: &Demands) -> Option<u64> {
    let all_count = demand.tasks.iter().map(|task| task.deadline_ns).max();
    hyperperiod_up_to(u64::MAX, tasks)?.checked_add(all_count.unwrap_or(0))
}

/// The least common multiple of the periods, in nanoseconds, if it is at most `limit`.
pub(super) fn hyperperiod_up_to(limit: u64, tasks: &[SporadicTask]) -> Option<u64> {
    let mut hyperperiod: u64 = 1;
    for task in tasks {
        let period = task.period().as_nanos();
        let factor = period / gcd(hyperperiod, period);
        hyperperiod = hyperperiod.checked_mul(factor)?;
    }
    (hyperperiod <= limit).then_some(hyperperiod)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::nanosecond_task::task;
    use super::*;

    fn schedulable(tasks: &[SporadicTask]) -> bool {
        quick_processor_demand(tasks).unwrap().schedulable()
    }

    #[test]
    fn implicit_deadlines_need_nothing_but_the_utilisation() {
        assert!(schedulable(&[task(1, 2, 2), task(1, 3, 3), task(1, 6, 6)]));
        assert!(!schedulable(&[
            task(1, 2, 2),
            task(1, 3, 3),
            task(2, 11, 11)
        ]));
        assert!(schedulable(&[]));
    }

    #[test]
    fn an_overloaded_window_is_named() {
        let verdict = quick_processor_demand(&[task(2, 8, 4), task(3, 9, 4)]).unwrap();
        let ns = Duration::from_nanos;
        let window = Overload::Window {
            length: ns(4),
            demand: ns(5),
        };
        assert_eq!(verdict.overload, Some(window));
    }

    #[test]
    fn full_utilisation_with_jitter_is_decided_over_the_hyperperiod() {
        let ns = Duration::from_nanos;
        let jittery = |jitter| task(2, 4, 4).with_jitter(ns(jitter)).unwrap();
        assert!(schedulable(&[jittery(1), task(3, 6, 6)]));
        assert!(!schedulable(&[jittery(2), task(3, 6, 6)]));
    }

    #[test]
    fn jitter_beyond_the_deadline_is_hopeless() {
        let ns = Duration::from_nanos;
        assert!(!schedulable(&[task(1, 9, 3).with_jitter(ns(3)).unwrap()]));
        assert!(!schedulable(&[task(1, 9, 3).with_jitter(ns(4)).unwrap()]));
        assert!(schedulable(&[task(1, 9, 3).with_jitter(ns(2)).unwrap()]));
    }

    #[test]
    fn full_utilisation_of_huge_periods_is_no_loop() {
        let (a, b) = ((1 << 55) + 1, (1 << 55) + 3);
        let tasks = [task(a, 2 * a, a + 5), task(b, 2 * b, b + 7)];
        assert!(quick_processor_demand(&tasks).is_ok_and(|one| !one.schedulable()));
        let implicit = [task(a, 2 * a, 2 * a), task(b, 2 * b, 2 * b)];
        let refused = quick_processor_demand(&implicit);
        assert!(matches!(refused, Err(AnalysisError::OutOfRange { .. })));
    }
}
