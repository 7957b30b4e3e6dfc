//! `tailbound analyze`: whether tasks meet their deadlines, and the least budget that looks like a
//! CPU of its own.

use serde::Serialize;
use tailbound_analysis::schedulability::priority_assignment::PriorityOrder;
use tailbound_analysis::schedulability::processor_demand::{Overload, quick_processor_demand};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::{SporadicTask, TaskResponse};
use tailbound_analysis::{PeriodicLoad, PeriodicTask};
use tailbound_time::Duration;

use crate::arguments::{AnalyzeArguments, PolicyName};
use crate::failure::Failure;
use crate::output::Output;

/// Answers for the tasks of a description, or for those of the command line.
pub fn carry_out(arguments: &AnalyzeArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    match &arguments.file {
        Some(file) => super::analyze_file::carry_out(file, output),
        None => of_command_line(arguments, output),
    }
}

fn of_command_line(arguments: &AnalyzeArguments, output: &Output) -> Result<(), Failure> {
    if arguments.vas {
        return least_budget(arguments, output);
    }
    if let Some(task) = arguments.tasks.iter().find(|task| task.offset.is_some()) {
        return Err(Failure::with_help(
            format!("task {task} has an offset, which this analysis does not look at"),
            "leave it out (the answer then holds for every offset), or ask for --vas",
        ));
    }
    let tasks: Vec<SporadicTask> = arguments
        .tasks
        .iter()
        .map(|task| {
            let deadline = task.deadline.unwrap_or(task.period);
            SporadicTask::new(task.execution, task.period, deadline)
        })
        .collect::<Result<_, _>>()
        .map_err(Failure::from_error)?;
    match arguments.policy {
        PolicyName::Fp => fixed_priority(&tasks, output),
        PolicyName::Edf => earliest_deadline_first(&tasks, output),
    }
}

#[derive(Serialize)]
struct FixedPriorityAnswer {
    policy: &'static str,
    schedulable: bool,
    tasks: Vec<TaskRow>,
    method: &'static str,
    assumptions: &'static [&'static str],
}

#[derive(Serialize)]
struct TaskRow {
    execution_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    response_time_ns: Option<u64>,
    meets_deadline: bool,
    why: Option<String>,
}

fn fixed_priority(tasks: &[SporadicTask], output: &Output) -> Result<(), Failure> {
    let order = PriorityOrder::as_given(tasks.len());
    let found = response_times(tasks, &order, &[]).map_err(Failure::from_error)?;
    let schedulable = found.schedulable();
    let rows: Vec<TaskRow> = tasks.iter().zip(&found.tasks).map(task_row).collect();
    let table: Vec<Vec<String>> = rows
        .iter()
        .enumerate()
        .map(|(rank, row)| {
            let time = |ns: u64| Duration::from_nanos(ns).to_string();
            vec![
                (rank + 1).to_string(),
                time(row.execution_ns),
                time(row.period_ns),
                time(row.deadline_ns),
                row.response_time_ns.map_or("-".into(), time),
                row.why.clone().unwrap_or_else(|| "meets it".into()),
            ]
        })
        .collect();
    output.note(found.method);
    let answer = FixedPriorityAnswer {
        policy: "fp",
        schedulable,
        tasks: rows,
        method: found.method,
        assumptions: found.assumptions,
    };
    let header = [
        "priority",
        "execution",
        "period",
        "deadline",
        "response time",
        "deadline is met",
    ];
    output.rows(&header, &table, &answer)?;
    verdict(schedulable)
}

fn task_row((task, found): (&SporadicTask, &TaskResponse)) -> TaskRow {
    let why = match (found.response_time, found.meets_deadline) {
        (_, true) => None,
        (Ok(response), false) => Some(format!(
            "misses it by {}",
            response.saturating_sub(task.deadline())
        )),
        (Err(reason), false) => Some(reason.to_string()),
    };
    TaskRow {
        execution_ns: task.execution().as_nanos(),
        period_ns: task.period().as_nanos(),
        deadline_ns: task.deadline().as_nanos(),
        response_time_ns: found.response_time.ok().map(Duration::as_nanos),
        meets_deadline: found.meets_deadline,
        why,
    }
}

#[derive(Serialize)]
struct DemandAnswer {
    policy: &'static str,
    schedulable: bool,
    /// A window with more demand than time.
    window_ns: Option<u64>,
    demand_ns: Option<u64>,
    why: Option<String>,
    method: &'static str,
    assumptions: &'static [&'static str],
}

fn earliest_deadline_first(tasks: &[SporadicTask], output: &Output) -> Result<(), Failure> {
    let found = quick_processor_demand(tasks).map_err(Failure::from_error)?;
    let (window, demand, why) = match found.overload {
        None => (None, None, None),
        Some(Overload::Utilisation) => {
            let why = "the tasks need more than one CPU";
            (None, None, Some(why.to_owned()))
        }
        Some(Overload::Window { length, demand }) => {
            let why = format!("in a window of {length}, {demand} must be executed");
            (Some(length), Some(demand), Some(why))
        }
    };
    let schedulable = found.schedulable();
    let yes_or_no = if schedulable { "yes" } else { "no" };
    let row = vec![yes_or_no.into(), why.clone().unwrap_or_default()];
    output.note(found.method);
    let answer = DemandAnswer {
        policy: "edf",
        schedulable,
        window_ns: window.map(Duration::as_nanos),
        demand_ns: demand.map(Duration::as_nanos),
        why,
        method: found.method,
        assumptions: found.assumptions,
    };
    output.rows(&["schedulable", "why not"], &[row], &answer)?;
    verdict(schedulable)
}

#[derive(Serialize)]
struct BudgetAnswer {
    budget_ns: u64,
    period_ns: u64,
    bandwidth: f64,
    utilisation: f64,
    method: &'static str,
}

/// The least budget of a deferrable server under which the tasks run as on a CPU of their own.
fn least_budget(arguments: &AnalyzeArguments, output: &Output) -> Result<(), Failure> {
    let method = "the most that a CPU of its own works in any window of a period (Li 2021, section \
                  3.2, W(P) times P)";
    if let Some(task) = arguments.tasks.iter().find(|task| task.deadline.is_some()) {
        return Err(Failure::with_help(
            format!("task {task} has a deadline, which this analysis does not look at"),
            "leave it out: execution/period+offset, such as 40ms/250ms+150ms",
        ));
    }
    let mut load = PeriodicLoad::default();
    for task in &arguments.tasks {
        load = load.and(PeriodicLoad {
            tasks: vec![PeriodicTask {
                offset: task.offset.or(Some(Duration::ZERO)),
                execution: task.execution,
                period: task.period,
            }],
        });
    }
    let period = match arguments.period {
        Some(period) => period,
        None => load.hyperperiod().map_err(Failure::from_error)?,
    };
    let budget = load.least_budget(period).map_err(Failure::from_error)?;
    let share = |task: &PeriodicTask| task.execution.as_secs_f64() / task.period.as_secs_f64();
    let answer = BudgetAnswer {
        budget_ns: budget.as_nanos(),
        period_ns: period.as_nanos(),
        bandwidth: budget.as_secs_f64() / period.as_secs_f64(),
        utilisation: load.tasks.iter().map(share).sum(),
        method,
    };
    let row = vec![
        period.to_string(),
        budget.to_string(),
        format!("{:.3} %", answer.bandwidth * 100.0),
        format!("{:.3} %", answer.utilisation * 100.0),
    ];
    output.note(method);
    let header = ["period", "least budget", "bandwidth", "utilisation"];
    output.rows(&header, &[row], &answer)
}

fn verdict(schedulable: bool) -> Result<(), Failure> {
    if schedulable {
        return Ok(());
    }
    Err(Failure::Verdict("a deadline can be missed".into()))
}
