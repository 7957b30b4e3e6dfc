//! Modes: what differs from the description while one is in force, and what asks for one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::description::Reservation;
use crate::interface::Percent;

/// One mode of the system: what differs from the description in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// What the mode is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The local modes that domains are in, by domain: one of the domain's `modes` each. The others
    /// are as described.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, String>,
    /// The reservations in this mode, by domain; the others keep theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, Reservation>,
    /// The tasks that are released in this mode, as `service.task` or `domain.task`; all if left
    /// out, but for what local modes say.
    #[serde(default)]
    pub tasks: Option<Vec<String>>,
    /// What asks for this mode beside commands, programs and agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
}

/// A mode of one domain, which modes of the system put it into.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalMode {
    /// What the domain does in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The CPU time that the domain gets in it; as described if left out.
    #[serde(default)]
    pub reservation: Option<Reservation>,
    /// The tasks that are released in it: the domain's own by their names, those of its services as
    /// `service.task`; all if left out.
    #[serde(default)]
    pub tasks: Option<Vec<String>>,
}

/// What asks for a mode without being told to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Trigger {
    /// At `offset` after the start, and every `every` after it.
    Schedule {
        /// The distance between the requests.
        every: Duration,
        /// The first request.
        #[serde(default)]
        offset: Duration,
    },
    /// Whenever a share of what the manager of a domain counted (back end `ds-freeze`) has passed a
    /// threshold, over all of a stretch of time.
    Condition {
        /// The domain.
        domain: String,
        /// What is looked at.
        metric: Metric,
        /// It asks for the mode when the share is larger than this; else give `below`.
        #[serde(default)]
        above: Option<Percent>,
        /// It asks for the mode when the share is smaller than this; else give `above`.
        #[serde(default)]
        below: Option<Percent>,
        /// The stretch of time that is counted over.
        #[serde(rename = "for")]
        window: Duration,
    },
}

/// What a condition looks at, as a share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Of the periods that ended, those in which the budget ran out.
    Depletions,
    /// Of the CPU time that was reserved, what was used.
    BudgetUsed,
    /// Of the replenishments that were due, those that passed unserved because the host held the
    /// manager up.
    Skipped,
    /// Of the periods that ended, those in which the host stalled.
    Stalls,
}
