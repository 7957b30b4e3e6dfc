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

pub use plan::{
    Guest, HierarchyPlan, Level, LevelMember, LockSection, PlannedReservation, PlannedTask, Rank,
    Speed, VirtualCpu,
};
pub use problem::HierarchyError;
pub use sink::{Completion, Piece, Sink};
pub use source::{Job, JobSource, PeriodicJobs, PeriodicSource, TakenTime};
pub use tailbound_model::LockProtocol;
pub use tailbound_reservation::{ReservationError, Rule, ServerKind, Window};

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulationEnd {
    /// Jobs that were released and not done.
    pub unfinished: u64,
    /// How much time had passed.
    pub end: Duration,
}

/// Runs the jobs of a source on a plan until all are done, or up to the horizon, and tells a sink what
/// happens.
///
/// # Errors
/// [`HierarchyError`] says what of the plan or of the source is at fault.
pub fn simulate_plan(
    plan: &HierarchyPlan,
    source: &mut impl JobSource,
    sink: &mut impl Sink,
    horizon: Option<Duration>,
) -> Result<SimulationEnd, HierarchyError> {
    check_pins(plan)?;
    let horizon_ns = horizon.map_or(u64::MAX, Duration::as_nanos);
    let interferes = source.interferes();
    if let Some(mut flat) = flat::Flat::of(plan).filter(|_| !interferes) {
        return flat.run(source, sink, horizon_ns);
    }
    if let Some(mut one_queue) = one_queue::OneQueue::of(plan).filter(|_| !interferes) {
        return one_queue.run(source, sink, horizon_ns);
    }
    let mut engine = engine::Engine::new(plan, interferes)?;
    if horizon.is_none() && (interferes || !plan.overheads.is_free()) {
        return Err(HierarchyError::HorizonMissing);
    }
    engine.run(source, sink, horizon_ns)
}

fn check_pins(plan: &HierarchyPlan) -> Result<(), HierarchyError> {
    let (pinned, members, cpus) = (&plan.pinned, plan.root.positions(), plan.cpus.len());
    if !pinned.is_empty() && pinned.len() != members {
        let pinned = pinned.len();
        return Err(HierarchyError::PinnedCount { pinned, members });
    }
    match pinned.iter().position(|cpu| *cpu >= cpus) {
        Some(member) => Err(HierarchyError::PinnedCpu {
            member,
            cpu: pinned[member],
            cpus,
        }),
        None => Ok(()),
    }
}
