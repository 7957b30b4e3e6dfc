//! `tailbound generate`: random sets of tasks.

use std::path::Path;

use tailbound_model::{Description, to_toml};
use tailbound_simulator::generate::{COLUMNS, Frame, Recipe, TaskSets, description};

use crate::arguments::{Format, GenerateArguments};
use crate::failure::Failure;
use crate::output::{Output, write_file};

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
    let sets = TaskSets::draw(&recipe, arguments.seed, arguments.sets);
    let sets = sets.map_err(Failure::from_error)?;
    output.rows(&COLUMNS, &sets.rows(), &sets)
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
