//! `tailbound generate`: random sets of tasks.

use std::path::Path;

use serde::Serialize;
use tailbound_model::{Description, to_toml};
use tailbound_simulator::generate::{
    Frame, GeneratedTask, Recipe, UtilisationLaw, Utilisations, description, task_name, task_set,
};

use crate::arguments::{Format, GenerateArguments};
use crate::failure::Failure;
use crate::output::{Output, write_file};

const HEADER: [&str; 7] = [
    "set",
    "task",
    "utilisation",
    "execution_ns",
    "period_ns",
    "deadline_ns",
    "offset_ns",
];

#[derive(Serialize)]
struct Sets {
    seed: u64,
    utilisation: f64,
    sets: Vec<Set>,
}

#[derive(Serialize)]
struct Set {
    set: u32,
    tasks: Vec<Row>,
}

/// A task as a row.
#[derive(Serialize)]
struct Row {
    task: String,
    /// Execution time / period, after rounding.
    utilisation: f64,
    execution_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    offset_ns: u64,
}

/// Prints a description, or rows of tasks; writes a description for each set into a folder.
pub fn carry_out(arguments: &GenerateArguments, output: &Output) -> Result<(), Failure> {
    let recipe = recipe(arguments)?;
    if let Some(folder) = &arguments.out {
        return write_each(arguments, &recipe, folder, output);
    }
    if output.format() == Format::Table {
        if arguments.sets > 1 {
            return Err(Failure::with_help(
                format!("{} descriptions do not fit one file", arguments.sets),
                "add --out DIR for a file each, or --format csv or json for rows of tasks",
            ));
        }
        return output.print(&toml(&described(arguments, &recipe, 0)?)?);
    }
    let mut sets = Vec::new();
    for number in 0..arguments.sets {
        let set = task_set(&recipe, arguments.seed, number).map_err(Failure::from_error)?;
        let named = |(index, task)| row(task_name(index, set.len()), task);
        sets.push(Set {
            set: number + 1,
            tasks: set.iter().enumerate().map(named).collect(),
        });
    }
    let rows: Vec<Vec<String>> = sets
        .iter()
        .flat_map(|set| set.tasks.iter().map(|task| cells(set.set, task)))
        .collect();
    let data = Sets {
        seed: arguments.seed,
        utilisation: arguments.utilisation,
        sets,
    };
    output.rows(&HEADER, &rows, &data)
}

fn recipe(arguments: &GenerateArguments) -> Result<Recipe, Failure> {
    let tasks = || {
        arguments.tasks.ok_or_else(|| {
            Failure::with_help(
                "how many tasks a set has is not told",
                "add --tasks, such as --tasks 10; only bimodal laws find it themselves",
            )
        })
    };
    let utilisations = match arguments.utilisations {
        UtilisationLaw::UUniFast { most } => Utilisations::UUniFastDiscard {
            tasks: tasks()?,
            most,
        },
        UtilisationLaw::RandFixedSum { least, most } => Utilisations::RandFixedSum {
            tasks: tasks()?,
            least,
            most,
        },
        UtilisationLaw::Bimodal(_) if arguments.tasks.is_some() => {
            return Err(Failure::with_help(
                "under a bimodal law the number of tasks is an outcome",
                "leave --tasks out, or take uunifast or rand-fixed-sum",
            ));
        }
        UtilisationLaw::Bimodal(law) => Utilisations::Bimodal(law),
    };
    Ok(Recipe {
        utilisation: arguments.utilisation,
        utilisations,
        periods: arguments.periods.clone(),
        deadlines: arguments.deadlines,
        offsets: arguments.offsets,
    })
}

fn described(
    arguments: &GenerateArguments,
    recipe: &Recipe,
    number: u32,
) -> Result<Description, Failure> {
    let reservation = match (arguments.budget, arguments.period) {
        (Some(budget), Some(period)) if budget.is_zero() || budget > period => {
            return Err(Failure::with_help(
                format!("a budget of {budget} does not fit in a period of {period}"),
                "a budget lies above zero and at most at its period",
            ));
        }
        (budget, period) => budget.zip(period),
    };
    let frame = Frame {
        name: format!("set-{}", number + 1),
        about: format!(
            "Generated: utilisation {}, set {} of seed {}.",
            recipe.utilisation,
            number + 1,
            arguments.seed
        ),
        scheduling: arguments.scheduling,
        reservation,
    };
    description(recipe, arguments.seed, number, &frame).map_err(Failure::from_error)
}

fn toml(description: &Description) -> Result<String, Failure> {
    to_toml(description).map_err(Failure::from_error)
}

/// A file for each set, `set-1.toml` and so on.
fn write_each(
    arguments: &GenerateArguments,
    recipe: &Recipe,
    folder: &Path,
    output: &Output,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::error(format!("cannot make {}: {error}", folder.display())))?;
    for number in 0..arguments.sets {
        let made = described(arguments, recipe, number)?;
        write_file(&folder.join(format!("{}.toml", made.name)), &toml(&made)?)?;
    }
    let (sets, folder) = (arguments.sets, folder.display());
    output.note(format!("{sets} descriptions are in {folder}"));
    Ok(())
}

fn row(task: String, generated: &GeneratedTask) -> Row {
    let (execution_ns, period_ns) = (generated.execution.as_nanos(), generated.period.as_nanos());
    Row {
        task,
        utilisation: execution_ns as f64 / period_ns as f64,
        execution_ns,
        period_ns,
        deadline_ns: generated.deadline.as_nanos(),
        offset_ns: generated.offset.as_nanos(),
    }
}

fn cells(set: u32, row: &Row) -> Vec<String> {
    vec![
        set.to_string(),
        row.task.clone(),
        row.utilisation.to_string(),
        row.execution_ns.to_string(),
        row.period_ns.to_string(),
        row.deadline_ns.to_string(),
        row.offset_ns.to_string(),
    ]
}
