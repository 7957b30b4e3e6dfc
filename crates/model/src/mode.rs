//! Modes: what differs from the description while one is in force, and what asks for one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::description::Reservation;
use crate::interface::Percent;

/// One mode of the system: its differences from the description.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// A text about the mode, for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The local modes of domains in this mode, by domain: one of the domain's `modes` each. The
    /// other domains are as described.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, String>,
    /// The reservations in this mode, by domain; the others keep theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, Reservation>,
    /// The tasks that are released in this mode, as `service.task` or `domain.task`. If left out,
    /// all tasks are, but for those that local modes leave out.
    #[serde(default)]
    pub tasks: Option<Vec<String>>,
    /// The triggers that ask for this mode, beside commands, programs and agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
}

/// A mode of one domain, which modes of the system choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalMode {
    /// A text about the mode, for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The CPU time that the domain gets in the mode; as described if left out.
    #[serde(default)]
    pub reservation: Option<Reservation>,
    /// The tasks that are released in the mode: the domain's own by their names, those of its
    /// services as `service.task`; all if left out.
    #[serde(default)]
    pub tasks: Option<Vec<String>>,
}

/// A trigger, which asks for a mode at a time or under a condition.
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
    /// Whenever a share of the events that the manager of a domain counts (back end `ds-freeze`)
    /// has passed a threshold, over all of a stretch of time.
    Condition {
        /// The domain.
        domain: String,
        /// The share that the condition compares.
        metric: Metric,
        /// The share above which the trigger asks for the mode; else give `below`.
        #[serde(default)]
        above: Option<Percent>,
        /// The share below which the trigger asks for the mode; else give `above`.
        #[serde(default)]
        below: Option<Percent>,
        /// The stretch of time that is counted over.
        #[serde(rename = "for")]
        window: Duration,
    },
}

/// The shares that a condition compares, in percent.
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
