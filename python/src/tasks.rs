//! Periodic and sporadic tasks: least budgets, deadlines.

use pyo3::prelude::*;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::priority_assignment::audsley_by_response_time;
use tailbound_analysis::schedulability::processor_demand::{Overload, quick_processor_demand};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::{
    PriorityOrder, TaskResponse, global_edf, global_fixed_priority,
};
use tailbound_analysis::{AnalysisError as Refused, PeriodicLoad, PeriodicTask, SporadicTask};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::refused;

/// Execution time, period and offset in nanoseconds; without an offset the task is sporadic.
pub type PeriodicRow = (u64, u64, Option<u64>);
/// Execution time, period and deadline in nanoseconds.
pub type SporadicRow = (u64, u64, u64);
/// The method by name, and what it takes for granted.
type Method = (&'static str, Vec<&'static str>);
/// Response time in nanoseconds, whether it is within the deadline, and why there is none.
type TaskVerdict = (Option<u64>, bool, Option<String>);

/// The tasks as the analysis takes them.
pub fn load(tasks_ns: Vec<PeriodicRow>) -> PeriodicLoad {
    let task = |(execution, period, offset): PeriodicRow| PeriodicTask {
        offset: offset.map(Duration::from_nanos),
        execution: Duration::from_nanos(execution),
        period: Duration::from_nanos(period),
    };
    PeriodicLoad {
        tasks: tasks_ns.into_iter().map(task).collect(),
    }
}

/// The least common multiple of the periods, in nanoseconds.
///
/// # Errors
/// A period of zero, and more than an hour.
#[pyfunction]
pub fn hyperperiod(python: Python<'_>, tasks_ns: Vec<PeriodicRow>) -> PyResult<u64> {
    load(tasks_ns)
        .hyperperiod()
        .map(Duration::as_nanos)
        .map_err(|error| refused(python, &error))
}

/// The least budget at each of the periods, and the utilisation.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn bandwidth_curve(
    python: Python<'_>,
    tasks_ns: Vec<PeriodicRow>,
    periods_ns: Vec<u64>,
) -> PyResult<(Vec<u64>, f64)> {
    let load = load(tasks_ns);
    let utilisation = load.utilisation();
    let points = interruptible(python, move || {
        let periods = periods_ns.into_iter().map(Duration::from_nanos);
        tailbound_analysis::bandwidth_curve(&load, periods)
    })?;
    let points = points.map_err(|error| refused(python, &error))?;
    let budgets_ns = points.iter().map(|point| point.least_budget.as_nanos());
    Ok((budgets_ns.collect(), utilisation))
}

/// The tasks as the analysis takes them.
pub fn sporadic(tasks_ns: Vec<SporadicRow>) -> Result<Vec<SporadicTask>, Refused> {
    let ns = Duration::from_nanos;
    let task = |(execution, period, deadline): SporadicRow| {
        SporadicTask::new(ns(execution), ns(period), ns(deadline))
    };
    tasks_ns.into_iter().map(task).collect()
}

/// Worst-case response times under fixed priorities, the first task having the highest; jobs that have
/// begun are preempted or not.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn fixed_priority(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    preemptive: bool,
) -> PyResult<(Vec<TaskVerdict>, Method)> {
    let found = interruptible(python, move || {
        let tasks = sporadic(tasks_ns)?;
        let order = PriorityOrder::as_given(tasks.len());
        match preemptive {
            true => response_times(&tasks, &order, &[]),
            false => non_preemptive_response_times(&tasks, &order, &[]),
        }
    })?;
    let found = found.map_err(|error| refused(python, &error))?;
    let verdict = |task: &TaskResponse| {
        let response_ns = task.response_time.ok().map(Duration::as_nanos);
        let why = task.response_time.err().map(|reason| reason.to_string());
        (response_ns, task.meets_deadline, why)
    };
    let verdicts = found.tasks.iter().map(verdict).collect();
    Ok((verdicts, (found.method, found.assumptions.to_vec())))
}

/// An order of priorities under which all tasks meet their deadlines, as the positions of the tasks, the
/// highest priority first; nothing where there is none.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn audsley(python: Python<'_>, tasks_ns: Vec<SporadicRow>) -> PyResult<Option<Vec<usize>>> {
    let found = interruptible(python, move || {
        audsley_by_response_time(&sporadic(tasks_ns)?, &[])
    })?;
    let found = found.map_err(|error| refused(python, &error))?;
    Ok(found.map(|order| order.highest_first().to_vec()))
}

/// Whether a test accepts, and bounds of the response times in nanoseconds where it has any.
type GlobalVerdict = (bool, Vec<Option<u64>>, Method);

/// A test of global scheduling on several CPUs, by name; under fixed priorities the first task has the
/// highest.
///
/// # Errors
/// What the analysis refuses, and a name that no test has.
#[pyfunction]
pub fn global_test(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    cpus: u32,
    test: String,
) -> PyResult<Option<GlobalVerdict>> {
    let found = interruptible(python, move || global(&sporadic(tasks_ns)?, cpus, &test))?;
    found.map_err(|error| refused(python, &error))
}

fn global(tasks: &[SporadicTask], cpus: u32, test: &str) -> Result<Option<GlobalVerdict>, Refused> {
    let ns = |bound: Option<Duration>| bound.map(Duration::as_nanos);
    let (accepted, bounds, method, assumptions) = match test {
        "fp" => {
            let order = PriorityOrder::as_given(tasks.len());
            let found = global_fixed_priority::sufficient_response_times(tasks, &order, cpus)?;
            let bounds = found.bounds.iter().copied().map(ns).collect();
            (found.accepted(), bounds, found.method, found.assumptions)
        }
        "edf" => {
            let found = global_edf::sufficient_response_times(tasks, cpus)?;
            let bounds = found.bounds.iter().flatten();
            let bounds: Vec<_> = bounds.map(|bound| Some(bound.as_nanos())).collect();
            (found.accepted(), bounds, found.method, found.assumptions)
        }
        "edf-density" | "edf-interference" => {
            let found = match test {
                "edf-density" => global_edf::sufficient_density(tasks, cpus)?,
                _ => global_edf::sufficient_bcl(tasks, cpus)?,
            };
            (found.accepted, Vec::new(), found.method, found.assumptions)
        }
        _ => return Ok(None),
    };
    Ok(Some((accepted, bounds, (method, assumptions.to_vec()))))
}

/// A window and what must be executed in it, both in nanoseconds.
type WindowRow = (u64, u64);

/// Whether all deadlines are met under earliest deadline first; if not, the overloaded window,
/// which there is none of where the tasks need more than a CPU.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn earliest_deadline_first(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
) -> PyResult<(bool, Option<WindowRow>, Method)> {
    let found = interruptible(python, move || quick_processor_demand(&sporadic(tasks_ns)?))?;
    let found = found.map_err(|error| refused(python, &error))?;
    let window = match found.overload {
        Some(Overload::Window { length, demand }) => Some((length.as_nanos(), demand.as_nanos())),
        Some(Overload::Utilisation) | None => None,
    };
    let method = (found.method, found.assumptions.to_vec());
    Ok((found.schedulable(), window, method))
}
