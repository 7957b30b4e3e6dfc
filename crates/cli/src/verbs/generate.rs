//! `tailbound generate`: random sets of tasks.

use std::path::Path;

use serde::Serialize;
use tailbound_model::{Description, to_toml};
use tailbound_simulator::generate::{
    COLUMNS, Frame, GeneratedTask, Recipe, description, task_name, task_set,
};

use crate::arguments::{Format, GenerateArguments};
use crate::failure::Failure;
use crate::output::{Output, write_file};

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
    let (mut sets, mut rows) = (Vec::new(), Vec::new());
    for number in 0..arguments.sets {
        let set = task_set(&recipe, arguments.seed, number).map_err(Failure::from_error)?;
        let mut tasks = Vec::new();
        for (index, task) in set.iter().enumerate() {
            let name = task_name(index, set.len());
            rows.push(task.fields(number + 1, &name).to_vec());
            tasks.push(row(name, task));
        }
        sets.push(Set {
            set: number + 1,
            tasks,
        });
    }
    let data = Sets {
        seed: arguments.seed,
        utilisation: arguments.utilisation,
        sets,
    };
    output.rows(&COLUMNS, &rows, &data)
}

fn recipe(arguments: &GenerateArguments) -> Result<Recipe, Failure> {
    let utilisations = arguments.utilisations.clone().of_tasks(arguments.tasks);
    Ok(Recipe {
        utilisation: arguments.utilisation,
        utilisations: utilisations.map_err(Failure::from_error)?,
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
    let (seed, reservation) = (arguments.seed, arguments.budget.zip(arguments.period));
    Frame::numbered(recipe, seed, number, arguments.scheduling, reservation)
        .and_then(|frame| description(recipe, seed, number, &frame))
        .map_err(Failure::from_error)
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
    Row {
        task,
        utilisation: generated.utilisation_rounded(),
        execution_ns: generated.execution.as_nanos(),
        period_ns: generated.period.as_nanos(),
        deadline_ns: generated.deadline.as_nanos(),
        offset_ns: generated.offset.as_nanos(),
    }
}
