//! What comes of a transition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use super::capacity::CapacityOverload;

/// Why a transition ends without all that it was to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum Cause {
    /// An interface was refused.
    #[error("domain \"{domain}\": its reservation was refused: {reason}")]
    Refused {
        /// Whose.
        domain: String,
        /// Why.
        reason: String,
    },
    /// An agent could not switch.
    #[error("domain \"{domain}\": its agent could not switch: {reason}")]
    Failed {
        /// Whose.
        domain: String,
        /// Why.
        reason: String,
    },
    /// An agent has not answered.
    #[error("domain \"{domain}\": its agent has not answered within {waited}")]
    NoAnswer {
        /// Whose.
        domain: String,
        /// How long was waited.
        #[serde(rename = "waited_ns", with = "nanoseconds")]
        waited: Duration,
    },
    /// An agent is not there.
    #[error("domain \"{domain}\": its agent is not connected")]
    NoAgent {
        /// Whose.
        domain: String,
    },
    /// There would be too much on a CPU.
    #[error("{reason}")]
    Overload {
        /// Where, and how much.
        reason: String,
    },
    /// Somebody wanted something else meanwhile.
    #[error("another mode was asked for")]
    Preempted,
}

impl From<CapacityOverload> for Cause {
    fn from(overload: CapacityOverload) -> Self {
        let reason = overload.to_string();
        Self::Overload { reason }
    }
}

/// What holds for a domain in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The mode whose interface holds, or will from its next replenishment on.
    pub interface: HeldMode,
    /// The mode whose tasks run; `None` if that is not known.
    pub tasks: Option<HeldMode>,
}

/// One of the modes of a [`DomainChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldMode {
    /// The old one.
    Old,
    /// The new one.
    New,
    /// The fallback.
    Fallback,
}

/// How a transition has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All domains are in their new modes.
    Completed,
    /// Some are not: in their fallback modes, or as they were; why, by domain. The others are in their
    /// new modes.
    Partly(BTreeMap<String, Cause>),
    /// It was given up; some domains are in their old modes, some in their new ones.
    GivenUp(Cause),
}

/// What came of a transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionOutcome {
    /// How it has ended.
    pub ending: Ending,
    /// What holds, by domain.
    pub domains: BTreeMap<String, Settled>,
}
