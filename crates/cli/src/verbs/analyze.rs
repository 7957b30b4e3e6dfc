//! `tailbound analyze`: whether tasks meet their deadlines, and the least budget that looks like a
//! CPU of its own.

use serde::Serialize;
use tailbound_analysis::schedulability::TaskResponse;
use tailbound_analysis::schedulability::earliest_deadline_response_time::response_times as edf_response_times;
use tailbound_analysis::schedulability::priority_assignment::{
    PriorityOrder, deadline_monotonic, rate_monotonic,
};
use tailbound_analysis::schedulability::processor_demand::{Overload, first_overload};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::{PeriodicLoad, PeriodicTask, SporadicTask};
use tailbound_experiment::schedulability::FirstShortage;
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
    let (policy, order) = match arguments.policy {
        PolicyName::Fp => ("fp", PriorityOrder::as_given(tasks.len())),
        PolicyName::Rm => ("rm", rate_monotonic(&tasks)),
        PolicyName::Dm => ("dm", deadline_monotonic(&tasks)),
        PolicyName::Edf => return earliest_deadline_first(&tasks, output),
    };
    fixed_priority(&tasks, policy, &order, output)
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

/// Response times by priority, the highest first.
fn fixed_priority(
    tasks: &[SporadicTask],
    policy: &'static str,
    order: &PriorityOrder,
    output: &Output,
) -> Result<(), Failure> {
    let found = response_times(tasks, order, &[]).map_err(Failure::from_error)?;
    let schedulable = found.schedulable();
    let ranked = order.highest_first().iter();
    let ranked = ranked.filter_map(|index| Some((tasks.get(*index)?, found.tasks.get(*index)?)));
    let rows: Vec<TaskRow> = ranked.map(task_row).collect();
    let table: Vec<Vec<String>> = (1..).zip(&rows).map(task_cells).collect();
    output.note(found.method);
    let answer = FixedPriorityAnswer {
        policy,
        schedulable,
        tasks: rows,
        method: found.method,
        assumptions: found.assumptions,
    };
    output.rows(&header("priority"), &table, &answer)?;
    verdict(schedulable)
}

fn header(first: &'static str) -> [&'static str; 6] {
    [
        first,
        "execution",
        "period",
        "deadline",
        "response time",
        "deadline is met",
    ]
}

fn task_cells((number, row): (usize, &TaskRow)) -> Vec<String> {
    let time = |ns: u64| Duration::from_nanos(ns).to_string();
    vec![
        number.to_string(),
        time(row.execution_ns),
        time(row.period_ns),
        time(row.deadline_ns),
        row.response_time_ns.map_or("-".into(), time),
        row.why.clone().unwrap_or_else(|| "meets it".into()),
    ]
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
    tasks: Vec<TaskRow>,
    /// The first instant after a common start by which more is due than one CPU can do.
    window_ns: Option<u64>,
    demand_ns: Option<u64>,
    excess_ns: Option<u64>,
    why: Option<String>,
    method: &'static str,
    assumptions: &'static [&'static str],
    response_time_method: &'static str,
}

fn earliest_deadline_first(tasks: &[SporadicTask], output: &Output) -> Result<(), Failure> {
    let found = first_overload(tasks).map_err(Failure::from_error)?;
    let responses = edf_response_times(tasks).map_err(Failure::from_error)?;
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
    let ns = |of: fn(&FirstShortage) -> Duration| shortage.as_ref().map(|one| of(one).as_nanos());
    let rows = tasks.iter().zip(&responses.tasks).map(task_row);
    let answer = DemandAnswer {
        policy: "edf",
        schedulable: found.schedulable(),
        tasks: rows.collect(),
        window_ns: ns(|one| one.at),
        demand_ns: ns(|one| one.demand),
        excess_ns: ns(FirstShortage::excess),
        why: why.clone(),
        method: found.method,
        assumptions: found.assumptions,
        response_time_method: responses.method,
    };
    let table: Vec<Vec<String>> = (1..).zip(&answer.tasks).map(task_cells).collect();
    output.note(found.method);
    output.note(responses.method);
    output.rows(&header("task"), &table, &answer)?;
    match why {
        None => verdict(found.schedulable()),
        Some(why) => Err(Failure::Verdict(format!("a deadline can be missed: {why}"))),
    }
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
