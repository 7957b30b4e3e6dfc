//! Random sets of tasks.

use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use tailbound_model::{Scheduling, to_toml};
use tailbound_simulator::generate::{
    COLUMNS, Frame, Recipe, UtilisationLaw, description, task_name, task_set,
};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::invalid;

/// Name; execution time, period, deadline and offset in nanoseconds; the fields of its row.
type GeneratedRow = (String, (u64, u64, u64, u64), [String; 7]);

/// Utilisation, number of tasks, and the laws of utilisations, periods, deadlines and offsets as the
/// command line has them.
type RecipeTexts = (f64, Option<u32>, String, String, String, String);

/// The names of the fields of a row.
#[pyfunction]
pub fn generated_columns() -> [&'static str; 7] {
    COLUMNS
}

/// The tasks of each set and its description (TOML). The reservation is budget and period in
/// nanoseconds.
///
/// # Errors
/// What cannot be read of a law, and what of the recipe cannot be.
#[pyfunction]
pub fn generate(
    python: Python<'_>,
    recipe: RecipeTexts,
    scheduling: &str,
    reservation_ns: Option<(u64, u64)>,
    seed: u64,
    sets: u32,
) -> PyResult<Vec<(Vec<GeneratedRow>, String)>> {
    let recipe = read(python, recipe)?;
    let scheduling = Scheduling::deserialize(StrDeserializer::<Error>::new(scheduling))
        .map_err(|error| invalid(python, format!("scheduling: {error}")))?;
    let ns = Duration::from_nanos;
    let reservation = reservation_ns.map(|(budget, period)| (ns(budget), ns(period)));
    let one = move |number: u32| {
        let set = task_set(&recipe, seed, number).map_err(|error| error.to_string())?;
        let tasks = set.iter().enumerate().map(|(index, task)| {
            let name = task_name(index, set.len());
            let fields = task.fields(number + 1, &name);
            let times = [task.execution, task.period, task.deadline, task.offset];
            (name, times.map(Duration::as_nanos).into(), fields)
        });
        let tasks: Vec<GeneratedRow> = tasks.collect();
        let described = Frame::numbered(&recipe, seed, number, scheduling, reservation)
            .and_then(|frame| description(&recipe, seed, number, &frame))
            .map_err(|error| error.to_string())?;
        let text = to_toml(&described).map_err(|error| error.to_string())?;
        Ok((tasks, text))
    };
    let made: Result<_, String> = interruptible(python, move || (0..sets).map(one).collect())?;
    made.map_err(|error| invalid(python, error))
}

fn read(python: Python<'_>, texts: RecipeTexts) -> PyResult<Recipe> {
    let (utilisation, tasks, utilisations, periods, deadlines, offsets) = texts;
    let refused = |error: &dyn ToString| invalid(python, error.to_string());
    let law: UtilisationLaw = utilisations.parse().map_err(|error| refused(&error))?;
    Ok(Recipe {
        utilisation,
        utilisations: law.of_tasks(tasks).map_err(|error| refused(&error))?,
        periods: periods.parse().map_err(|error| refused(&error))?,
        deadlines: deadlines.parse().map_err(|error| refused(&error))?,
        offsets: offsets.parse().map_err(|error| refused(&error))?,
    })
}
