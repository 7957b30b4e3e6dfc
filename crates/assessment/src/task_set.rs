//! Tasks without a description: whether they meet their deadlines on one CPU, and the least budget that
//! looks like a CPU of their own.

use serde::Serialize;
use tailbound_analysis::schedulability::earliest_deadline_response_time::response_times as edf_response_times;
use tailbound_analysis::schedulability::processor_demand::{Overload, first_overload};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::{PriorityOrder, TaskResponse};
use tailbound_analysis::{AnalysisError, PeriodicLoad, PeriodicTask, SporadicTask};
use tailbound_time::{Duration, nanoseconds};

use crate::schedulability::FirstShortage;

/// The method of [`least_budget`], with its source.
pub const LEAST_BUDGET_METHOD: &str = "the most that a CPU of its own works in any window of a period (Li 2021, section 3.2, W(P) times P)";

/// Whether tasks meet their deadlines under fixed priorities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FixedPriorityAnswer {
    /// How the priorities came about.
    pub policy: &'static str,
    /// Whether every job meets its deadline.
    pub schedulable: bool,
    /// The tasks, the highest priority first.
    pub tasks: Vec<TaskAnswer>,
    /// The method, with its source.
    pub method: &'static str,
    /// The assumptions of the method.
    pub assumptions: &'static [&'static str],
}

/// Whether a task meets its deadline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskAnswer {
    /// The execution time.
    #[serde(rename = "execution_ns", with = "nanoseconds")]
    pub execution: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// The deadline.
    #[serde(rename = "deadline_ns", with = "nanoseconds")]
    pub deadline: Duration,
    /// The longest time from release to completion, if there is one.
    #[serde(rename = "response_time_ns", with = "nanoseconds::optional")]
    pub response_time: Option<Duration>,
    /// Whether that is within the deadline.
    pub meets_deadline: bool,
    /// Why not.
    pub why: Option<String>,
}

impl TaskAnswer {
    fn of((task, found): (&SporadicTask, &TaskResponse)) -> Self {
        let why = match (found.response_time, found.meets_deadline) {
            (_, true) => None,
            (Ok(response), false) => Some(format!(
                "misses it by {}",
                response.saturating_sub(task.deadline())
            )),
            (Err(reason), false) => Some(reason.to_string()),
        };
        Self {
            execution: task.execution(),
            period: task.period(),
            deadline: task.deadline(),
            response_time: found.response_time.ok(),
            meets_deadline: found.meets_deadline,
            why,
        }
    }
}

/// The response times of tasks by priority.
///
/// # Errors
/// What the analysis refuses.
pub fn fixed_priority(
    tasks: &[SporadicTask],
    policy: &'static str,
    order: &PriorityOrder,
) -> Result<FixedPriorityAnswer, AnalysisError> {
    let found = response_times(tasks, order, &[])?;
    let ranked = order.highest_first().iter();
    let ranked = ranked.filter_map(|index| Some((tasks.get(*index)?, found.tasks.get(*index)?)));
    Ok(FixedPriorityAnswer {
        policy,
        schedulable: found.schedulable(),
        tasks: ranked.map(TaskAnswer::of).collect(),
        method: found.method,
        assumptions: found.assumptions,
    })
}

/// Whether tasks meet their deadlines under earliest deadline first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemandAnswer {
    /// The order of execution.
    pub policy: &'static str,
    /// Whether every job meets its deadline.
    pub schedulable: bool,
    /// The tasks.
    pub tasks: Vec<TaskAnswer>,
    /// The first instant after a common start by which more is due than one CPU can do.
    #[serde(rename = "window_ns", with = "nanoseconds::optional")]
    pub window: Option<Duration>,
    /// What is due by then.
    #[serde(rename = "demand_ns", with = "nanoseconds::optional")]
    pub demand: Option<Duration>,
    /// What of it is not done by then.
    #[serde(rename = "excess_ns", with = "nanoseconds::optional")]
    pub excess: Option<Duration>,
    /// Why a deadline can be missed.
    pub why: Option<String>,
    /// The method, with its source.
    pub method: &'static str,
    /// The assumptions of the method.
    pub assumptions: &'static [&'static str],
    /// The method of the response times.
    pub response_time_method: &'static str,
}

/// The processor demand of tasks, and their response times under earliest deadline first.
///
/// # Errors
/// What the analysis refuses.
pub fn earliest_deadline_first(tasks: &[SporadicTask]) -> Result<DemandAnswer, AnalysisError> {
    let found = first_overload(tasks)?;
    let responses = edf_response_times(tasks)?;
    let names: Vec<String> = (1..=tasks.len()).map(|one| format!("task {one}")).collect();
    let named = names.iter().map(String::as_str).zip(tasks.iter().copied());
    let shortage = match found.overload {
        Some(Overload::Window { length, .. }) => {
            let named: Vec<(&str, SporadicTask)> = named.collect();
            Some(FirstShortage::of(&named, length, length))
        }
        _ => None,
    };
    let why = match (&shortage, found.schedulable()) {
        (_, true) => None,
        (Some(shortage), _) => Some(shortage.in_words()),
        (None, _) => Some("the tasks need more than one CPU".to_owned()),
    };
    let rows = tasks.iter().zip(&responses.tasks).map(TaskAnswer::of);
    Ok(DemandAnswer {
        policy: "edf",
        schedulable: found.schedulable(),
        tasks: rows.collect(),
        window: shortage.as_ref().map(|one| one.at),
        demand: shortage.as_ref().map(|one| one.demand),
        excess: shortage.as_ref().map(|one| one.excess),
        why,
        method: found.method,
        assumptions: found.assumptions,
        response_time_method: responses.method,
    })
}

/// The least budget at a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BudgetAnswer {
    /// The least budget.
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    pub budget: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// Budget / period.
    pub bandwidth: f64,
    /// What the tasks use of a CPU in the long run.
    pub utilisation: f64,
    /// The method, with its source.
    pub method: &'static str,
}

/// The least budget of a deferrable server under which the tasks run as on a CPU of their own; at their
/// hyperperiod where `period` is `None`.
///
/// # Errors
/// What the analysis refuses.
pub fn least_budget(
    tasks: Vec<PeriodicTask>,
    period: Option<Duration>,
) -> Result<BudgetAnswer, AnalysisError> {
    let load = PeriodicLoad { tasks };
    let period = match period {
        Some(period) => period,
        None => load.hyperperiod()?,
    };
    let budget = load.least_budget(period)?;
    let share = |task: &PeriodicTask| task.execution.as_secs_f64() / task.period.as_secs_f64();
    Ok(BudgetAnswer {
        budget,
        period,
        bandwidth: budget.as_secs_f64() / period.as_secs_f64(),
        utilisation: load.tasks.iter().map(share).sum(),
        method: LEAST_BUDGET_METHOD,
    })
}
