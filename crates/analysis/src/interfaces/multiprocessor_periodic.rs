//! The multiprocessor periodic resource model (Easwaran, Shin and Lee 2009).

use std::cmp::Ordering;

use serde::Serialize;
use tailbound_time::Duration;

use super::component::{ComponentVerdict, Shortage, long_run};
use super::demand::{LONGEST, Workload};
use super::supply::SupplyBound;
use super::test_points::{Demand, WindowSweep, linear_horizon};
use crate::{AnalysisError, SporadicTask};

/// The budget is given in every period, on at most `cpus` CPUs at a time: μ = ⟨Π, Θ, m'⟩.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MultiprocessorPeriodic {
    budget: Duration,
    period: Duration,
    cpus: u32,
}

impl MultiprocessorPeriodic {
    /// A resource of `budget` altogether in every `period`, on up to `cpus` CPUs at a time.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget <= cpus x period, 0 < period <= [`LONGEST`] and
    /// 0 < cpus <= 65536.
    pub fn new(budget: Duration, period: Duration, cpus: u32) -> Result<Self, AnalysisError> {
        let most = u128::from(period.as_nanos()) * u128::from(cpus);
        let sized = !period.is_zero() && period <= LONGEST && (1..=65_536).contains(&cpus);
        if !sized || u128::from(budget.as_nanos()) > most || budget > LONGEST * 64 {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "a budget of {budget} in every {period} on {cpus} CPUs cannot be given; the \
                     budget must be at most the CPUs times the period, the period above zero and \
                     at most {LONGEST}, the CPUs from 1 to 65536"
                ),
            });
        }
        Ok(Self {
            budget,
            period,
            cpus,
        })
    }

    /// The CPU time per period, on all CPUs together.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The most CPUs at a time.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The longest time without supply, rounded up: 2 (Π - Θ / m').
    fn gap_up(&self) -> Duration {
        let most = u128::from(self.period.as_nanos()) * u128::from(self.cpus);
        let unused = most - u128::from(self.budget.as_nanos());
        // At most twice the period.
        Duration::from_nanos((2 * unused).div_ceil(u128::from(self.cpus)) as u64)
    }
}

/// In continuous time: whatever the pattern, a part of length l of a period holds at least
/// Θ - m' (Π - l), so any window holds m' times what a periodic resource of Θ / m' gives. (The
/// bound of the paper is for whole units of time and may be up to m' units above.)
impl SupplyBound for MultiprocessorPeriodic {
    fn supplied_down(&self, window: Duration) -> Duration {
        let Some(after) = window.checked_sub(self.gap_up()) else {
            return Duration::ZERO;
        };
        let whole = u128::from(after / self.period) * u128::from(self.budget.as_nanos());
        let rest = u128::from((after % self.period).as_nanos()) * u128::from(self.cpus);
        let supply = whole + rest.min(u128::from(self.budget.as_nanos()));
        Duration::from_nanos(u64::try_from(supply).unwrap_or(u64::MAX))
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        let Some(before_last) = work.as_nanos().checked_sub(1) else {
            return Duration::ZERO;
        };
        let Some(whole) = before_last.checked_div(self.budget.as_nanos()) else {
            return Duration::MAX;
        };
        let rest = (work - self.budget * whole).scaled_up(1, u64::from(self.cpus));
        let full = self.period.checked_mul(whole);
        let end = full.and_then(|full| full.checked_add(self.gap_up())?.checked_add(rest));
        end.unwrap_or(Duration::MAX)
    }

    fn rate(&self) -> (u64, u64) {
        (self.budget.as_nanos(), self.period.as_nanos())
    }

    fn delay_up(&self) -> Duration {
        self.gap_up()
    }

    fn repeats_after(&self) -> Duration {
        self.period
    }

    fn name(&self) -> &'static str {
        "multiprocessor periodic resource model (Easwaran, Shin and Lee 2009), in continuous time"
    }
}

/// Whether `workload` meets its deadlines under global EDF on this resource: the test of Easwaran,
/// Shin and Lee (2009, section 4), which follows Baruah (2007), with equality of demand and supply
/// judged more strictly (docs/concepts/interfaces.md). Sufficient only. A deadline beyond the
/// period counts as the period, which is safe.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] for tasks with jitter, and where too many points would have to
/// be tested.
pub fn schedulable_global_edf(
    workload: &Workload,
    resource: &MultiprocessorPeriodic,
) -> Result<ComponentVerdict, AnalysisError> {
    if workload.tasks().iter().any(|task| !task.jitter().is_zero()) {
        return Err(AnalysisError::NotAnalysed {
            reason: "global EDF on a multiprocessor resource with release jitter".into(),
        });
    }
    let shortage = shortage(workload, resource)?;
    Ok(ComponentVerdict {
        schedulable: shortage.is_none(),
        exact: false,
        shortage,
        method: format!(
            "global EDF by interference against supply (Easwaran, Shin and Lee 2009); {}",
            resource.name()
        ),
        assumptions: vec![
            "tasks are independent, preemptive, and never suspend themselves".into(),
            "a job runs on one CPU at a time and migrates at no cost".into(),
        ],
    })
}

/// The tasks with deadlines up to their periods.
fn constrained(workload: &Workload) -> Vec<SporadicTask> {
    let tasks = workload.tasks().iter();
    tasks.map(|task| task.constrained()).collect()
}

/// Whether the rate is above the utilisation by so little, if at all, that the test has no end.
/// More budget never makes it so.
pub(super) fn out_of_rate(workload: &Workload, resource: &MultiprocessorPeriodic) -> bool {
    let count = workload.tasks().len();
    let tasks = constrained(workload);
    workload.compare_utilisation(count, resource.rate()) != Ordering::Less
        || (0..count).any(|index| {
            DeadlineProblem::of(&tasks, index, resource)
                .horizon(workload)
                .is_none()
        })
}

fn shortage(
    workload: &Workload,
    resource: &MultiprocessorPeriodic,
) -> Result<Option<Shortage>, AnalysisError> {
    if out_of_rate(workload, resource) {
        return Ok(Some(long_run(workload, workload.tasks().len(), resource)));
    }
    let tasks = constrained(workload);
    for (index, task) in tasks.iter().enumerate() {
        if task.execution() > task.deadline() {
            return Ok(Some(Shortage::Window {
                task: index,
                window: task.deadline(),
                demand: task.execution(),
                supply: task.deadline(),
            }));
        }
        let problem = DeadlineProblem::of(&tasks, index, resource);
        let mut sweep = WindowSweep::from(task.deadline());
        let short_window = next_short_window(workload, index, resource, &mut sweep)?;
        if let Some(window) = short_window {
            return Ok(Some(Shortage::Window {
                task: index,
                window,
                demand: problem.in_window(window),
                supply: resource.supplied_down(window),
            }));
        }
    }
    Ok(None)
}

/// The next window that is too short for a task, in a sweep from its
/// deadline. The rate is discernibly above the utilisation.
pub(super) fn next_short_window(
    workload: &Workload,
    index: usize,
    resource: &MultiprocessorPeriodic,
    sweep: &mut WindowSweep,
) -> Result<Option<Duration>, AnalysisError> {
    let tasks = constrained(workload);
    let problem = DeadlineProblem::of(&tasks, index, resource);
    let horizon = problem.horizon(workload).unwrap_or_default();
    sweep.next_shortage(horizon, resource, &problem)
}

/// A length from which on no window is too short for a task.
pub(super) fn horizon_of(
    workload: &Workload,
    index: usize,
    resource: &MultiprocessorPeriodic,
) -> Option<Duration> {
    DeadlineProblem::of(&constrained(workload), index, resource).horizon(workload)
}

/// What is asked for in a window that ends with a deadline of a task.
pub(super) fn demand_of(
    workload: &Workload,
    index: usize,
    resource: &MultiprocessorPeriodic,
    window: Duration,
) -> Duration {
    DeadlineProblem::of(&constrained(workload), index, resource).in_window(window)
}

/// The job of one task whose deadline ends the window.
struct DeadlineProblem<'a> {
    /// All tasks, with deadlines up to their periods.
    tasks: &'a [SporadicTask],
    index: usize,
    resource: &'a MultiprocessorPeriodic,
    cpus: usize,
}

impl<'a> DeadlineProblem<'a> {
    fn of(tasks: &'a [SporadicTask], index: usize, resource: &'a MultiprocessorPeriodic) -> Self {
        Self {
            tasks,
            index,
            resource,
            cpus: resource.cpus as usize,
        }
    }

    /// A length from which on no window is too short.
    fn horizon(&self, workload: &Workload) -> Option<Duration> {
        linear_horizon(workload, self.constant_work(), self.resource)
    }

    fn execution(&self) -> u64 {
        self.tasks[self.index].execution().as_nanos()
    }

    fn deadline(&self) -> u64 {
        self.tasks[self.index].deadline().as_nanos()
    }

    /// The demand is at most this and U times the window.
    fn constant_work(&self) -> u128 {
        let mut carried: Vec<u64> = self
            .tasks
            .iter()
            .map(|task| task.execution().as_nanos())
            .collect();
        carried.sort_unstable_by(|a, b| b.cmp(a));
        let carried = carried.iter().take(self.cpus.saturating_sub(1));
        let early = self.tasks.iter().map(|task| {
            let early = u128::from((task.period() - task.deadline()).as_nanos());
            (early * u128::from(task.execution().as_nanos()))
                .div_ceil(u128::from(task.period().as_nanos()))
        });
        early.sum::<u128>()
            + carried.map(|work| u128::from(*work)).sum::<u128>()
            + self.cpus as u128 * u128::from(self.execution())
    }

    /// The jobs of a task with deadlines in a window that ends with one of its deadlines, and the
    /// work of the one carried in before them.
    fn jobs_and_carried(task: &SporadicTask, window: u64) -> (u64, u64) {
        let (period, deadline) = (task.period().as_nanos(), task.deadline().as_nanos());
        let jobs = (window + (period - deadline)) / period;
        let carried = window.saturating_sub(jobs * period);
        (jobs, carried.min(task.execution().as_nanos()))
    }

    /// How many jobs of a task in the window are the job itself, and how long the others may run
    /// beside it.
    fn own_jobs_and_room(&self, index: usize, window: u64) -> (u64, u64) {
        if index == self.index {
            (1, window.saturating_sub(self.deadline()))
        } else {
            (0, window.saturating_sub(self.execution()))
        }
    }
}

impl Demand for DeadlineProblem<'_> {
    /// The work with which the job misses its deadline at the end of the window, at least:
    /// dem(A + D, m') of the paper. It never falls with the window.
    fn in_window(&self, window: Duration) -> Duration {
        let window = window.as_nanos();
        let mut more: Vec<u64> = Vec::with_capacity(self.tasks.len());
        let mut sum = self.cpus as u128 * u128::from(self.execution());
        for (index, task) in self.tasks.iter().enumerate() {
            let (jobs, carried) = Self::jobs_and_carried(task, window);
            let (own, room) = self.own_jobs_and_room(index, window);
            let work = jobs
                .saturating_sub(own)
                .saturating_mul(task.execution().as_nanos());
            let without = work.min(room);
            sum += u128::from(without);
            more.push(work.saturating_add(carried).min(room) - without);
        }
        more.sort_unstable_by(|a, b| b.cmp(a));
        let most = more.iter().take(self.cpus.saturating_sub(1));
        sum += most.map(|work| u128::from(*work)).sum::<u128>();
        Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// Whether a demand that just equals the supply may be a miss. The paper caps the work of the
    /// others at the window less the execution time, but a job that misses leaves them a little
    /// more. That much more is m' times as much supply, so they must have more to do on m' tasks.
    fn tie_fails(&self, window: Duration) -> bool {
        let window = window.as_nanos();
        let others = self.tasks.iter().enumerate().filter(|(index, task)| {
            let (jobs, carried) = Self::jobs_and_carried(task, window);
            let (own, room) = self.own_jobs_and_room(*index, window);
            let work = jobs
                .saturating_sub(own)
                .saturating_mul(task.execution().as_nanos());
            work.saturating_add(carried) > room
        });
        others.count() >= self.cpus
    }

    /// The next lower window at which demand bends or jumps, or the supply begins to rise.
    fn next_before(&self, window: Duration) -> Option<Duration> {
        let last = window.as_nanos().checked_sub(1)?;
        let latest = |first: u64, every_ns: u64| {
            let beyond = last.checked_sub(first)?;
            Some(last - beyond % every_ns)
        };
        let rises = latest(
            self.resource.gap_up().as_nanos(),
            self.resource.period.as_nanos(),
        );
        let bends = self.tasks.iter().enumerate().flat_map(|(index, task)| {
            let period = task.period().as_nanos();
            let execution = task.execution().as_nanos();
            let (jobs, _) = Self::jobs_and_carried(task, last);
            let (own, room_from) = if index == self.index {
                (1, self.deadline())
            } else {
                (0, self.execution())
            };
            // Where the work of this many jobs, or of one more, just finds room.
            let meets = |jobs: u64| {
                let at = jobs
                    .saturating_sub(own)
                    .saturating_mul(execution)
                    .saturating_add(room_from);
                (at <= last).then_some(at)
            };
            [
                latest(task.deadline().as_nanos(), period),
                latest(0, period),
                latest(execution, period),
                meets(jobs),
                meets(jobs + 1),
            ]
        });
        bends
            .chain([rises])
            .flatten()
            .max()
            .map(Duration::from_nanos)
    }
}
