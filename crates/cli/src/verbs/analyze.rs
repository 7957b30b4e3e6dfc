//! `tailbound analyze`: whether tasks meet their deadlines, and the least budget that looks like a
//! CPU of its own.

use tailbound_analysis::schedulability::priority_assignment::{
    PriorityOrder, deadline_monotonic, rate_monotonic,
};
use tailbound_analysis::{PeriodicTask, SporadicTask};
use tailbound_assessment::task_set::{self, TaskAnswer};
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

/// Response times by priority, the highest first.
fn fixed_priority(
    tasks: &[SporadicTask],
    policy: &'static str,
    order: &PriorityOrder,
    output: &Output,
) -> Result<(), Failure> {
    let answer = task_set::fixed_priority(tasks, policy, order).map_err(Failure::from_error)?;
    let table: Vec<Vec<String>> = (1..).zip(&answer.tasks).map(task_cells).collect();
    output.note(answer.method);
    output.rows(&header("priority"), &table, &answer)?;
    verdict(answer.schedulable)
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

fn task_cells((number, task): (usize, &TaskAnswer)) -> Vec<String> {
    let response = task.response_time.map(|response| response.to_string());
    vec![
        number.to_string(),
        task.execution.to_string(),
        task.period.to_string(),
        task.deadline.to_string(),
        response.unwrap_or_else(|| "-".into()),
        task.why.clone().unwrap_or_else(|| "meets it".into()),
    ]
}

fn earliest_deadline_first(tasks: &[SporadicTask], output: &Output) -> Result<(), Failure> {
    let answer = task_set::earliest_deadline_first(tasks).map_err(Failure::from_error)?;
    let table: Vec<Vec<String>> = (1..).zip(&answer.tasks).map(task_cells).collect();
    output.note(answer.method);
    output.note(answer.response_time_method);
    output.rows(&header("task"), &table, &answer)?;
    match &answer.why {
        None => verdict(answer.schedulable),
        Some(why) => Err(Failure::Verdict(format!("a deadline can be missed: {why}"))),
    }
}

/// The least budget of a deferrable server under which the tasks run as on a CPU of their own.
fn least_budget(arguments: &AnalyzeArguments, output: &Output) -> Result<(), Failure> {
    if let Some(task) = arguments.tasks.iter().find(|task| task.deadline.is_some()) {
        return Err(Failure::with_help(
            format!("task {task} has a deadline, which this analysis does not look at"),
            "leave it out: execution/period+offset, such as 40ms/250ms+150ms",
        ));
    }
    let tasks = arguments.tasks.iter().map(|task| PeriodicTask {
        offset: task.offset.or(Some(Duration::ZERO)),
        execution: task.execution,
        period: task.period,
    });
    let answer = task_set::least_budget(tasks.collect(), arguments.period);
    let answer = answer.map_err(Failure::from_error)?;
    let row = vec![
        answer.period.to_string(),
        answer.budget.to_string(),
        format!("{:.3} %", answer.bandwidth * 100.0),
        format!("{:.3} %", answer.utilisation * 100.0),
    ];
    output.note(answer.method);
    let header = ["period", "least budget", "bandwidth", "utilisation"];
    output.rows(&header, &[row], &answer)
}

fn verdict(schedulable: bool) -> Result<(), Failure> {
    if schedulable {
        return Ok(());
    }
    Err(Failure::Verdict("a deadline can be missed".into()))
}
