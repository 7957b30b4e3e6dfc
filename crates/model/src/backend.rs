//! The back ends, and the one table of what each of them can do.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::ServerKind;

/// The back ends, which make the kernel give a domain its CPU time, and no more.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Our deferrable server at fixed priority, throttled by the cgroup v2 freezer.
    #[default]
    DsFreeze,
    /// A cyclic time partition (ARINC 653): the domain runs in its windows of each major frame alone, and is frozen
    /// outside of them.
    TimePartitions,
    /// SCHED_DEADLINE: a hard constant-bandwidth server for one thread per CPU.
    Deadline,
    /// A cgroup v1 real-time group.
    RtGroup,
    /// A cgroup v2 real-time group behind a constant-bandwidth server of the kernel (`cpu.rt.max`), which is proposed
    /// and in no release yet.
    Hcbs,
    /// A CFS quota: a cap, no guarantee.
    CfsQuota,
    /// A real-time priority without a budget (SCHED_FIFO): what `chrt -f` does.
    Fifo,
    /// A nice value: what `nice` does.
    Nice,
    /// A share of the CPU time that ordinary threads have: cpu.weight, cpu.shares, cpu.idle.
    Weight,
    /// CPUs of its own, no budget: the baseline of a full CPU.
    Dedicated,
    /// Nothing: the kernel's default.
    None,
    /// Xen's RTDS scheduler: a deferrable server for each virtual CPU of a Xen domain, the earliest
    /// end of a period first.
    XenRtds,
}

/// The CPU time that a domain can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuPromise {
    /// None at all; a cap promises nothing either.
    Nothing,
    /// The budget in each period, whatever else runs beneath.
    Budget,
    /// All the time of its CPUs.
    WholeCpus,
}

/// What decides which of two reservations on one CPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Their fixed priorities.
    Priority,
    /// The window of the major frame in which each of them runs alone.
    Window,
    /// The earlier end of a period, before all fixed priorities of the host.
    Deadline,
    /// The fair share of ordinary threads.
    FairShare,
    /// The hypervisor beneath the kernel, by deadlines.
    Hypervisor,
}

/// What one back end can do. Every question that depends on the back end is answered from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendTraits {
    /// Its name, as description files spell it.
    pub name: &'static str,
    /// What it is, in a report.
    pub title: &'static str,
    /// Whether it changes anything of the host at all.
    pub enforces: bool,
    /// Whether its reservations have a budget and a period.
    pub has_budget: bool,
    /// What a domain can count on.
    pub promise: CpuPromise,
    /// What decides between two of its reservations.
    pub precedence: Precedence,
    /// The rule of the reservation server that it enforces, if it guarantees a budget.
    pub server: Option<ServerKind>,
    /// Whether a thread of ours gives and takes the budget, so that it counts what it does and can put a
    /// change into force at any instant.
    pub has_manager: bool,
    /// Whether replenishments lie on a fixed grid.
    pub fixed_grid: bool,
    /// Whether several processes can share one budget.
    pub process_groups: bool,
    /// Whether several threads can share one budget.
    pub thread_groups: bool,
    /// Whether several CPUs can share one budget.
    pub cpus_share_budget: bool,
    /// Whether threads of the kernel, such as those of interrupts, can have its reservations.
    pub kernel_threads: bool,
    /// Whether the kernel sets the bandwidth aside on every CPU, whichever the domain runs on.
    pub books_every_cpu: bool,
    /// The shortest period that it takes.
    pub shortest_period: Duration,
    /// The longest period that it takes.
    pub longest_period: Duration,
    /// The smallest budget that it takes.
    pub smallest_budget: Duration,
    /// The function of the kernel's timer that gives the budget back, where the kernel does.
    pub replenishing_timer: Option<&'static str>,
    /// Why simulation does not follow it, if so.
    pub not_simulated: Option<&'static str>,
    /// The options of a reservation that it takes.
    pub options: &'static [BackendOption],
}

/// An option of a reservation that only some back ends take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendOption {
    /// Its key in `options` of a reservation.
    pub key: &'static str,
    /// Why simulation does not follow it, if so.
    pub not_simulated: Option<&'static str>,
}

/// The options of a reservation that only some back ends have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendOptions {
    /// The unused budget of earlier periods that may be spent beyond the budget of a period, on
    /// each CPU; at most the budget (back end `cfs-quota`).
    #[serde(default)]
    pub burst: Option<Duration>,
    /// The nice value; -20, which is ahead of all others, if left out (back end `nice`).
    #[serde(default)]
    pub nice: Option<NiceValue>,
    /// The weight among the groups beside it, where the kernel's default is 100; 10000, the largest, if left
    /// out (back end `weight`).
    #[serde(default)]
    pub weight: Option<CpuWeight>,
    /// Whether the domain runs only while nothing else wants the CPU, in place of a weight (back end `weight`).
    #[serde(default)]
    pub idle: Option<bool>,
    /// The CPU time that a partition may use after the end of a window, in the kernel and on interrupts; more is an overrun,
    /// which is counted. 1 ms if left out (back end `time-partitions`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrun_tolerance: Option<Duration>,
}

/// The nice value of an ordinary thread, -20 to 19: the lower, the larger its share.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct NiceValue(#[schemars(range(min = -20, max = 19))] pub i8);

impl NiceValue {
    /// The one that is ahead of all others.
    pub const FIRST: Self = Self(-20);
}

/// The weight of a group of ordinary threads, as cgroup v2 counts it: 1 to 10000, by default 100.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CpuWeight(#[schemars(range(min = 1, max = 10_000))] pub u32);

impl CpuWeight {
    /// The kernel's default.
    pub const DEFAULT: Self = Self(100);
    /// The largest that the kernel takes.
    pub const MOST: Self = Self(10_000);
}

/// What a cap lets a domain save up.
const BURST: BackendOption = BackendOption {
    key: "burst",
    not_simulated: Some("simulation knows no budget that is saved up for bursts"),
};

const NICE_VALUE: BackendOption = BackendOption {
    key: "nice",
    not_simulated: None,
};

const WEIGHT_OF_GROUP: BackendOption = BackendOption {
    key: "weight",
    not_simulated: None,
};

const IDLE: BackendOption = BackendOption {
    key: "idle",
    not_simulated: None,
};

const OVERRUN_TOLERANCE: BackendOption = BackendOption {
    key: "overrun_tolerance",
    not_simulated: None,
};

impl BackendOptions {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is set.
    pub fn given(&self) -> Vec<BackendOption> {
        let burst = self.burst.map(|_| BURST);
        let nice = self.nice.map(|_| NICE_VALUE);
        let weight = self.weight.map(|_| WEIGHT_OF_GROUP);
        let idle = self.idle.map(|_| IDLE);
        let tolerance = self.overrun_tolerance.map(|_| OVERRUN_TOLERANCE);
        let given = [burst, nice, weight, idle, tolerance];
        given.into_iter().flatten().collect()
    }

    /// Those of them that a back end takes; a variant may choose another one than the description.
    #[must_use]
    pub fn taken_by(self, kind: BackendKind) -> Self {
        let takes = |option: &BackendOption| kind.traits().options.contains(option);
        Self {
            burst: self.burst.filter(|_| takes(&BURST)),
            nice: self.nice.filter(|_| takes(&NICE_VALUE)),
            weight: self.weight.filter(|_| takes(&WEIGHT_OF_GROUP)),
            idle: self.idle.filter(|_| takes(&IDLE)),
            overrun_tolerance: (self.overrun_tolerance).filter(|_| takes(&OVERRUN_TOLERANCE)),
        }
    }
}

/// The kernel's default. Without budgets there is no range for them.
const NO_BUDGET: BackendTraits = BackendTraits {
    name: "none",
    title: "no reservation",
    enforces: false,
    has_budget: false,
    promise: CpuPromise::Nothing,
    precedence: Precedence::FairShare,
    server: None,
    has_manager: false,
    fixed_grid: false,
    process_groups: true,
    thread_groups: true,
    cpus_share_budget: false,
    kernel_threads: true,
    books_every_cpu: false,
    shortest_period: Duration::from_nanos(1),
    longest_period: Duration::MAX,
    smallest_budget: Duration::from_nanos(1),
    replenishing_timer: None,
    not_simulated: None,
    options: &[],
};

/// Simulation lets ordinary threads take turns of equal length.
const NO_SHARES: Option<&str> = Some("simulation gives ordinary threads equal shares only");

/// The kernel's own means, which users reach for first. They promise nothing: what a domain gets depends on what
/// runs beside it, and what runs beside it on what the domain does.
const FIFO: BackendTraits = BackendTraits {
    name: "fifo",
    title: "real-time priority, no budget",
    enforces: true,
    precedence: Precedence::Priority,
    kernel_threads: true,
    ..NO_BUDGET
};

const NICE: BackendTraits = BackendTraits {
    name: "nice",
    title: "nice value",
    enforces: true,
    not_simulated: NO_SHARES,
    options: &[NICE_VALUE],
    kernel_threads: false,
    ..NO_BUDGET
};

const WEIGHT: BackendTraits = BackendTraits {
    name: "weight",
    title: "weight of a group",
    enforces: true,
    not_simulated: NO_SHARES,
    options: &[WEIGHT_OF_GROUP, IDLE],
    kernel_threads: false,
    ..NO_BUDGET
};

const DEDICATED: BackendTraits = BackendTraits {
    name: "dedicated",
    title: "dedicated CPU",
    enforces: true,
    promise: CpuPromise::WholeCpus,
    kernel_threads: false,
    ..NO_BUDGET
};

/// With shorter periods the manager spends more than a tenth of the CPU; smaller budgets are of the size of the
/// overrun (10 to 15 us). A domain stands still until its first replenishment, so up to a period: a minute is
/// too long.
const DS_FREEZE: BackendTraits = BackendTraits {
    name: "ds-freeze",
    title: "deferrable server, cgroup freezer",
    enforces: true,
    has_budget: true,
    promise: CpuPromise::Budget,
    precedence: Precedence::Priority,
    server: Some(ServerKind::Deferrable),
    has_manager: true,
    fixed_grid: true,
    process_groups: true,
    thread_groups: true,
    cpus_share_budget: true,
    kernel_threads: true,
    books_every_cpu: false,
    shortest_period: Duration::from_micros(500),
    longest_period: Duration::from_secs(60),
    smallest_budget: Duration::from_micros(100),
    replenishing_timer: None,
    not_simulated: None,
    options: &[],
};

/// The same manager opens and closes windows. A window passes, used or not, like the budget of a periodic server. Where
/// the windows lie in the frame makes no difference to its guarantees: in an interval of any length, one window as long
/// as all of them together gives least.
const TIME_PARTITIONS: BackendTraits = BackendTraits {
    name: "time-partitions",
    title: "time partition, cgroup freezer",
    precedence: Precedence::Window,
    server: Some(ServerKind::Periodic),
    cpus_share_budget: false,
    kernel_threads: false,
    options: &[OVERRUN_TOLERANCE],
    ..DS_FREEZE
};

/// The kernel enforces group budgets at ticks: with periods of 1 ms and below the share was seen to fall from 0.40
/// to 0.30-0.35. It takes longer periods than are of use. The grid starts anew when a group wakes from idling.
const RT_GROUP: BackendTraits = BackendTraits {
    name: "rt-group",
    title: "cgroup real-time group",
    has_manager: false,
    fixed_grid: false,
    cpus_share_budget: false,
    books_every_cpu: true,
    shortest_period: Duration::from_millis(2),
    longest_period: Duration::from_secs(100),
    smallest_budget: Duration::from_micros(500),
    replenishing_timer: Some("sched_rt_period_timer"),
    ..DS_FREEZE
};

/// The kernel takes budgets from 1,024 ns on and, by default, periods from 100 us to 2^22 us.
const DEADLINE: BackendTraits = BackendTraits {
    name: "deadline",
    title: "SCHED_DEADLINE",
    precedence: Precedence::Deadline,
    server: Some(ServerKind::ConstantBandwidth),
    has_manager: false,
    fixed_grid: false,
    process_groups: false,
    thread_groups: false,
    cpus_share_budget: false,
    shortest_period: Duration::from_micros(100),
    longest_period: Duration::from_micros(1 << 22),
    smallest_budget: Duration::from_nanos(1024),
    replenishing_timer: Some("dl_task_timer"),
    ..DS_FREEZE
};

/// A server of SCHED_DEADLINE on each CPU, so that its bounds hold for groups, too, in whole microseconds.
const HCBS: BackendTraits = BackendTraits {
    name: "hcbs",
    title: "constant-bandwidth group",
    process_groups: true,
    thread_groups: true,
    books_every_cpu: true,
    smallest_budget: Duration::from_micros(2),
    kernel_threads: false,
    ..DEADLINE
};

/// The kernel takes quotas from 1 ms on (`min_cfs_quota_period`) and periods up to 1 s.
const CFS_QUOTA: BackendTraits = BackendTraits {
    name: "cfs-quota",
    title: "CFS quota",
    enforces: true,
    has_budget: true,
    cpus_share_budget: true,
    shortest_period: Duration::from_millis(1),
    longest_period: Duration::from_secs(1),
    smallest_budget: Duration::from_millis(1),
    replenishing_timer: Some("sched_cfs_period_timer"),
    options: &[BURST],
    kernel_threads: false,
    ..NO_BUDGET
};

/// From RTDS's source: periods and budgets from 10 us on; `xl` counts in an int.
const XEN_RTDS: BackendTraits = BackendTraits {
    name: "xen-rtds",
    title: "Xen RTDS",
    precedence: Precedence::Hypervisor,
    server: Some(ServerKind::Deferrable),
    has_manager: false,
    fixed_grid: false,
    process_groups: false,
    thread_groups: false,
    cpus_share_budget: false,
    shortest_period: Duration::from_micros(10),
    longest_period: Duration::from_secs(2_000),
    smallest_budget: Duration::from_micros(10),
    kernel_threads: false,
    ..DS_FREEZE
};

impl BackendKind {
    /// Every back end.
    pub const ALL: [Self; 12] = [
        Self::DsFreeze,
        Self::TimePartitions,
        Self::Deadline,
        Self::RtGroup,
        Self::Hcbs,
        Self::CfsQuota,
        Self::Fifo,
        Self::Nice,
        Self::Weight,
        Self::Dedicated,
        Self::None,
        Self::XenRtds,
    ];

    /// The one that leaves a domain to the kernel's default.
    pub const UNRESERVED: Self = Self::None;

    /// The one that gives a domain CPUs of its own.
    pub const WHOLE_CPUS: Self = Self::Dedicated;

    /// The one whose budgets a thread of ours meters.
    pub const METERED: Self = Self::DsFreeze;

    /// The one that gives a real-time priority and nothing else.
    pub const PRIORITY_ALONE: Self = Self::Fifo;

    /// The one behind the CPU limits of containers and units.
    pub const CPU_LIMIT: Self = Self::CfsQuota;

    /// The names of those back ends of which something is true, for messages.
    pub fn names(of: impl Fn(Self) -> bool) -> String {
        let mut names: Vec<&str> = Vec::new();
        for kind in Self::ALL.into_iter().filter(|kind| of(*kind)) {
            names.push(kind.traits().name);
        }
        names.join(", ")
    }

    /// What the back end can do.
    pub const fn traits(self) -> &'static BackendTraits {
        match self {
            Self::DsFreeze => &DS_FREEZE,
            Self::TimePartitions => &TIME_PARTITIONS,
            Self::Deadline => &DEADLINE,
            Self::RtGroup => &RT_GROUP,
            Self::Hcbs => &HCBS,
            Self::CfsQuota => &CFS_QUOTA,
            Self::Fifo => &FIFO,
            Self::Nice => &NICE,
            Self::Weight => &WEIGHT,
            Self::Dedicated => &DEDICATED,
            Self::None => &NO_BUDGET,
            Self::XenRtds => &XEN_RTDS,
        }
    }

    /// The rule that the back end enforces; `None` where it has no budget, or guarantees none.
    pub const fn server_kind(self) -> Option<ServerKind> {
        self.traits().server
    }

    /// Whether its reservations have a budget and a period.
    pub const fn has_budget(self) -> bool {
        self.traits().has_budget
    }

    /// Whether its reservations are windows of the host's major frame, in place of a budget and a period.
    pub const fn has_windows(self) -> bool {
        matches!(self.traits().precedence, Precedence::Window)
    }

    /// Whether the back end changes anything of the host at all.
    pub const fn enforces(self) -> bool {
        self.traits().enforces
    }

    /// Whether a thread of ours gives and takes the budget.
    pub const fn has_manager(self) -> bool {
        self.traits().has_manager
    }

    /// What a domain can count on.
    pub const fn promise(self) -> CpuPromise {
        self.traits().promise
    }

    /// Whether a domain has its CPUs to itself.
    pub const fn gives_whole_cpus(self) -> bool {
        matches!(self.promise(), CpuPromise::WholeCpus)
    }

    /// Whether a domain's threads run at a real-time priority of their own group or of the host, so that one that
    /// leaves the domain's CPUs takes it along.
    pub fn raises_priority(self) -> bool {
        let traits = self.traits();
        match traits.precedence {
            Precedence::Priority | Precedence::Window => true,
            Precedence::Deadline => traits.thread_groups,
            Precedence::FairShare | Precedence::Hypervisor => false,
        }
    }

    /// Whether a domain may take all the time that the kernel leaves to real-time threads.
    pub fn is_real_time_without_budget(self) -> bool {
        let traits = self.traits();
        traits.enforces && !traits.has_budget && traits.precedence == Precedence::Priority
    }

    /// What decides between two of its reservations.
    pub const fn precedence(self) -> Precedence {
        self.traits().precedence
    }

    /// Whether a domain gets its budget whatever else runs beneath it; a cap alone does not do that.
    pub const fn guarantees_budget(self) -> bool {
        matches!(self.promise(), CpuPromise::Budget)
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.traits().name)
    }
}

/// A name that no back end has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no back end is called `{name}`; use one of {}", BackendKind::names(|_| true))]
pub struct UnknownBackend {
    /// The name.
    pub name: String,
}

impl FromStr for BackendKind {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        let mut all = Self::ALL.into_iter();
        let kind = all.find(|kind| kind.traits().name == name);
        kind.ok_or_else(|| UnknownBackend { name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_name_is_spelled_as_in_files() {
        for kind in BackendKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let unknown = "cfs".parse::<BackendKind>().unwrap_err();
        assert!(
            unknown
                .to_string()
                .contains("cfs-quota, fifo, nice, weight, dedicated, none")
        );
    }

    #[test]
    fn what_guarantees_a_budget_has_one_and_a_rule() {
        for kind in BackendKind::ALL {
            let traits = kind.traits();
            assert_eq!(kind.guarantees_budget(), traits.server.is_some(), "{kind}");
            assert!(traits.has_budget || traits.server.is_none(), "{kind}");
            assert!(traits.enforces || !traits.has_budget, "{kind}");
            assert!(traits.smallest_budget <= traits.shortest_period, "{kind}");
            assert!(traits.shortest_period < traits.longest_period, "{kind}");
        }
    }
}
