//! Qualities of delivery, by the names of DDS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The qualities that a topic is delivered with. A transport that lacks one refuses the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// The number of messages that wait for a subscriber; a newer message takes the place of the oldest one.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 65_536), extend("default" = 1))]
    pub history: u32,
    /// Whether lost messages are sent again.
    #[serde(default)]
    pub reliability: Reliability,
    /// The longest distance between messages of a publisher; a subscriber is told of a longer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// The age, by the source time stamp, above which a message is not delivered any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifespan: Option<Duration>,
    /// The proof that a publisher lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveliness: Option<Liveliness>,
}

fn one() -> u32 {
    1
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            history: 1,
            reliability: Reliability::default(),
            deadline: None,
            lifespan: None,
            liveliness: None,
        }
    }
}

/// Whether lost messages are sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// A lost message stays lost.
    #[default]
    BestEffort,
    /// Every message within the history arrives, in order, as long as the subscriber lives.
    Reliable,
}

/// The proof that a publisher lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Liveliness {
    /// The time after a publisher's last sign of life at which subscribers are told that it is lost.
    pub lease: Duration,
}
