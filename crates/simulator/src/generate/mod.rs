//! Random sets of tasks for experiments on many systems, drawn as the literature draws them.
//!
//! A [`Recipe`] says how utilisations, periods, deadlines and offsets are drawn; [`task_set`] draws
//! the set of a seed and a number. Each of the four has a random stream of its own, so that another
//! law of the periods, say, leaves the utilisations as they were, and sets of one seed are
//! independent of each other.
//!
//! The utilisations of a set are drawn to sum up to the wanted one as exactly as floats can; the
//! execution times are whole nanoseconds, *rounded down*, so that the utilisation of the set is
//! below the wanted one by at most the sum of 1 ns / period. An execution time that would be zero
//! is 1 ns.

mod deadlines;
mod description;
mod error;
mod fixed_sum;
mod notation;
mod periods;
mod table;
mod tilted_sum;
mod utilisations;

use tailbound_time::Duration;

pub use deadlines::{Deadlines, Offsets};
pub use description::{Frame, description, task_name};
pub use error::GenerateError;
pub use notation::{LawNotationError, UtilisationLaw};
pub use periods::Periods;
pub use table::{COLUMNS, NamedTask, TaskSet, TaskSets};
pub use utilisations::{Bimodal, UniformShares, Utilisations};

use crate::workload::streams::{Purpose, RandomStream};

/// The most tasks of one set.
pub const MOST_TASKS: u32 = 1_000;

/// How a set of tasks is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The utilisation of the set: the sum of execution time / period.
    pub utilisation: f64,
    /// How it is divided among the tasks, and among how many.
    pub utilisations: Utilisations,
    /// The law of the periods.
    pub periods: Periods,
    /// The law of the relative deadlines.
    pub deadlines: Deadlines,
    /// The law of the first releases.
    pub offsets: Offsets,
}

/// One task of a generated set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratedTask {
    /// The utilisation that was drawn, before the execution time was rounded.
    pub utilisation: f64,
    /// The execution time: utilisation x period, rounded down to a nanosecond, at least 1 ns.
    pub execution: Duration,
    /// The period, or the minimal distance between two releases.
    pub period: Duration,
    /// How long after its release a job is to be done.
    pub deadline: Duration,
    /// The first release.
    pub offset: Duration,
}

/// The set of tasks number `number` of `seed`: the same arguments yield the same set.
///
/// # Errors
/// [`GenerateError`] says what of the recipe cannot be.
pub fn task_set(
    recipe: &Recipe,
    seed: u64,
    number: u32,
) -> Result<Vec<GeneratedTask>, GenerateError> {
    let stream = |purpose| RandomStream::of(seed, "task set", number, purpose);
    recipe.periods.check()?;
    recipe.deadlines.check()?;
    let drawn = recipe
        .utilisations
        .draw(recipe.utilisation, &mut stream(Purpose::Utilisations))?;
    let periods = recipe
        .periods
        .draw(drawn.len(), &mut stream(Purpose::Periods))?;
    let (mut deadlines, mut offsets) = (stream(Purpose::Deadlines), stream(Purpose::Offsets));
    let tasks = drawn.into_iter().zip(periods).map(|(utilisation, period)| {
        let execution = execution_rounded_down(utilisation, period);
        GeneratedTask {
            utilisation,
            execution,
            period,
            deadline: recipe.deadlines.draw(execution, period, &mut deadlines),
            offset: recipe.offsets.draw(period, &mut offsets),
        }
    });
    Ok(tasks.collect())
}

fn execution_rounded_down(utilisation: f64, period: Duration) -> Duration {
    let nanoseconds = (utilisation * period.as_nanos() as f64).floor();
    Duration::from_nanos((nanoseconds as u64).clamp(1, period.as_nanos()))
}

#[cfg(test)]
mod tests;
