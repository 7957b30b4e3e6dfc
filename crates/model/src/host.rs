//! Hosts: their CPUs, and how their time is given out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::interface::CpuSet;
use crate::machine::AgentListeners;

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The CPUs that Tailbound may use.
    pub cpus: CpuSet,
    /// Those of them for load generators, Tailbound itself and everything not named.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub housekeeping: CpuSet,
    /// The order among the reservations.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "fixed-priority"))]
    pub scheduling: HostScheduling,
    /// Where virtual CPUs, or the tasks of a domain, may run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "partitioned"))]
    pub placement: Placement,
    /// The speed of each CPU in percent of that for which execution times hold, in the order of the
    /// CPUs' numbers; 100 for all if left out. Only simulation reckons with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 1000)))]
    pub speeds: Vec<u32>,
    /// What the operating system takes for itself. Only simulation reckons with it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overheads: HostOverheads,
    /// Where it listens for agents beside its Unix socket.
    #[serde(default, skip_serializing_if = "AgentListeners::is_default")]
    pub agents: AgentListeners,
    /// The cycle of the windows of its time partitions.
    #[serde(default)]
    pub major_frame: Option<Duration>,
}

impl Host {
    /// A host of these CPUs, with nothing else said of it.
    pub fn of(cpus: CpuSet) -> Self {
        Self {
            cpus,
            housekeeping: CpuSet::new(),
            scheduling: HostScheduling::default(),
            placement: Placement::default(),
            speeds: Vec::new(),
            overheads: HostOverheads::default(),
            agents: AgentListeners::default(),
            major_frame: None,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The order among the reservations of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostScheduling {
    /// By the reservations' `priority`; those of SCHED_DEADLINE come before them, as in the kernel.
    #[default]
    FixedPriority,
    /// The earliest end of a period first (SCHED_DEADLINE, Xen's RTDS).
    EarliestDeadlineFirst,
}

/// Where virtual CPUs, or the tasks of a domain, may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each on the CPU, or virtual CPU, that it is pinned to.
    #[default]
    Partitioned,
    /// All over all CPUs of the host but the housekeeping ones (Xen's RTDS), or over all virtual CPUs
    /// of the domain, as the queue of a guest's operating system has it; only simulated.
    Global,
}

/// What the operating system takes of each CPU.
///
/// An overhead takes the CPU at the instant at which it arises, before any job goes on; overheads that
/// arise meanwhile wait their turn behind it. It is charged to no job's execution and to no budget, so
/// that what ran, what overheads took and what was idle add up to what passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostOverheads {
    /// To put another job on a CPU than the one that was there last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context_switch: Duration,
    /// Each time that the scheduler looks what to run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler_invocation: Duration,
    /// To go on on another CPU, in addition to the switch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub migration: Duration,
    /// Each release of a job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interrupt: Duration,
    /// The periodic tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<HostTick>,
}

/// The periodic tick of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostTick {
    /// The distance between ticks.
    pub period: Duration,
    /// The CPU time that each takes.
    pub cost: Duration,
}

impl HostOverheads {
    /// Whether nothing costs anything.
    pub fn is_free(&self) -> bool {
        let costs = [
            self.context_switch,
            self.scheduler_invocation,
            self.migration,
            self.interrupt,
            self.tick.map_or(Duration::ZERO, |tick| tick.cost),
        ];
        costs.iter().all(|cost| cost.is_zero())
    }
}

/// A window of a time partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its begin, from the begin of the major frame.
    pub offset: Duration,
    /// How long it lasts.
    pub length: Duration,
}

impl Host {
    /// The CPUs that are for domains.
    pub fn working_cpus(&self) -> CpuSet {
        self.cpus.difference(&self.housekeeping).copied().collect()
    }
}
