//! What the tasks of a domain share, one at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The effects of a lock on the priority of its holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LockProtocol {
    /// Nothing: an ordinary mutex.
    #[default]
    None,
    /// The holder has the priority of the first who waits (PTHREAD_PRIO_INHERIT).
    Inheritance,
    /// Inheritance, and a task gets a lock only if it comes before the ceilings of all locks of this
    /// protocol that others hold (Sha, Rajkumar and Lehoczky 1990). For fixed priorities.
    Ceiling,
    /// The holder has the highest priority of all who use the lock (PTHREAD_PRIO_PROTECT). For fixed
    /// priorities.
    ImmediateCeiling,
}

/// A part of each job of a task during which it holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CriticalSection {
    /// The lock, one of the domain's.
    pub lock: String,
    /// The execution time before the section. A shorter job does not reach the section.
    #[serde(default)]
    pub after: Duration,
    /// The execution time of the section, which ends with the job at the latest.
    pub length: Duration,
}
