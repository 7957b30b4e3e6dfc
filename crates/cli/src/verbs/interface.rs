//! `tailbound interface`: the least reservations on which tasks meet their deadlines, of a description or
//! of named tasks.

use tailbound_analysis::SporadicTask;
use tailbound_analysis::sizing::spread_periods;
use tailbound_assessment::interface::{
    ComponentOrder, InterfaceAnswer, InterfaceChoice, InterfaceQuery, SupplyKind, TaskComponent,
    least_interfaces, longest_delays,
};
use tailbound_time::Duration;

use super::interface_file;
use crate::arguments::{ComponentScheduling, InterfaceArguments, ModelName};
use crate::failure::Failure;
use crate::output::{Output, table};

/// Searches the interfaces of the description, or of the tasks of the options.
pub fn carry_out(arguments: &InterfaceArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    check(arguments)?;
    match &arguments.file {
        Some(file) => interface_file::carry_out(file, arguments, output),
        None => of_command_line(arguments, output),
    }
}

/// Refuses options that do not belong to the model.
fn check(arguments: &InterfaceArguments) -> Result<(), Failure> {
    let model = arguments.model;
    let strays = [
        (
            arguments.cpus.is_some() && model != ModelName::Multiprocessor,
            "--cpus belongs to --model multiprocessor",
        ),
        (
            arguments.jitter.is_some()
                && !matches!(model, ModelName::Deferrable | ModelName::Polling),
            "--jitter belongs to --model deferrable or polling",
        ),
        (
            arguments.deadline.is_some() && model != ModelName::ExplicitDeadline,
            "--deadline belongs to --model explicit-deadline",
        ),
        (
            arguments.bandwidth.is_some() && model != ModelName::BoundedDelay,
            "--bandwidth belongs to --model bounded-delay",
        ),
        (
            arguments.period.is_some() && model == ModelName::BoundedDelay,
            "--period does not belong to --model bounded-delay, which has none",
        ),
        (
            !arguments.overhead.is_zero() && model == ModelName::BoundedDelay,
            "--overhead does not belong to --model bounded-delay, which has no replenishments",
        ),
    ];
    match strays.iter().find(|(is_stray, _)| *is_stray) {
        Some((_, what)) => Err(Failure::with_help(
            what,
            "leave it out, or choose that model",
        )),
        None => Ok(()),
    }
}

/// The question, with these periods.
pub(super) fn query(
    arguments: &InterfaceArguments,
    periods: Vec<Duration>,
) -> Result<InterfaceQuery, Failure> {
    let kind = match arguments.model {
        ModelName::Periodic => SupplyKind::Periodic,
        ModelName::ExplicitDeadline => SupplyKind::ExplicitDeadline,
        ModelName::Deferrable => SupplyKind::Deferrable,
        ModelName::Polling => SupplyKind::Polling,
        ModelName::Multiprocessor => SupplyKind::Multiprocessor,
        ModelName::BoundedDelay => {
            return Err(Failure::with_help(
                "a description has no bounded delays",
                "name tasks with --task, or choose another model",
            ));
        }
    };
    if kind == SupplyKind::Multiprocessor && arguments.cpus.is_none() {
        return Err(Failure::with_help(
            "a multiprocessor reservation needs the most CPUs that it may use",
            "give them: --cpus 4",
        ));
    }
    Ok(InterfaceQuery {
        kind,
        periods,
        jitter: arguments.jitter.unwrap_or_default(),
        deadline: arguments.deadline,
        overhead: arguments.overhead,
        cpus: arguments.cpus.unwrap_or(1),
    })
}

/// The periods that are asked for, if any.
pub(super) fn periods(arguments: &InterfaceArguments) -> Option<Vec<Duration>> {
    let range = arguments.period?;
    Some(spread_periods(range.low, range.high, arguments.points))
}

fn of_command_line(arguments: &InterfaceArguments, output: &Output) -> Result<(), Failure> {
    let component = component(arguments)?;
    let answer = match arguments.model {
        ModelName::BoundedDelay => longest_delays(&component, &rates(arguments)?),
        _ => {
            let periods = periods(arguments).ok_or_else(|| {
                Failure::with_help(
                    "no period is given",
                    "give one or a range of them: --period 1ms..100ms",
                )
            })?;
            least_interfaces(&component, &query(arguments, periods)?)
        }
    };
    let answer = answer.map_err(Failure::from_error)?;
    render(&answer, output)?;
    match answer.best {
        Some(_) => Ok(()),
        None => {
            let why = answer.interfaces.first().and_then(|row| row.why.clone());
            let why = why.unwrap_or_else(|| "there is no period".into());
            Err(Failure::Verdict(format!("no interface suffices: {why}")))
        }
    }
}

fn component(arguments: &InterfaceArguments) -> Result<TaskComponent, Failure> {
    let unused = |task: &&tailbound_analysis::notation::TaskNotation| {
        task.offset.is_some() || task.blocking.is_some()
    };
    if let Some(task) = arguments.tasks.iter().find(unused) {
        return Err(Failure::with_help(
            format!("task {task} has an offset or blocking, which interfaces do not look at"),
            "leave an offset out (the answer then holds for every offset); add blocking to the \
             execution time",
        ));
    }
    let tasks: Result<Vec<SporadicTask>, _> =
        arguments.tasks.iter().map(|task| task.sporadic()).collect();
    let tasks = tasks.map_err(Failure::from_error)?;
    let order = match arguments.scheduling {
        ComponentScheduling::EarliestDeadlineFirst => ComponentOrder::EarliestDeadlineFirst,
        ComponentScheduling::Fifo => ComponentOrder::FirstComeFirstServed,
        ComponentScheduling::FixedPriority => ComponentOrder::AsGiven,
        ComponentScheduling::RateMonotonic => ComponentOrder::RateMonotonic,
        ComponentScheduling::DeadlineMonotonic => ComponentOrder::DeadlineMonotonic,
    };
    TaskComponent::new(tasks, order).map_err(Failure::from_error)
}

/// The rates of a bounded delay as numerators and denominators.
fn rates(arguments: &InterfaceArguments) -> Result<Vec<(u64, u64)>, Failure> {
    let range = arguments.bandwidth.ok_or_else(|| {
        Failure::with_help(
            "no bandwidth is given",
            "give one or a range of them: --bandwidth 30%..90%",
        )
    })?;
    Ok(range.spread(arguments.points))
}

/// The columns of the CSV.
pub(super) const CSV: [&str; 8] = [
    "period_ns",
    "budget_ns",
    "deadline_ns",
    "delay_ns",
    "cpus",
    "bandwidth",
    "above_utilisation",
    "why",
];

fn render(answer: &InterfaceAnswer, output: &Output) -> Result<(), Failure> {
    output.note(format!("model: {}", answer.model));
    if let Some(method) = &answer.method {
        output.note(method);
    }
    for assumption in &answer.assumptions {
        output.detail(format!("taken for granted: {assumption}"));
    }
    let for_people = || {
        let (header, rows) = columns(&answer.interfaces);
        let best = match answer.choice() {
            Some(choice) => {
                let less = choice.why.as_ref();
                let less = less.map(|why| format!("with a nanosecond less: {why}\n"));
                let less = less.unwrap_or_default();
                format!("least bandwidth: {}\n{less}", in_words(choice))
            }
            None => String::new(),
        };
        let utilisation = answer.utilisation * 100.0;
        let table = table(&header, &rows);
        format!("{table}\nutilisation of the tasks: {utilisation:.3} %\n{best}")
    };
    let rows: Vec<Vec<String>> = answer.interfaces.iter().map(csv_cells).collect();
    output.rows_with(for_people, &CSV, &rows, answer)
}

/// A choice in one phrase.
pub(super) fn in_words(choice: &InterfaceChoice) -> String {
    let share = choice.bandwidth.unwrap_or_default() * 100.0;
    let resource = match (choice.budget, choice.period) {
        (Some(budget), Some(period)) => format!("{budget} in every {period}"),
        _ => "no periodic resource".into(),
    };
    let by = choice.deadline.map(|deadline| format!(", by {deadline}"));
    let late = choice.delay.map(|delay| format!(", late by up to {delay}"));
    let on = choice.cpus.map(|cpus| match cpus {
        1 => ", on one CPU".to_owned(),
        cpus => format!(", on {cpus} CPUs"),
    });
    let more = [by, late, on].into_iter().flatten().collect::<String>();
    format!("{resource}{more} ({share:.3} %)")
}

/// The table for people: columns that no row fills are left out.
pub(super) fn columns(choices: &[InterfaceChoice]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let time = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
    let percent = |share: Option<f64>| match share {
        Some(share) => format!("{:.3} %", share * 100.0),
        None => "-".into(),
    };
    let has = |is_there: fn(&InterfaceChoice) -> bool| choices.iter().any(is_there);
    let mut header = vec!["period", "least budget"];
    let (deadline, delay) = (
        has(|one| one.deadline.is_some()),
        has(|one| one.delay.is_some()),
    );
    let cpus = has(|one| one.cpus.is_some());
    header.extend(deadline.then_some("by"));
    header.extend(delay.then_some("delay"));
    header.extend(cpus.then_some("CPUs"));
    header.extend(["bandwidth", "above utilisation"]);
    let unmet = has(|one| !one.suffices());
    header.extend(unmet.then_some("why not"));
    let row = |one: &InterfaceChoice| {
        let mut row = vec![time(one.period), time(one.budget)];
        row.extend(deadline.then(|| time(one.deadline)));
        row.extend(delay.then(|| time(one.delay)));
        row.extend(cpus.then(|| one.cpus.map_or("-".into(), |cpus| cpus.to_string())));
        row.push(percent(one.bandwidth));
        row.push(percent(one.above_utilisation));
        row.extend(unmet.then(|| {
            let why = one.why.clone().filter(|_| !one.suffices());
            why.unwrap_or_else(|| "-".into())
        }));
        row
    };
    (header, choices.iter().map(row).collect())
}

/// The cells of the CSV.
pub(super) fn csv_cells(one: &InterfaceChoice) -> Vec<String> {
    let ns =
        |time: Option<Duration>| time.map_or_else(String::new, |time| time.as_nanos().to_string());
    let number = |share: Option<f64>| share.map_or_else(String::new, |share| share.to_string());
    vec![
        ns(one.period),
        ns(one.budget),
        ns(one.deadline),
        ns(one.delay),
        one.cpus.map_or_else(String::new, |cpus| cpus.to_string()),
        number(one.bandwidth),
        number(one.above_utilisation),
        one.why.clone().unwrap_or_default(),
    ]
}
