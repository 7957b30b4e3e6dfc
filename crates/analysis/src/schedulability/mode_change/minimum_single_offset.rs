//! The minimum single offset protocol: new tasks wait until the old work must be done.
//!
//! Real & Crespo, *Mode change protocols for real-time systems: a survey and a new proposal*,
//! Real-Time Systems 26(2), 2004. The offsets here are derived anew, as follows.
//!
//! # Without periodicity
//!
//! At the request all tasks of the old mode stop, unchanged ones too. All tasks of the new mode are
//! released from Y after the request on, where Y is the time that the supply takes for one job of
//! each task of the old mode; on a CPU of its own
//!
//! ```text
//! Y = sum over the old mode of C_i
//! ```
//!
//! Proof. Every response in the old mode is within the deadline and so within the period. So when a
//! job of a task is released, the one before it has been done: at no instant are two of them left.
//! At the request, jobs released right then included, at most one job of each task is left to do,
//! and the supply has done that within Y. Nothing else is released meanwhile, so the instant is idle,
//! and the theorem of the [module](super) holds. The least that will do: a request right after a
//! common release of all tasks takes Y, if the supply is the least. ∎
//!
//! # With periodicity
//!
//! At the request only completed tasks stop. Unchanged ones go on; new and changed ones are released
//! from Y after the request on. Y is the longest time from the request to the first idle instant.
//! Let the busy period that holds the request have begun x before it. With all tasks released at
//! its begin, and then as often as they can (no other pattern has more work in it), it ends at the
//! least w above x with
//!
//! ```text
//! supply(w) >= sum over completed i of (floor(x / T_i) + 1) C_i
//!            + sum over unchanged j of ceil(w / T_j) C_j
//! ```
//!
//! and Y is the largest w(x) - x over the x in the longest busy period of the old mode. Only x = 0
//! and those x matter at which a completed task releases a job: in between, w stays and x grows. Y
//! after the request an idle instant has come, before which only tasks of the old mode were
//! released, and from which on only those of the new mode were: the theorem of the [module](super)
//! holds. Y is the least offset that guarantees this: the patterns above reach it. (An offset that
//! lets old and new jobs meet may be shorter still, and needs another analysis.) ∎
//!
//! It is *not* enough to look at a request right after a common release of all tasks, x = 0, although
//! each completed task has at most one job left at the request in every case. A later request may
//! find an unchanged task's job not begun, and meet the next one before Y is over. With (C, T): O
//! (4, 10) completed, U (7, 15) unchanged, X (4, 30) completed, in order of priority, x = 0 gives 4 +
//! 4 + 7 = 15. A request at 10, right after O's second job, finds 4 of O, 1 of U and 4 of X, meets
//! U's next 7 at 15, and the CPU is idle at 26. Y is 16; after 15, X has a nanosecond of work left,
//! and a new task of high priority may push it beyond its deadline.
//!
//! Where no task is completed, and the reservation stays the same, Y is zero: old and new tasks together
//! are the new mode, and nothing but its tasks is there to delay any job. Where the reservation changes, a
//! busy window may have begun on the old one, so that an idle instant is waited for.

use tailbound_time::Duration;

use super::busy_window::BusyWindows;
use super::outcome::{
    ModeChangeProtocol, NewModeStart, NoTransition, ProtocolGuarantee, SafeTransition,
    TaskInTransition,
};
use super::pair::ModePair;
use crate::AnalysisError;
use crate::sporadic_task::LONGEST_PARAMETER;

/// What is proved of the variant without periodicity.
pub const THEOREM_WITHOUT_PERIODICITY: &str = "if both modes are schedulable by themselves, no \
     deadline is missed: one job of each old task at most is left at the request, and is done \
     within the offset (after Real & Crespo 2004)";
/// What is proved of the variant with periodicity.
pub const THEOREM_WITH_PERIODICITY: &str = "if both modes are schedulable by themselves, no \
     deadline is missed: the CPU is idle once within the offset, wherever in a busy period the \
     request comes (after Real & Crespo 2004)";
/// What the variant without periodicity takes for granted.
pub const ASSUMPTIONS_WITHOUT_PERIODICITY: &[&str] = &[
    "one CPU, or one reservation whose supply bound holds; fixed priorities, preemption at no cost",
    "tasks are independent and do not suspend themselves",
    "no task of the old mode releases anything between the request and the offset",
    "no other request until the new mode has started",
];
/// What the variant with periodicity takes for granted.
pub const ASSUMPTIONS_WITH_PERIODICITY: &[&str] = super::maximum_period_offset::ASSUMPTIONS;

/// What the minimum single offset protocol without periodicity guarantees.
///
/// # Errors
/// [`AnalysisError::TooManySteps`] where a busy window holds too many jobs.
pub fn without_periodicity(pair: &ModePair<'_>) -> Result<ProtocolGuarantee, AnalysisError> {
    let protocol = ModeChangeProtocol::MinimumSingleOffsetWithoutPeriodicity;
    let proof = (THEOREM_WITHOUT_PERIODICITY, ASSUMPTIONS_WITHOUT_PERIODICITY);
    ProtocolGuarantee::under(protocol, proof, pair, |tasks| {
        let one_each: Duration = pair.old_tasks().iter().map(|task| task.execution()).sum();
        let offset = pair.old_supply().time_to_supply(one_each);
        Ok(SafeTransition {
            start: NewModeStart::AllTasksAfter(offset),
            latency_bound: offset,
            old_done_bound: offset,
            tasks,
        })
    })
}

/// What the minimum single offset protocol with periodicity guarantees.
///
/// # Errors
/// [`AnalysisError::TooManySteps`] where a busy period holds too many jobs.
pub fn with_periodicity(pair: &ModePair<'_>) -> Result<ProtocolGuarantee, AnalysisError> {
    let protocol = ModeChangeProtocol::MinimumSingleOffsetWithPeriodicity;
    let proof = (THEOREM_WITH_PERIODICITY, ASSUMPTIONS_WITH_PERIODICITY);
    ProtocolGuarantee::under(protocol, proof, pair, |tasks| {
        if pair.runs_across_a_change() {
            return Err(NoTransition::ReservationChanges.into());
        }
        let (offset, old_done_bound) = if pair.completed().is_empty() && pair.keeps_its_supply() {
            // Unchanged jobs meet the new ones at once, and end within their responses.
            let old = tasks.iter().filter(|task| task.old_response.is_some());
            let longest = old.map(TaskInTransition::response_bound).max();
            (Duration::ZERO, longest.unwrap_or_default())
        } else {
            let wait = longest_wait_for_idle(pair)?;
            (wait, wait)
        };
        Ok(SafeTransition {
            start: NewModeStart::NewTasksAfter(offset),
            latency_bound: offset,
            old_done_bound,
            tasks,
        })
    })
}

/// The longest time from a request at which completed tasks stop, and unchanged ones go on, to the
/// first idle instant; the old mode is schedulable.
pub(super) fn longest_wait_for_idle(pair: &ModePair<'_>) -> Result<Duration, AnalysisError> {
    let (completed, unchanged) = (pair.completed(), pair.unchanged());
    let mut windows = BusyWindows::new(pair.old_supply());
    let mut releases = vec![Duration::ZERO; completed.len()];
    let mut released_ns = 0;
    let mut longest = Duration::ZERO;
    let mut request = Duration::ZERO;
    // Later requests find more work of completed tasks, so the end never comes sooner.
    let mut end = Duration::from_nanos(1);
    while request < end && !(completed.is_empty() && unchanged.is_empty()) {
        for (task, release) in completed.iter().zip(&mut releases) {
            if *release == request {
                released_ns += u128::from(task.execution().as_nanos());
                *release = release.saturating_add(task.period());
            }
        }
        let window_end = windows.end(released_ns, &unchanged, end, LONGEST_PARAMETER)?;
        // Never beyond: it ends within the deadline of the lowest priority.
        end = window_end.unwrap_or(LONGEST_PARAMETER);
        longest = longest.max(end.saturating_sub(request));
        match releases.iter().min() {
            Some(next) => request = *next,
            None => break,
        }
    }
    Ok(longest)
}
