//! The subsystems of the simulation of a host, which only some descriptions use.

use tailbound_model::{Cpu, Domain};
use tailbound_time::Duration;

use super::course::Course;
use super::guests::Guests;
use super::interference::InterferenceSources;
use super::layout::{LaidPlan, PlanNode, ReservationNode};
use super::locks::Locks;
use super::mapping::Mapping;
use super::messages::Messages;
use super::partitions::PartitionWindows;
use super::problem::HostError;
use super::result::HostSimulation;
use super::run::HostQuery;
use super::soft::SoftTasks;
use super::stability::Stability;

/// All subsystems: a new one is a file and a line here.
pub(super) const ALL: [&dyn SimulatedSubsystem; 7] = [
    &Locks,
    &SoftTasks,
    &PartitionWindows,
    &Guests,
    &InterferenceSources,
    &Stability,
    &Messages,
];

/// `SimulatedSubsystem` is a part of the simulation of a host with checks, plans or results of its own. The
/// mapping and the run ask all of them.
pub(super) trait SimulatedSubsystem: Sync {
    /// Refuses the contradictions in a description that concern it.
    ///
    /// # Errors
    /// The first contradiction.
    fn check(&self, _mapping: &Mapping<'_>) -> Result<(), HostError> {
        Ok(())
    }

    /// The plan of a CPU that it has for itself; none for a CPU that it leaves to the host.
    ///
    /// # Errors
    /// What of the description stands against the plan.
    fn plan_of_cpu(
        &self,
        _mapping: &Mapping<'_>,
        _cpu: Cpu,
    ) -> Result<Option<LaidPlan>, HostError> {
        Ok(None)
    }

    /// Whether it lays all virtual CPUs of a domain out together, by [`Self::members`].
    fn lays_out(&self, _mapping: &Mapping<'_>, _domain: &Domain) -> bool {
        false
    }

    /// The members of the host that it lays out over several CPUs, with the CPU of each of their positions.
    ///
    /// # Errors
    /// What of the description stands against them.
    fn members(&self, _mapping: &Mapping<'_>) -> Result<Vec<SpreadMember>, HostError> {
        Ok(Vec::new())
    }

    /// Gives a virtual CPU of a domain its rule; whether it does so instead of the reservation.
    ///
    /// # Errors
    /// What is missing for it.
    fn supply(
        &self,
        _mapping: &Mapping<'_>,
        _domain: &Domain,
        _group: &mut ReservationNode,
    ) -> Result<bool, HostError> {
        Ok(false)
    }

    /// What the results of a plan take for granted because of it.
    fn assumptions(&self, _plan: &LaidPlan) -> Option<String> {
        None
    }

    /// How often something happens because of it within a time, and what.
    fn events(&self, _plan: &LaidPlan, _length: Duration) -> Option<(f64, String)> {
        None
    }

    /// Adds its section to the results of a plan that was simulated.
    fn conclude(&self, _run: &PlanRun<'_>, _results: &mut HostSimulation) {}
}

/// `SpreadMember` is a member of the host with several positions, each on a CPU of its own.
pub(super) struct SpreadMember {
    pub(super) domain: String,
    pub(super) node: PlanNode,
    pub(super) cpus: Vec<Cpu>,
}

/// `PlanRun` is the simulation of one plan at its end.
pub(super) struct PlanRun<'a> {
    pub(super) query: &'a HostQuery<'a>,
    pub(super) laid: &'a LaidPlan,
    pub(super) course: &'a Course,
    /// When too many jobs waited for more to be released.
    pub(super) cut_off: Option<u64>,
}
