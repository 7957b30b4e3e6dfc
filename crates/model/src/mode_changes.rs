//! How a system gets from one mode to another, and what of it a domain does itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::BackendKind;
use crate::description::{Description, Domain};
use crate::machine::AgentLink;
use crate::parser::KeyPath;
use crate::schema::is_default;
use crate::section::Section;
use crate::validation::Check;

/// The settings of changes from mode to mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModeChanges {
    /// The order in which domains are asked to change.
    pub policy: ChangePolicy,
    /// The treatment of a request that comes during a change.
    pub requests: RequestsMeanwhile,
    /// The time after which the domain of an agent that does not answer falls back.
    pub timeout: Duration,
    /// The longest boost of an agent, for one change.
    pub boost: Duration,
    /// The least distance between two changes; the cost of agents is accounted with it.
    pub least_gap: Duration,
    /// The instant from which tasks of a domain that gets more CPU time may start.
    pub start: TaskStart,
    /// The protocol that separates new tasks from old ones, so that no task misses a deadline in a
    /// change.
    pub protocol: ChangeProtocol,
}

impl Default for ModeChanges {
    fn default() -> Self {
        Self {
            policy: ChangePolicy::default(),
            requests: RequestsMeanwhile::default(),
            timeout: Duration::from_millis(100),
            boost: Duration::from_micros(500),
            least_gap: Duration::from_secs(1),
            start: TaskStart::default(),
            protocol: ChangeProtocol::default(),
        }
    }
}

impl Section for ModeChanges {
    const KEY: &'static str = "mode_changes";

    fn check(&self, check: &mut Check<'_>) {
        let place = KeyPath::root().key(Self::KEY);
        if !check.names(Self::KEY).is_empty() && check.names("modes").is_empty() {
            check.error(
                &place,
                "there are no modes to change between",
                "leave it out, or describe modes",
            );
        }
        for (key, what, length) in [
            ("timeout", "the timeout", self.timeout),
            ("boost", "the longest boost", self.boost),
            ("least_gap", "the least gap between changes", self.least_gap),
        ] {
            check.above_zero(&place.key(key), what, length);
        }
        let Self { boost, timeout, .. } = self;
        if boost > timeout && !timeout.is_zero() {
            check.error(
                &place.key("boost"),
                format!("a boost of {boost} goes on after the timeout of {timeout}"),
                format!("a boost ends with the timeout at the latest; write at most \"{timeout}\""),
            );
        }
    }
}

/// The order in which domains are asked to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangePolicy {
    /// One after the other, the largest decrease of bandwidth first (thesis, section 2.4.1).
    Sequential,
    /// All decreases at once; when all are made, all increases at once (thesis, section 2.4.1).
    Batch,
    /// All decreases at once, and each increase as soon as there is room for it (thesis, section
    /// 2.4.1).
    Greedy,
    /// Sequential, each agent inside of a reservation before all else from the message to its answer
    /// (thesis, section 2.4.2).
    Boost,
    /// Greedy, with a boost of those agents alone that run inside of a reservation.
    #[default]
    Prompt,
}

/// The treatment of a request that comes during a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestsMeanwhile {
    /// It waits until the change is made; all are carried out, in order.
    #[default]
    Queue,
    /// It waits, and of those that wait only the last one is carried out.
    Merge,
    /// The change goes on to the new mode from where it is.
    Preempt,
}

/// The instant from which tasks of a domain that gets more CPU time may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskStart {
    /// As soon as its reservation is accepted (thesis, section 2.4.3). Until its next replenishment
    /// the tasks may ask for more than it gives.
    Accepted,
    /// Only when its reservation is in force, at its next replenishment: the tasks never ask for more
    /// than the reservation in force.
    #[default]
    InForce,
}

/// The protocols that separate new tasks from old ones (docs/concepts/mode-change-protocols.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeProtocol {
    /// Not at all: new tasks start as soon as the old ones are stopped and the reservation allows.
    #[default]
    None,
    /// They start at the first idle instant (Tindell and Alonso 1996): at the answer that the old ones are
    /// stopped, or where tasks go on after their longest busy period.
    IdleTime,
    /// They start a longest period of the old tasks after these were stopped (Bailey 1993).
    MaximumPeriodOffset,
    /// They start when nothing can be left of the old tasks, as the analysis finds; tasks of both modes
    /// go on (Real and Crespo 2004, with periodicity).
    MinimumSingleOffset,
}

/// The agent that switches the tasks of a domain at the host's request: the domain mode manager of
/// the thesis (section 2.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub struct AgentDescription {
    /// Whether the agent runs on the domain's reservation, or beside it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "outside"))]
    pub place: AgentPlace,
    /// The CPU time of one switch, at most.
    #[serde(default = "default_switch", skip_serializing_if = "is_default_switch")]
    #[schemars(extend("default" = "100us"))]
    pub execution_time: Duration,
    /// The modes of the system that the agent may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_request: Vec<String>,
    /// The local mode that the domain falls back to when the agent does not answer in time, or
    /// cannot switch; if left out, the whole change is taken back then.
    #[serde(default)]
    pub fallback: Option<String>,
    /// The link to the agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub link: AgentLink,
    /// The processes of tasks of the domain, by task: its own by their names, those of its services
    /// as `service.task`. The host watches them while the agent says that the task is stopped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, TaskProcesses>,
}

/// The processes that run one task and nothing else, and use no CPU time while the task is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskProcesses {
    /// Processes; their children are not followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 4_194_304)))]
    pub pids: Vec<u32>,
    /// A cgroup with all below it, relative to the cgroup v2 root.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
}

/// The source of an agent's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentPlace {
    /// Beside the domain's reservation, before all domains: an empty budget does not hold it up.
    #[default]
    Outside,
    /// On the domain's reservation, as in a virtual machine.
    Inside,
}

fn default_switch() -> Duration {
    Duration::from_micros(100)
}

// serde passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_default_switch(switch: &Duration) -> bool {
    *switch == default_switch()
}

impl Default for AgentDescription {
    fn default() -> Self {
        Self {
            place: AgentPlace::default(),
            execution_time: default_switch(),
            may_request: Vec::new(),
            fallback: None,
            link: AgentLink::default(),
            tasks: BTreeMap::new(),
        }
    }
}

impl Description {
    /// The CPU time before all domains that the agent of a domain may take for one mode change, on one
    /// of the domain's CPUs, while `backend` enforces the domain's reservation; none without an agent.
    ///
    /// It is what the thesis's hypothetical virtual CPU has for a budget, with `least_gap` for a period
    /// (section 2.4.2). A boosted agent counts with the longest boost, for that is what the host
    /// enforces; one beside the reservation with its execution time. An agent inside of the reservation
    /// that is not boosted spends the domain's budget, and one of a domain without a budget, or with
    /// CPUs of its own, spends the domain's time: nothing of either comes before others.
    pub fn agent_time_before_all(&self, domain: &Domain, backend: BackendKind) -> Duration {
        let Some(agent) = &domain.agent else {
            return Duration::ZERO;
        };
        if !backend.has_budget() {
            return Duration::ZERO;
        }
        let ModeChanges { policy, boost, .. } = self.section();
        match (policy, agent.place) {
            (ChangePolicy::Boost | ChangePolicy::Prompt, AgentPlace::Inside) => boost,
            (_, AgentPlace::Outside) => agent.execution_time,
            (_, AgentPlace::Inside) => Duration::ZERO,
        }
    }
}
