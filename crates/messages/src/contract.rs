//! Contracts of publishers: how much one may send, and what happens to the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The traffic that a publisher of a topic may cause. Receivers allocate for it before the start, and enforce it.
///
/// Source: J. Zamorano and others, "Run-time mechanisms for property preservation in high-integrity real-time systems",
/// OSPERT 2007, section 2.3.3: at most N requests and k bytes a time unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The number of messages in each interval of this length, wherever it begins.
    pub messages: u32,
    /// The bytes of payload in each interval; if left out, `messages` times the longest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The length of the interval.
    pub interval: Duration,
    /// The least distance between two messages.
    #[serde(default)]
    pub least_distance: Duration,
    /// The fate of a message beyond the contract.
    #[serde(default)]
    pub violation: Violation,
}

/// The fate of a message beyond the contract of its publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// The message is dropped, counted and reported.
    #[default]
    Drop,
    /// The message is held back until the contract admits it; of those held back, the history has room for the newest.
    HoldBack,
}
