//! Whether the tasks of a component meet their deadlines on what its resource gives.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;
use tailbound_time::Duration;

use super::demand::Workload;
use super::response_bound::{self, ResponseBound};
use super::supply::SupplyBound;
use super::test_points::{
    MOST_POINTS, WindowSweep, common_period, demand_horizon, too_many_points,
};
use crate::{AnalysisError, SporadicTask};

/// The order in which a component runs its tasks, on one CPU at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalScheduler {
    /// The earliest absolute deadline first.
    EarliestDeadlineFirst,
    /// Fixed priorities, in the order of the workload, the highest first.
    FixedPriority,
    /// First come, first served, by the instants at which jobs become ready.
    FirstComeFirstServed,
}

/// Where a resource gives too little.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Shortage {
    /// In the long run: the tasks up to this one ask for more than the resource's rate.
    LongRun {
        /// The index of the task.
        task: usize,
        /// What is asked for, in CPUs.
        utilisation: f64,
        /// What is given, in CPUs.
        rate: f64,
    },
    /// In a window.
    Window {
        /// The index of the task whose deadline ends the window.
        task: usize,
        /// The length of the window.
        window: Duration,
        /// What is asked for in it; under global EDF it may be no more than is given, and still
        /// not be done by then.
        demand: Duration,
        /// What is given in it at least, rounded down.
        supply: Duration,
    },
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongRun {
                task,
                utilisation,
                rate,
            } => write!(
                out,
                "tasks 0 to {task} ask for {utilisation:.4} of a CPU and {rate:.4} is given"
            ),
            Self::Window {
                task,
                window,
                demand,
                supply,
            } => write!(
                out,
                "{demand} is asked for by a deadline of task {task}, {window} after the start of \
                 the worst window, and {supply} is given"
            ),
        }
    }
}

/// The answer of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComponentVerdict {
    /// Whether all deadlines are met.
    pub schedulable: bool,
    /// Whether "no" means that deadlines are missed in the worst case; otherwise the test is only
    /// sufficient.
    pub exact: bool,
    /// Why not, where not.
    pub shortage: Option<Shortage>,
    /// The test and the resource model, with their sources.
    pub method: String,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

/// Whether `workload` meets its deadlines on one CPU of this supply, whenever jobs come and
/// however the supply falls. Exact for sporadic tasks and supplies that can be as bad as their
/// bound.
///
/// EDF: the demand bound against the supply at each deadline (Shin and Lee 2003, Theorem 1), by
/// the jumps of Zhang and Burns (2009). Fixed priority: for each job of the longest busy window,
/// a time before its deadline by which the supply reaches all that has come (Shin and Lee 2003,
/// Theorem 2; Lehoczky 1990 for deadlines beyond periods). First come, first served: the bound of
/// [`response_bound::first_come_first_served`] against each deadline, sufficient only.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] where too many points would have to be tested.
pub fn schedulable(
    workload: &Workload,
    scheduler: LocalScheduler,
    supply: &dyn SupplyBound,
) -> Result<ComponentVerdict, AnalysisError> {
    let (shortage, test) = match scheduler {
        LocalScheduler::EarliestDeadlineFirst => (
            earliest_deadline_first(workload, supply)?,
            "EDF by processor demand against supply (Shin and Lee 2003; Zhang and Burns 2009)",
        ),
        LocalScheduler::FixedPriority => (
            fixed_priority(workload, supply)?,
            "fixed priority by time demand against supply (Shin and Lee 2003; Lehoczky 1990)",
        ),
        LocalScheduler::FirstComeFirstServed => (
            first_come_first_served(workload, supply)?,
            "first come, first served by arrivals against supply (Le Boudec and Thiran 2001)",
        ),
    };
    Ok(ComponentVerdict {
        schedulable: shortage.is_none(),
        exact: scheduler != LocalScheduler::FirstComeFirstServed,
        shortage,
        method: format!("{test}; {}", supply.name()),
        assumptions: vec![
            "tasks are independent, preemptive, and never suspend themselves".into(),
            "execution times include what preemption and the tasks' scheduler cost".into(),
        ],
    })
}

/// The utilisation of the first `count` tasks is above the rate.
pub(super) fn long_run(workload: &Workload, count: usize, supply: &dyn SupplyBound) -> Shortage {
    let (numerator, denominator) = supply.rate();
    let tasks = workload.tasks().iter().take(count);
    Shortage::LongRun {
        task: count.saturating_sub(1),
        utilisation: tasks
            .map(|task| task.execution().as_secs_f64() / task.period().as_secs_f64())
            .sum(),
        rate: numerator as f64 / denominator as f64,
    }
}

fn earliest_deadline_first(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Option<Shortage>, AnalysisError> {
    let count = workload.tasks().len();
    if workload.compare_utilisation(count, supply.rate()) == Ordering::Greater {
        return Ok(Some(long_run(workload, count, supply)));
    }
    let short_window = next_short_window(workload, supply, &mut WindowSweep::from(Duration::ZERO))?;
    Ok(short_window.map(|at| {
        // The deadline that ends the demand: no later one is in the window.
        let past = at.saturating_add(Duration::from_nanos(1));
        let (task, window) = workload.latest_deadline(past).unwrap_or((0, at));
        Shortage::Window {
            task,
            window,
            demand: workload.demand_bound(window),
            supply: supply.supplied_down(window),
        }
    }))
}

/// Under EDF, where the supply first falls short: the shortest window in which more may become ready
/// and be due than is given. `None` where all deadlines are met. (After 400,000 deadlines before it,
/// the one that [`schedulable`] came upon.)
///
/// # Errors
/// As of [`schedulable`].
pub fn first_shortage(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Option<Shortage>, AnalysisError> {
    let shortage = earliest_deadline_first(workload, supply)?;
    let Some(Shortage::Window { window: latest, .. }) = shortage else {
        return Ok(shortage);
    };
    // Demand rises at deadlines only, and supply never falls.
    let mut from = Duration::ZERO;
    for _ in 0..MOST_POINTS {
        let Some((task, window)) = workload.earliest_deadline(from) else {
            break;
        };
        if window >= latest {
            break;
        }
        let (demand, supply) = (workload.demand_bound(window), supply.supplied_down(window));
        if demand > supply {
            return Ok(Some(Shortage::Window {
                task,
                window,
                demand,
                supply,
            }));
        }
        from = window.saturating_add(Duration::from_nanos(1));
    }
    Ok(shortage)
}

/// Under EDF, the next window in a sweep from zero that is too short. The utilisation is at most
/// the rate.
pub(super) fn next_short_window(
    workload: &Workload,
    supply: &dyn SupplyBound,
    sweep: &mut WindowSweep,
) -> Result<Option<Duration>, AnalysisError> {
    sweep.next_shortage(demand_horizon(workload, supply)?, supply, workload)
}

fn first_come_first_served(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Option<Shortage>, AnalysisError> {
    let count = workload.tasks().len();
    let longest = match response_bound::first_come_first_served(workload, supply)? {
        ResponseBound::Overloaded => return Ok(Some(long_run(workload, count, supply))),
        ResponseBound::AtMost(longest) => longest,
    };
    let is_late = |task: &SporadicTask| longest.saturating_add(task.jitter()) > task.deadline();
    let late = workload.tasks().iter().position(is_late);
    Ok(late.and_then(|index| {
        let task = workload.tasks().get(index)?;
        let window = task.deadline().saturating_sub(task.jitter());
        Some(Shortage::Window {
            task: index,
            window,
            demand: workload.request_bound(count, window.max(Duration::from_nanos(1))),
            supply: supply.supplied_down(window),
        })
    }))
}

fn fixed_priority(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<Option<Shortage>, AnalysisError> {
    let mut points = 0;
    for (index, task) in workload.tasks().iter().enumerate() {
        let most_jobs = match workload.compare_utilisation(index + 1, supply.rate()) {
            Ordering::Greater => return Ok(Some(long_run(workload, index + 1, supply))),
            Ordering::Less => u64::MAX,
            // The window never ends; from one common period to the next all is the same.
            Ordering::Equal => match common_period(workload, index + 1, supply) {
                Some(common) => common / task.period(),
                None => return Err(too_many_points("the tasks take all the bandwidth")),
            },
        };
        let shortage = task_shortage(workload, index, task, supply, most_jobs, &mut points)?;
        if shortage.is_some() {
            return Ok(shortage);
        }
    }
    Ok(None)
}

/// Follows the jobs of one task through the longest busy window of its priority.
fn task_shortage(
    workload: &Workload,
    index: usize,
    task: &SporadicTask,
    supply: &dyn SupplyBound,
    most_jobs: u64,
    points: &mut u64,
) -> Result<Option<Shortage>, AnalysisError> {
    let mut finished = Duration::from_nanos(1);
    for job in 0..most_jobs {
        // Times from the start of the window, at which the first job becomes ready, its jitter
        // after it arrived.
        let (Some(own), Some(arrived)) = (
            task.execution().checked_mul(job + 1),
            task.period().checked_mul(job),
        ) else {
            break;
        };
        let due = (arrived.saturating_add(task.deadline())).saturating_sub(task.jitter());
        let demand = |window: Duration| own.saturating_add(workload.request_bound(index, window));
        loop {
            *points += 1;
            if *points > MOST_POINTS {
                return Err(too_many_points("busy windows are long"));
            }
            let next = supply.time_to_supply(demand(finished));
            if next > due {
                let window = due;
                return Ok(Some(Shortage::Window {
                    task: index,
                    window,
                    demand: demand(window.max(Duration::from_nanos(1))),
                    supply: supply.supplied_down(window),
                }));
            }
            if next <= finished {
                break;
            }
            finished = next;
        }
        // Nothing is left when the next job arrives, or already waits.
        let next_arrival = task.period().saturating_add(arrived);
        if finished.saturating_add(task.jitter()) <= next_arrival {
            break;
        }
    }
    Ok(None)
}
