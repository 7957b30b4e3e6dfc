//! Periodic and sporadic tasks: least budgets, deadlines.

use pyo3::prelude::*;
use serde::Serialize;
use tailbound_analysis::notation::ServerNotation;
use tailbound_analysis::schedulability::server_interference::interfering_task;
use tailbound_analysis::schedulability::{PriorityOrder, global_edf, global_fixed_priority};
use tailbound_analysis::{AnalysisError as Refused, PeriodicLoad, PeriodicTask, SporadicTask};
use tailbound_assessment::deadline_test;
use tailbound_assessment::task_set::{self, PriorityQuestion, PriorityRule};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};

/// Execution time, period and offset in nanoseconds; without an offset the task is sporadic.
pub type PeriodicRow = (u64, u64, Option<u64>);
/// Execution time, period, deadline, jitter and blocking in nanoseconds.
pub type SporadicRow = (u64, u64, u64, u64, u64);
/// The method by name, and what it takes for granted.
type Method = (&'static str, Vec<&'static str>);

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

/// Sporadic tasks with the longest time, per task, for which lower priorities keep it waiting.
pub struct SporadicSet {
    /// The tasks.
    pub tasks: Vec<SporadicTask>,
    /// The blocking; empty where there is none.
    pub blocking: Vec<Duration>,
}

impl SporadicSet {
    /// The tasks as the analyses take them.
    ///
    /// # Errors
    /// What no analysis takes as a task.
    pub fn of(tasks_ns: Vec<SporadicRow>) -> Result<Self, Refused> {
        let ns = Duration::from_nanos;
        let blocking: Vec<Duration> = tasks_ns.iter().map(|row| ns(row.4)).collect();
        let task = |(execution, period, deadline, jitter, _): SporadicRow| {
            SporadicTask::new(ns(execution), ns(period), ns(deadline))?.with_jitter(ns(jitter))
        };
        let tasks: Result<Vec<SporadicTask>, Refused> = tasks_ns.into_iter().map(task).collect();
        Ok(Self {
            tasks: tasks?,
            blocking: match blocking.iter().all(|one| one.is_zero()) {
                true => Vec::new(),
                false => blocking,
            },
        })
    }
}

/// Servers of the highest priorities as the tasks that take as much.
fn servers(above: &[ServerNotation]) -> Result<Vec<SporadicTask>, Refused> {
    let each = above.iter();
    let each = each.map(|one| interfering_task(one.kind, one.budget, one.period));
    each.collect()
}

/// Servers as the command line writes them.
fn notations(python: Python<'_>, above: &[String]) -> PyResult<Vec<ServerNotation>> {
    let parsed = above.iter().map(|text| text.parse::<ServerNotation>());
    let parsed: Result<Vec<ServerNotation>, _> = parsed.collect();
    parsed.map_err(|error| invalid(python, format!("above: {error}")))
}

/// Asks about tasks on a thread of its own, and gives the answer as the JSON of the command line.
fn asked<T: Serialize + Send + 'static>(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    is_preemptive: bool,
    above: &[String],
    ask: impl FnOnce(&PriorityQuestion<'_>) -> Result<T, Refused> + Send + 'static,
) -> PyResult<String> {
    let above = notations(python, above)?;
    let answer = interruptible(python, move || {
        let set = SporadicSet::of(tasks_ns)?;
        let question = PriorityQuestion {
            tasks: &set.tasks,
            blocking: &set.blocking,
            servers: &servers(&above)?,
            is_preemptive,
        };
        ask(&question)
    })?;
    let answer = answer.map_err(|error| refused(python, &error))?;
    serde_json::to_string(&answer).map_err(|error| invalid(python, error))
}

/// Worst-case response times under fixed priorities by a rule (`fp`, `rm`, `dm`, `audsley`), as the JSON of
/// the command line; `null` where Audsley's assignment finds no order.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn fixed_priority(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    policy: &str,
    preemptive: bool,
    above: Vec<String>,
) -> PyResult<String> {
    let rule = rule(python, policy)?;
    asked(python, tasks_ns, preemptive, &above, move |question| {
        task_set::fixed_priority(question, rule)
    })
}

fn rule(python: Python<'_>, policy: &str) -> PyResult<PriorityRule> {
    let mut rules = PriorityRule::ALL.into_iter();
    let rule = rules.find(|rule| rule.name() == policy);
    rule.ok_or_else(|| {
        let what = format!(
            "there is no policy '{policy}'; choose \"fp\", \"rm\", \"dm\", \"audsley\" or \"edf\""
        );
        invalid(python, what)
    })
}

/// Whether all deadlines are met under earliest deadline first, with response times, as the JSON of the
/// command line.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn earliest_deadline_first(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    preemptive: bool,
    above: Vec<String>,
) -> PyResult<String> {
    asked(python, tasks_ns, preemptive, &above, |question| {
        task_set::earliest_deadline_first(question)
    })
}

/// Every test that fits, side by side, as the JSON of the command line.
///
/// # Errors
/// What no test takes.
#[pyfunction]
pub fn deadline_tests(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    cpus: u32,
    preemptive: bool,
    above: Vec<String>,
) -> PyResult<String> {
    asked(python, tasks_ns, preemptive, &above, move |question| {
        deadline_test::deadline_tests(question, cpus)
    })
}

/// Whether a test accepts, and bounds of the response times in nanoseconds where it has any.
type GlobalVerdict = (bool, Vec<Option<u64>>, Method);

/// A test of global scheduling on several CPUs, by name; under fixed priorities the first task has the
/// highest.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn global_test(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    cpus: u32,
    test: String,
) -> PyResult<Option<GlobalVerdict>> {
    let verdict = interruptible(python, move || {
        global(&SporadicSet::of(tasks_ns)?, cpus, &test)
    })?;
    verdict.map_err(|error| refused(python, &error))
}

fn global(set: &SporadicSet, cpus: u32, test: &str) -> Result<Option<GlobalVerdict>, Refused> {
    let question = PriorityQuestion {
        blocking: &set.blocking,
        ..PriorityQuestion::of(&set.tasks)
    };
    question.refuse_on_several_cpus()?;
    let tasks = question.tasks;
    let ns = |bound: Option<Duration>| bound.map(Duration::as_nanos);
    let (accepted, bounds, method, assumptions) = match test {
        "fp" => {
            let order = PriorityOrder::as_given(tasks.len());
            let responses = global_fixed_priority::sufficient_response_times(tasks, &order, cpus)?;
            let bounds = responses.bounds.iter().copied().map(ns).collect();
            (
                responses.accepted(),
                bounds,
                responses.method,
                responses.assumptions,
            )
        }
        "edf" => {
            let responses = global_edf::sufficient_response_times(tasks, cpus)?;
            let bounds = responses.bounds.iter().flatten();
            let bounds: Vec<_> = bounds.map(|bound| Some(bound.as_nanos())).collect();
            (
                responses.accepted(),
                bounds,
                responses.method,
                responses.assumptions,
            )
        }
        "edf-density" | "edf-interference" => {
            let verdict = match test {
                "edf-density" => global_edf::sufficient_density(tasks, cpus)?,
                _ => global_edf::sufficient_bcl(tasks, cpus)?,
            };
            (
                verdict.accepted,
                Vec::new(),
                verdict.method,
                verdict.assumptions,
            )
        }
        _ => return Ok(None),
    };
    Ok(Some((accepted, bounds, (method, assumptions.to_vec()))))
}
