//! CPUs with a tree of schedulers on them: tasks, reservations with a scheduler inside, and so on to any
//! depth.

mod backlog;
mod cpu_queue;
mod dispatch;
mod engine;
mod flat;
mod guest;
mod level;
mod locks;
mod members;
mod one_queue;
mod plan;
mod problem;
mod processor;
mod sink;
mod source;

use tailbound_time::Duration;

pub use plan::{Guest, Level, Member, Plan, Rank, Reservation, Section, Speed, Task, VirtualCpu};
pub use problem::PlanError;
pub use sink::{Completion, Piece, Sink};
pub use source::{Job, PeriodicJobs, PeriodicTask, Source};
pub use tailbound_model::LockProtocol;
pub use tailbound_reservation::{ReservationError, Rule, ServerKind, Window};

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Jobs that were released and not done.
    pub unfinished: u64,
    /// How much time had passed.
    pub end: Duration,
}

/// Runs the jobs of a source on a plan until all are done, or up to the horizon, and tells a sink what
/// happens.
///
/// # Errors
/// [`PlanError`] says what of the plan or of the source is at fault.
pub fn simulate_plan(
    plan: &Plan,
    source: &mut impl Source,
    sink: &mut impl Sink,
    horizon: Option<Duration>,
) -> Result<Outcome, PlanError> {
    check_pins(plan)?;
    let horizon_ns = horizon.map_or(u64::MAX, Duration::as_nanos);
    if let Some(mut flat) = flat::Flat::of(plan) {
        return flat.run(source, sink, horizon_ns);
    }
    if let Some(mut one_queue) = one_queue::OneQueue::of(plan) {
        return one_queue.run(source, sink, horizon_ns);
    }
    let mut engine = engine::Engine::new(plan)?;
    if horizon.is_none() && !plan.overheads.is_free() {
        return Err(PlanError::HorizonMissing);
    }
    engine.run(source, sink, horizon_ns)
}

fn check_pins(plan: &Plan) -> Result<(), PlanError> {
    let (pinned, members, cpus) = (&plan.pinned, plan.root.positions(), plan.cpus.len());
    if !pinned.is_empty() && pinned.len() != members {
        let pinned = pinned.len();
        return Err(PlanError::PinnedCount { pinned, members });
    }
    match pinned.iter().position(|cpu| *cpu >= cpus) {
        Some(member) => Err(PlanError::PinnedCpu {
            member,
            cpu: pinned[member],
            cpus,
        }),
        None => Ok(()),
    }
}
