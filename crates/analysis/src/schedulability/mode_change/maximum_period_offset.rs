//! The maximum-period offset protocol: new tasks wait for the longest period of the old mode.
//!
//! Bailey, *Mode changes in priority preemptively scheduled systems*, MSc thesis, University of
//! York, 1993, as told by Real & Crespo, *Mode change protocols for real-time systems: a survey and
//! a new proposal*, Real-Time Systems 26(2), 2004.
//!
//! At the request completed tasks stop releasing jobs. Unchanged ones go on. New and changed ones
//! are released from Y = max T_i after the request on, over the tasks of the old mode. Nothing has to
//! be calculated, and nothing but the periods be known.
//!
//! *Both modes schedulable by themselves: no deadline is missed.* Proof: from the request on the old
//! mode releases at most what it would without it, so the busy period that holds the request ends
//! within the longest busy period L of the old mode (see [`idle_time`](super::idle_time)). L is the
//! response time of the lowest priority, within its deadline, and so within its period and Y. So
//! there is an idle instant e between the request and Y after it; before e only old tasks were
//! released, from e on only unchanged and new ones, and the theorem of the [module](super) holds. ∎
//!
//! The [minimum single offset](super::minimum_single_offset) with periodicity does the same with a
//! shorter Y, never with a longer one.

use super::minimum_single_offset::longest_wait_for_idle;
use super::outcome::{
    ModeChangeProtocol, NewModeStart, NoTransition, ProtocolGuarantee, SafeTransition,
};
use super::pair::ModePair;
use crate::AnalysisError;
use crate::sporadic_task::SporadicTask;

/// What is proved.
pub const THEOREM: &str = "if both modes are schedulable by themselves, no deadline is missed: the \
     CPU is idle once within the longest period of the old mode (after Bailey 1993)";
/// What the protocol takes for granted.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU, or one reservation whose supply bound holds; fixed priorities, preemption at no cost",
    "tasks are independent and do not suspend themselves",
    "completed tasks release nothing after the request",
    "no other request until the new tasks have started",
];

/// What the maximum-period offset protocol guarantees.
///
/// # Errors
/// [`AnalysisError::TooManySteps`] where a busy period holds too many jobs.
pub fn maximum_period_offset(pair: &ModePair<'_>) -> Result<ProtocolGuarantee, AnalysisError> {
    let protocol = ModeChangeProtocol::MaximumPeriodOffset;
    ProtocolGuarantee::under(protocol, (THEOREM, ASSUMPTIONS), pair, |tasks| {
        if pair.runs_across_a_change() {
            return Err(NoTransition::ReservationChanges.into());
        }
        let periods = pair.old_tasks();
        let offset = periods.iter().map(SporadicTask::period).max();
        let offset = offset.unwrap_or_default();
        Ok(SafeTransition {
            start: NewModeStart::NewTasksAfter(offset),
            latency_bound: offset,
            old_done_bound: longest_wait_for_idle(pair)?,
            tasks,
        })
    })
}
