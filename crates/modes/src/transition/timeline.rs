//! What happened when.

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, Instant, nanoseconds};

/// Something that happened to a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum StepKind {
    /// Its interface was asked for.
    InterfaceAsked,
    /// Its interface was accepted; it is in force from then on.
    InterfaceAccepted {
        /// From when on.
        #[serde(rename = "in_force_at_ns")]
        in_force_at: Instant,
    },
    /// Its interface was refused.
    InterfaceRefused {
        /// Why.
        reason: String,
    },
    /// Its agent was told to switch.
    Sent,
    /// Its agent was boosted.
    Boosted,
    /// The boost was taken back.
    Unboosted,
    /// Its agent has switched. The times are the agent's, on the clock of its host.
    Acknowledged {
        /// When the message had come.
        #[serde(rename = "received_at_ns")]
        received_at: Instant,
        /// When the tasks were switched.
        #[serde(rename = "switched_at_ns")]
        switched_at: Instant,
    },
    /// Its agent could not switch.
    Failed {
        /// Why.
        reason: String,
        /// Whether the tasks are as before.
        rolled_back: bool,
    },
    /// Its agent has not answered in time.
    TimedOut,
    /// It is done, in one way or another.
    Settled,
    /// After the change, the host has seen that a task runs of which the agent says that it is stopped.
    Contradicted {
        /// Which.
        task: String,
        /// How much CPU time it has used.
        #[serde(rename = "used_ns", with = "nanoseconds")]
        used: Duration,
        /// Within which time.
        #[serde(rename = "within_ns", with = "nanoseconds")]
        within: Duration,
    },
}

/// A step of a transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When, on the manager's clock.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// Whose.
    pub domain: String,
    /// What.
    #[serde(flatten)]
    pub kind: StepKind,
}

/// All steps of a transition, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// When it began.
    #[serde(rename = "began_at_ns")]
    pub began_at: Option<Instant>,
    /// When all domains were settled.
    #[serde(rename = "ended_at_ns")]
    pub ended_at: Option<Instant>,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Timeline {
    /// From the begin to the end; `None` before the end.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.ended_at?.saturating_since(self.began_at?))
    }

    /// When the last interface is in force, if any was accepted.
    pub fn in_force_at(&self) -> Option<Instant> {
        let steps = self.steps.iter();
        steps
            .filter_map(|step| match step.kind {
                StepKind::InterfaceAccepted { in_force_at } => Some(in_force_at),
                _ => None,
            })
            .max()
    }

    /// Takes note of something; times go on.
    pub fn note(&mut self, at: Instant, domain: &str, kind: StepKind) {
        self.steps.push(Step {
            at,
            domain: domain.to_owned(),
            kind,
        });
    }
}
