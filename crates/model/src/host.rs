//! Hosts: their CPUs, and how their time is given out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::interface::{Cpu, CpuSet};
use crate::interference::Interference;
use crate::interrupts::InterruptHandling;
use crate::machine::AgentListeners;
use crate::schema::is_default;

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The CPUs that Tailbound may use.
    pub cpus: CpuSet,
    /// Those of `cpus` for load generators, Tailbound itself and everything not named.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub housekeeping: CpuSet,
    /// The order among the reservations.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "fixed-priority"))]
    pub scheduling: HostScheduling,
    /// The CPUs on which virtual CPUs, or the tasks of a domain, may run.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "partitioned"))]
    pub placement: Placement,
    /// The speed of each CPU in percent of that for which execution times hold, in the order of the
    /// CPUs' numbers; 100 for all if left out. Only simulation takes it into account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 1000)))]
    pub speeds: Vec<u32>,
    /// The CPU time that the operating system takes for itself. Simulation takes it into account; bounds count what the
    /// begin of each window of a time partition takes: `window_switch`, `context_switch` and `scheduler_invocation`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overheads: HostOverheads,
    /// The addresses at which the host listens for agents beside its Unix socket.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agents: AgentListeners,
    /// The cycle of the windows of the host's time partitions (back end `time-partitions`).
    #[serde(default)]
    pub major_frame: Option<Duration>,
    /// What takes CPUs from everything that is scheduled there: interrupts, softirqs, kernel threads, host stalls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
    /// The handling of interrupts, by network device, or by number or name of the interrupt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupts: BTreeMap<String, InterruptHandling>,
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
            interference: Vec::new(),
            interrupts: BTreeMap::new(),
        }
    }
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

/// The CPUs on which virtual CPUs, or the tasks of a domain, may run.
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

/// The CPU time that the operating system takes of each CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostOverheads {
    /// The cost of putting another job on a CPU than the one that ran there last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context_switch: Duration,
    /// The cost of each decision of the scheduler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler_invocation: Duration,
    /// The cost of continuing on another CPU, in addition to the switch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub migration: Duration,
    /// The cost of each release of a job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interrupt: Duration,
    /// How late the windows of time partitions are opened, beside decision and context switch: whoever opens them wakes up,
    /// stops one partition and lets the next one go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_switch: Duration,
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
    /// The CPU time of one tick.
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
            self.window_switch,
            self.tick.map_or(Duration::ZERO, |tick| tick.cost),
        ];
        costs.iter().all(|cost| cost.is_zero())
    }

    /// The time that the begin of a window of a time partition takes: its opening, a decision, and a context switch.
    pub fn window_begin(&self) -> Duration {
        self.window_switch
            .saturating_add(self.scheduler_invocation)
            .saturating_add(self.context_switch)
    }
}

/// A window of a time partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The begin of the window, from the begin of the major frame.
    pub offset: Duration,
    /// The length of the window.
    pub length: Duration,
}

impl Window {
    /// The window without a time that its begin takes; `None` where nothing is left.
    pub fn behind(self, begin: Duration) -> Option<Self> {
        (self.length > begin).then(|| Self {
            offset: self.offset.saturating_add(begin),
            length: self.length.saturating_sub(begin),
        })
    }

    /// The end of the window, from the begin of the major frame.
    pub fn end(&self) -> Duration {
        self.offset.saturating_add(self.length)
    }
}

impl Host {
    /// The sources of interference on a CPU.
    pub fn interference_on(&self, cpu: Cpu) -> impl Iterator<Item = &Interference> {
        self.interference.iter().filter(move |one| one.cpu == cpu)
    }

    /// Windows as the host opens them, late by its `window_switch`.
    pub fn opened_windows(&self, windows: &[Window]) -> Vec<Window> {
        windows_behind(windows, self.overheads.window_switch)
    }

    /// The parts of windows in which programs run: behind all that the begin of a window takes.
    pub fn running_windows(&self, windows: &[Window]) -> Vec<Window> {
        windows_behind(windows, self.overheads.window_begin())
    }

    /// The CPUs that are for domains.
    pub fn working_cpus(&self) -> CpuSet {
        self.cpus.difference(&self.housekeeping).copied().collect()
    }
}

/// Windows without a time that the begin of each takes, and without those of which nothing is left.
fn windows_behind(windows: &[Window], begin: Duration) -> Vec<Window> {
    let parts = windows.iter().filter_map(|window| window.behind(begin));
    parts.collect()
}
