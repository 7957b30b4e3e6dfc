//! One CPU with a tree of schedulers on it: tasks, reservations with a scheduler inside, and so on to any
//! depth.

pub(crate) mod account;
mod engine;
mod level;
mod plan;
mod sink;
mod source;

use tailbound_time::Duration;

pub use plan::{Level, Member, Plan, Rank, Reservation, Rule, Task};
pub use sink::{Completion, Sink};
pub use source::{Job, PeriodicJobs, PeriodicTask, Source};

use crate::server::ServerError;

/// Runs the jobs of a source on a plan until all are done, or up to the horizon, and tells a sink what
/// happens.
///
/// # Errors
/// If the budget of a reservation is zero or above its period.
pub fn simulate_plan(
    plan: &Plan,
    source: &mut impl Source,
    sink: &mut impl Sink,
    horizon: Option<Duration>,
) -> Result<(), ServerError> {
    let mut engine = engine::Engine::new(plan).map_err(|problem| {
        ServerError::of(
            Duration::from_nanos(problem.budget_ns),
            Duration::from_nanos(problem.period_ns),
        )
    })?;
    engine.run(source, sink, horizon.map_or(u64::MAX, Duration::as_nanos));
    Ok(())
}
