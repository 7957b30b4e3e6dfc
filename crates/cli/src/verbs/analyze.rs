//! `tailbound analyze`: whether tasks meet their deadlines, and the least budget that looks like a
//! CPU of its own.

use serde::Serialize;
use tailbound_analysis::notation::TaskNotation;
use tailbound_analysis::schedulability::server_interference::interfering_task;
use tailbound_analysis::{PeriodicTask, SporadicTask};
use tailbound_assessment::deadline_test::{TestOutcome, TestVerdict, deadline_tests};
use tailbound_assessment::task_set::{self, PriorityQuestion, PriorityRule, TaskAnswer};
use tailbound_time::Duration;

use crate::arguments::{AnalyzeArguments, TaskOrder};
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
    let tasks: Result<Vec<SporadicTask>, _> =
        arguments.tasks.iter().map(|task| task.sporadic()).collect();
    let tasks = tasks.map_err(Failure::from_error)?;
    let blocking = arguments.tasks.iter().map(|task| task.blocking);
    let blocking: Vec<Duration> = match blocking.clone().any(|one| one.is_some()) {
        true => blocking.map(Option::unwrap_or_default).collect(),
        false => Vec::new(),
    };
    let servers = arguments.above.iter();
    let servers = servers.map(|one| interfering_task(one.kind, one.budget, one.period));
    let servers: Result<Vec<SporadicTask>, _> = servers.collect();
    let question = PriorityQuestion {
        tasks: &tasks,
        blocking: &blocking,
        servers: &servers.map_err(Failure::from_error)?,
        is_preemptive: !arguments.non_preemptive,
    };
    if arguments.tests {
        return all_tests(&question, arguments.cpus, output);
    }
    if arguments.cpus > 1 {
        return on_several_cpus(&question, arguments, output);
    }
    match priority_rule(arguments.scheduling) {
        Some(rule) => fixed_priority(&question, rule, output),
        None => earliest_deadline_first(&question, output),
    }
}

/// The rule of an order of fixed priorities.
fn priority_rule(scheduling: TaskOrder) -> Option<PriorityRule> {
    match scheduling {
        TaskOrder::FixedPriority => Some(PriorityRule::AsGiven),
        TaskOrder::RateMonotonic => Some(PriorityRule::RateMonotonic),
        TaskOrder::DeadlineMonotonic => Some(PriorityRule::DeadlineMonotonic),
        TaskOrder::Audsley => Some(PriorityRule::Audsley),
        TaskOrder::EarliestDeadlineFirst => None,
    }
}

/// Every test that fits, side by side; the set is schedulable if one of them says so.
fn all_tests(question: &PriorityQuestion<'_>, cpus: u32, output: &Output) -> Result<(), Failure> {
    let verdicts = deadline_tests(question, cpus).map_err(Failure::from_error)?;
    let rows = verdicts.iter().map(|one| {
        vec![
            one.scheduling.to_owned(),
            one.test.to_owned(),
            one.outcome.in_words().to_owned(),
            one.why.clone().unwrap_or_else(|| one.method.clone()),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    for one in &verdicts {
        for assumption in &one.assumptions {
            let (scheduling, test) = (one.scheduling, one.test);
            output.detail(format!(
                "{scheduling}, {test}: taken for granted: {assumption}"
            ));
        }
    }
    let header = [
        "scheduling",
        "test",
        "verdict",
        "source, or why it does not fit",
    ];
    output.rows(&header, &rows, &TestList { tests: &verdicts })?;
    let is_shown = |one: &TestVerdict| one.outcome == TestOutcome::Schedulable;
    match verdicts.iter().any(is_shown) {
        true => Ok(()),
        false => Err(Failure::Verdict(
            "no test shows that all deadlines are met".into(),
        )),
    }
}

/// The document of [`all_tests`].
#[derive(Serialize)]
struct TestList<'a> {
    tests: &'a [TestVerdict],
}

fn on_several_cpus(
    question: &PriorityQuestion<'_>,
    arguments: &AnalyzeArguments,
    output: &Output,
) -> Result<(), Failure> {
    let cpus = arguments.cpus;
    let answer = match priority_rule(arguments.scheduling) {
        Some(PriorityRule::Audsley) => {
            return Err(Failure::with_help(
                "Audsley's assignment does not hold for the test of global fixed priorities, whose \
                 answer rests on the order among the higher ones (Davis and Burns 2011)",
                "choose --scheduling deadline-monotonic, or another",
            ));
        }
        Some(rule) => task_set::global_fixed_priority(question, rule, cpus),
        None => task_set::global_earliest_deadline_first(question, cpus),
    };
    let answer = answer.map_err(Failure::from_error)?;
    output.note(answer.method);
    for assumption in answer.assumptions {
        output.detail(format!("taken for granted: {assumption}"));
    }
    let columns = TaskColumns::of(&answer.tasks);
    let first = match arguments.scheduling {
        TaskOrder::EarliestDeadlineFirst => "task",
        _ => "priority",
    };
    output.rows(
        &columns.header(first),
        &columns.rows(&answer.tasks),
        &answer,
    )?;
    match answer.accepted {
        true => Ok(()),
        false => Err(Failure::Verdict(format!(
            "not shown to meet all deadlines on {cpus} CPUs; the test is sufficient only, --tests lists \
             others"
        ))),
    }
}

/// Response times by priority, the highest first.
fn fixed_priority(
    question: &PriorityQuestion<'_>,
    rule: PriorityRule,
    output: &Output,
) -> Result<(), Failure> {
    let answer = task_set::fixed_priority(question, rule).map_err(Failure::from_error)?;
    let answer = answer.ok_or_else(|| {
        Failure::Verdict(
            "in every order of priorities a deadline can be missed (Audsley 2001)".into(),
        )
    })?;
    output.note(answer.method);
    for assumption in answer.assumptions {
        output.detail(format!("taken for granted: {assumption}"));
    }
    let columns = TaskColumns::of(&answer.tasks);
    output.rows(
        &columns.header("priority"),
        &columns.rows(&answer.tasks),
        &answer,
    )?;
    verdict(answer.schedulable)
}

/// The columns of tasks: jitter and blocking only where a task has any.
struct TaskColumns {
    jitter: bool,
    blocking: bool,
}

impl TaskColumns {
    fn of(tasks: &[TaskAnswer]) -> Self {
        Self {
            jitter: tasks.iter().any(|task| !task.jitter.is_zero()),
            blocking: tasks.iter().any(|task| !task.blocking.is_zero()),
        }
    }

    fn header(&self, first: &'static str) -> Vec<&'static str> {
        let mut header = vec![first, "execution", "period", "deadline"];
        header.extend(self.jitter.then_some("jitter"));
        header.extend(self.blocking.then_some("blocking"));
        header.extend(["response time", "deadline is met"]);
        header
    }

    fn rows(&self, tasks: &[TaskAnswer]) -> Vec<Vec<String>> {
        let row = |(number, task): (usize, &TaskAnswer)| {
            let mut row = vec![
                number.to_string(),
                task.execution.to_string(),
                task.period.to_string(),
                task.deadline.to_string(),
            ];
            row.extend(self.jitter.then(|| task.jitter.to_string()));
            row.extend(self.blocking.then(|| task.blocking.to_string()));
            let response = task.response_time.map(|response| response.to_string());
            row.push(response.unwrap_or_else(|| "-".into()));
            row.push(task.why.clone().unwrap_or_else(|| "meets it".into()));
            row
        };
        (1..).zip(tasks).map(row).collect()
    }
}

fn earliest_deadline_first(
    question: &PriorityQuestion<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let answer = task_set::earliest_deadline_first(question).map_err(Failure::from_error)?;
    output.note(answer.method);
    output.note(answer.response_time_method);
    let columns = TaskColumns::of(&answer.tasks);
    output.rows(
        &columns.header("task"),
        &columns.rows(&answer.tasks),
        &answer,
    )?;
    match &answer.why {
        None => verdict(answer.schedulable),
        Some(why) => Err(Failure::Verdict(format!("a deadline can be missed: {why}"))),
    }
}

/// The least budget of a deferrable server under which the tasks run as on a CPU of their own.
fn least_budget(arguments: &AnalyzeArguments, output: &Output) -> Result<(), Failure> {
    let unused = |task: &&TaskNotation| {
        task.deadline.is_some() || task.jitter.is_some() || task.blocking.is_some()
    };
    if let Some(task) = arguments.tasks.iter().find(unused) {
        return Err(Failure::with_help(
            format!(
                "task {task} has a deadline, jitter or blocking, which this analysis does not look at"
            ),
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
