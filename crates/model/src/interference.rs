//! Interference: what takes a CPU from everything that is scheduled there.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::arrival_curve::ArrivalCurve;
use crate::interface::Cpu;
use crate::workload::{Arrivals, ExecutionTime};

/// A source of interference: something that takes a CPU again and again, before every task and every reservation
/// on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// The name of the source, such as `irq 24 (virtio0)`.
    pub source: String,
    /// The kind of the source, which says who pays: the time of interrupts, softirqs and host stalls may be charged to
    /// the domain that they interrupt, that of a kernel thread is not.
    pub kind: InterferenceKind,
    /// The CPU that the source takes.
    pub cpu: Cpu,
    /// The law by which the source takes the CPU. Analysis needs one with a least distance between events, such as
    /// `minimum-distances`.
    pub arrivals: Arrivals,
    /// The time for which the source takes the CPU at each event.
    pub execution_time: ExecutionTime,
    /// The longest time for which the source takes the CPU at one event; the longest of `execution_time` if left out.
    #[serde(default)]
    pub longest: Option<Duration>,
    /// A recording of instants and lengths (a CSV as `trace` arrivals have it), which simulation repeats again and again
    /// in place of drawing events by `arrivals` and `execution_time`.
    #[serde(default)]
    pub recorded: Option<PathBuf>,
}

/// The kinds of interference.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum InterferenceKind {
    /// A hardware interrupt.
    Interrupt,
    /// Work that an interrupt left for later, at the end of an interrupt.
    Softirq,
    /// A thread of the kernel with a higher priority than every reservation, such as an interrupt's.
    KernelThread,
    /// A hypervisor, or firmware, that has the CPU.
    HostStall,
}

impl InterferenceKind {
    /// Whether the time may be charged to the budget of the domain that runs meanwhile: accounts go by the CPU time of
    /// threads, which holds the time of interrupts where the kernel does not keep that apart, and that of a hypervisor.
    pub fn may_use_budget(self) -> bool {
        self != Self::KernelThread
    }
}

impl fmt::Display for InterferenceKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::KernelThread => "kernel thread",
            Self::HostStall => "host stall",
        })
    }
}

impl Interference {
    /// The longest time of one event, where the description says it.
    pub fn longest_event(&self) -> Option<Duration> {
        self.longest.or_else(|| self.execution_time.longest())
    }

    /// The curve that bounds its events; `None` where `arrivals` promise no distance.
    pub fn curve(&self) -> Option<ArrivalCurve> {
        ArrivalCurve::of(&self.arrivals)
    }

    /// The share of the CPU that it takes in the mean: mean length by mean gap, where the description says both, or else
    /// its longest length by its least distances.
    pub fn mean_share(&self) -> Option<f64> {
        let of_means = || {
            let gap = self.arrivals.mean_gap()?.as_secs_f64();
            Some(self.execution_time.mean()?.as_secs_f64() / gap)
        };
        let of_worst = || {
            let (events, length) = self.curve()?.rate();
            let worst = self.longest_event()?.as_secs_f64() * events as f64;
            Some(worst / length.as_secs_f64())
        };
        of_means().or_else(of_worst)
    }
}
