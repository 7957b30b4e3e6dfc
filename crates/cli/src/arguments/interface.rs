//! Arguments of `interface`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tailbound_analysis::notation::{BandwidthRange, PeriodRange, TaskNotation};
use tailbound_time::Duration;

use super::ExportArguments;

/// Arguments of `interface`.
#[derive(Debug, Args)]
pub struct InterfaceArguments {
    /// The description (TOML); without it, the tasks of the options.
    #[arg(conflicts_with_all = ["tasks", "bandwidth"])]
    pub file: Option<PathBuf>,
    /// A task: execution/period or execution/period/deadline, with ,jitter=2ms where its jobs may
    /// become ready late; under `--scheduling fixed-priority` the first has the highest priority.
    #[arg(long = "task", required_unless_present = "file")]
    pub tasks: Vec<TaskNotation>,
    /// With a FILE: only this domain.
    #[arg(long, requires = "file", value_name = "NAME")]
    pub domain: Option<String>,
    /// How the reservation gives its budget.
    #[arg(long, value_enum, default_value_t = ModelName::Periodic)]
    pub model: ModelName,
    /// The order of the tasks; with a FILE, of the domains on each CPU (the order of tasks is described).
    #[arg(long, value_enum, default_value_t = ComponentScheduling::EarliestDeadlineFirst)]
    pub scheduling: ComponentScheduling,
    /// The period of the reservation, or a range such as 1ms..100ms. With a FILE, if left out: the
    /// described period of each domain.
    #[arg(short, long)]
    pub period: Option<PeriodRange>,
    /// How many periods, or bandwidths, of a range are looked at.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub points: u32,
    /// With `--model bounded-delay`: the bandwidth, such as 40%, or a range such as 30%..90%.
    #[arg(long, value_name = "SHARE")]
    pub bandwidth: Option<BandwidthRange>,
    /// With `--model multiprocessor`: the most CPUs at a time; the fewest that suffice are taken.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: Option<u32>,
    /// With `--model explicit-deadline`: by when the budget is given, after the start of each period; if left
    /// out, the latest with which the least budget suffices.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<Duration>,
    /// With `--model deferrable` or `polling`: how long others hold the server up while it spends a
    /// budget; zero, which is right at the highest priority, if left out.
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<Duration>,
    /// What each replenishment costs, taken from the budget (on each CPU).
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub overhead: Duration,
    /// With a FILE: also the least interface of each CPU, at this period, that holds all its domains.
    #[arg(long, requires = "file", value_name = "PERIOD")]
    pub compose: Option<Duration>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Resource models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// The budget comes somewhere in each period (Shin and Lee 2003).
    Periodic,
    /// The budget comes by a deadline in each period (Easwaran, Anand and Lee 2007).
    ExplicitDeadline,
    /// A bandwidth that is late by a bounded delay (Mok, Feng and Chen 2001).
    BoundedDelay,
    /// A deferrable server.
    Deferrable,
    /// A polling server.
    Polling,
    /// The budget comes on several CPUs, the tasks run by global EDF (Easwaran, Shin and Lee 2009).
    Multiprocessor,
}

/// Orders of the tasks of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ComponentScheduling {
    /// Earliest deadline first.
    EarliestDeadlineFirst,
    /// Fixed priorities, in the order of the tasks.
    FixedPriority,
    /// Rate-monotonic: fixed priorities, the shorter period first.
    RateMonotonic,
    /// Deadline-monotonic: fixed priorities, the shorter deadline first.
    DeadlineMonotonic,
    /// First come, first served.
    Fifo,
}
