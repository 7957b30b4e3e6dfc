//! The idle time protocol: the new mode starts when the CPU first has nothing to do.
//!
//! Tindell & Alonso, *A very simple protocol for mode changes in priority preemptive systems*,
//! technical report, Universitat de les Illes Balears, 1996.
//!
//! After the request the old mode goes on as before until the first idle instant e. There its tasks
//! stop, and all tasks of the new mode may be released, together if they like. Unchanged tasks keep
//! their rhythm.
//!
//! *Both modes schedulable by themselves: no deadline is missed* is the theorem of the
//! [module](super) as it stands.
//!
//! *e comes within L of the request*, with L the longest busy period of the old mode: the least w
//! above zero in which all its tasks, released together and then as often as they can, are done,
//!
//! ```text
//! supply(w) >= sum over the old mode of ceil(w / T_i) C_i
//! ```
//!
//! since the busy period that holds the request began at it or before, and is no longer than L. A
//! request right after a common release of all tasks waits for L, if the supply is the least. In a
//! schedulable mode with deadlines up to the periods, L is the response time of the lowest
//! priority, and so within its deadline.
//!
//! An idle instant may be of no length: the last old job ends just when the next one is released.
//! Who looks only for time in which nothing runs, such as a thread of the lowest priority, may miss
//! that one and see a later one; on a CPU in full use it may see none.

use tailbound_time::Duration;

use super::busy_window::BusyWindows;
use super::outcome::{ModeChangeProtocol, NewModeStart, ProtocolGuarantee, SafeTransition};
use super::pair::ModePair;
use crate::AnalysisError;
use crate::sporadic_task::LONGEST_PARAMETER;

/// What is proved.
pub const THEOREM: &str = "if both modes are schedulable by themselves, no deadline is missed, and \
     the first idle instant comes within the longest busy period of the old mode (after Tindell & \
     Alonso 1996)";
/// What the protocol takes for granted.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU, or one reservation whose supply bound holds; fixed priorities, preemption at no cost",
    "tasks are independent and do not suspend themselves",
    "the first idle instant is noticed when it comes, also if it is of no length",
    "no other request until the new mode has started",
];

/// What the idle time protocol guarantees.
///
/// # Errors
/// [`AnalysisError::TooManySteps`] where a busy period holds too many jobs.
pub fn idle_time(pair: &ModePair<'_>) -> Result<ProtocolGuarantee, AnalysisError> {
    ProtocolGuarantee::under(
        ModeChangeProtocol::IdleTime,
        (THEOREM, ASSUMPTIONS),
        pair,
        |tasks| {
            let busy = longest_busy_period(pair)?;
            Ok(SafeTransition {
                start: NewModeStart::AtFirstIdleInstant,
                latency_bound: busy,
                old_done_bound: busy,
                tasks,
            })
        },
    )
}

/// The longest busy period of the old mode, which is schedulable.
fn longest_busy_period(pair: &ModePair<'_>) -> Result<Duration, AnalysisError> {
    let old = pair.old_tasks();
    if old.is_empty() {
        return Ok(Duration::ZERO);
    }
    let mut windows = BusyWindows::new(pair.old_supply());
    let earliest = Duration::from_nanos(1);
    let end = windows.end(0, &old, earliest, LONGEST_PARAMETER)?;
    // Never beyond: it ends within the deadline of the lowest priority.
    Ok(end.unwrap_or(LONGEST_PARAMETER))
}
