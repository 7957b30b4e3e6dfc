//! What a transition asks for, and what it is told.

use serde::{Deserialize, Serialize};
use tailbound_model::{ChangePolicy, ResourceInterface, TaskStart};
use tailbound_time::{Duration, Instant};

/// How a transition is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// In which order.
    pub policy: ChangePolicy,
    /// When the tasks of growing domains start.
    pub start: TaskStart,
    /// How long a domain may take to answer.
    pub timeout: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionAction {
    /// Ask for an interface that is in force no earlier than an instant.
    SetInterface {
        /// Whose.
        domain: String,
        /// Which.
        interface: ResourceInterface,
        /// Not before.
        not_before: Instant,
    },
    /// Tell the agent to stop and start tasks.
    Send {
        /// Whose.
        domain: String,
        /// The name of the local mode.
        mode: String,
        /// The tasks to stop, before the others start.
        stop: Vec<String>,
        /// The tasks to start.
        start: Vec<String>,
    },
    /// Let the agent run before all others, without budget, until it has answered.
    Boost {
        /// Whose.
        domain: String,
        /// Only if it would have to wait for a budget.
        if_exhausted: bool,
    },
    /// The boost is over.
    Unboost {
        /// Whose.
        domain: String,
    },
    /// Tell the agent, should it hear it, to go back to what held before.
    Withdraw {
        /// Whose.
        domain: String,
    },
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionEvent {
    /// The interface was accepted.
    InterfaceAccepted {
        /// Whose.
        domain: String,
        /// From when on it is in force.
        in_force_at: Instant,
    },
    /// The interface was refused; the old one holds.
    InterfaceRefused {
        /// Whose.
        domain: String,
        /// Why.
        reason: String,
    },
    /// The agent has switched.
    Acknowledged {
        /// Whose.
        domain: String,
        /// When the message had come.
        received_at: Instant,
        /// When the tasks were switched.
        switched_at: Instant,
    },
    /// The agent could not switch.
    Failed {
        /// Whose.
        domain: String,
        /// Why.
        reason: String,
        /// Whether its tasks are as before.
        rolled_back: bool,
    },
    /// The agent is gone.
    Disconnected {
        /// Whose.
        domain: String,
    },
    /// Time has passed.
    Woken,
}
