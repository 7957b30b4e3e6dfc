//! What a protocol guarantees, or why it cannot be used.

use serde::Serialize;
use tailbound_time::Duration;

use super::pair::ModePair;
use crate::AnalysisError;

/// A protocol of mode changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeChangeProtocol {
    /// The new mode starts at the first idle instant (Tindell & Alonso 1996).
    IdleTime,
    /// New tasks start a longest period of the old mode after the request (Bailey 1993).
    MaximumPeriodOffset,
    /// All tasks of the new mode start when the old work must be done (Real & Crespo 2004).
    MinimumSingleOffsetWithoutPeriodicity,
    /// New tasks start when the CPU must have been idle; unchanged tasks go on (Real & Crespo 2004).
    MinimumSingleOffsetWithPeriodicity,
}

/// When the tasks of the new mode are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewModeStart {
    /// All from the first idle instant on.
    AtFirstIdleInstant,
    /// New and changed ones from this long after the request on; unchanged ones go on.
    NewTasksAfter(Duration),
    /// All from this long after the request on.
    AllTasksAfter(Duration),
}

/// What happens to a task in a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// Only the old mode has it.
    Completed,
    /// Both modes have it in the same way.
    Unchanged,
    /// Both modes have it, but not in the same way.
    Changed,
    /// Only the new mode has it.
    New,
}

/// How long jobs of a task take from their release to their end, in the transition and outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskInTransition {
    /// The task.
    pub name: String,
    /// What happens to it.
    pub kind: TaskKind,
    /// The longest response in the old mode: for all jobs of a completed task, of the old version of
    /// a changed one, and for those of an unchanged one that are released before the idle instant.
    pub old_response: Option<Duration>,
    /// The longest response in the new mode, for all other jobs.
    pub new_response: Option<Duration>,
}

impl TaskInTransition {
    /// No job takes longer, before, in or after the transition.
    #[must_use]
    pub fn response_bound(&self) -> Duration {
        self.old_response
            .max(self.new_response)
            .unwrap_or(Duration::ZERO)
    }
}

/// A transition in which no deadline is missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SafeTransition {
    /// When the new mode starts.
    pub start: NewModeStart,
    /// From the request until every task of the new mode may be released, at most.
    pub latency_bound: Duration,
    /// From the request until every job released up to the request has been done, at most.
    pub old_done_bound: Duration,
    /// The old tasks in their order, then those that only the new mode has.
    pub tasks: Vec<TaskInTransition>,
}

/// Why a protocol cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoTransition {
    /// The old mode is not schedulable by itself.
    #[error(
        "the old mode is not schedulable by itself: {} can miss its deadline; a protocol keeps \
         deadlines only where both modes do", tasks.join(", ")
    )]
    OldModeMisses {
        /// The tasks without a response time within their deadline.
        tasks: Vec<String>,
    },
    /// The new mode is not schedulable by itself.
    #[error(
        "the new mode is not schedulable by itself: {} can miss its deadline; a protocol keeps \
         deadlines only where both modes do", tasks.join(", ")
    )]
    NewModeMisses {
        /// The tasks without a response time within their deadline.
        tasks: Vec<String>,
    },
    /// Unchanged tasks go on while the reservation changes.
    #[error(
        "unchanged tasks go on while the reservation changes, and no supply bound holds across the \
         change; delay them too, or wait for an idle instant"
    )]
    ReservationChanges,
}

/// Why there is no transition: the protocol cannot be used, or the analysis has no answer.
pub(super) enum NoOutcome {
    NoTransition(NoTransition),
    Analysis(AnalysisError),
}

impl From<NoTransition> for NoOutcome {
    fn from(reason: NoTransition) -> Self {
        Self::NoTransition(reason)
    }
}

impl From<AnalysisError> for NoOutcome {
    fn from(error: AnalysisError) -> Self {
        Self::Analysis(error)
    }
}

/// What a protocol guarantees for a change of modes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProtocolGuarantee {
    /// The protocol.
    pub protocol: ModeChangeProtocol,
    /// What is proved, in short; the module has the proof.
    pub theorem: &'static str,
    /// What is taken for granted.
    pub assumptions: &'static [&'static str],
    /// What it guarantees, or which of its conditions does not hold.
    pub transition: Result<SafeTransition, NoTransition>,
}

impl ProtocolGuarantee {
    /// The guarantee of a protocol for a pair of modes: the transition of their tasks, where both modes are
    /// schedulable by themselves.
    pub(super) fn under(
        protocol: ModeChangeProtocol,
        (theorem, assumptions): (&'static str, &'static [&'static str]),
        pair: &ModePair<'_>,
        transition: impl FnOnce(Vec<TaskInTransition>) -> Result<SafeTransition, NoOutcome>,
    ) -> Result<Self, AnalysisError> {
        let transition = match pair.alone()?.map_err(NoOutcome::from).and_then(transition) {
            Ok(transition) => Ok(transition),
            Err(NoOutcome::NoTransition(reason)) => Err(reason),
            Err(NoOutcome::Analysis(error)) => return Err(error),
        };
        Ok(Self {
            protocol,
            theorem,
            assumptions,
            transition,
        })
    }

    /// Whether no deadline is missed before, in and after the transition.
    #[must_use]
    pub const fn schedulable(&self) -> bool {
        self.transition.is_ok()
    }
}
