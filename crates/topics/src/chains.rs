//! Chains of tasks from a measurement to an effect.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// Chains of tasks that pass data on by topics, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Chains(
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))] pub BTreeMap<String, Chain>,
);

/// A chain from the task that measures to the task that acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The tasks, as `domain/task`, in the order of the data. The name of a topic between two tasks says which one joins
    /// them; it may be left out where only one does. Data that come by other ways count for nothing: of a topic with several
    /// publishers, a reader takes the message that came last, and its output is none of this chain where that is one of another
    /// publisher.
    pub path: Vec<String>,
    /// The longest age of the data at the end of the chain: from the measurement to the last moment at which an effect of
    /// it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_age: Option<Duration>,
    /// The longest time from a cause to the first effect that takes it into account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction_time: Option<Duration>,
}
