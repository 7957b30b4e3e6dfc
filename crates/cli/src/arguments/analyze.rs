//! Arguments of `analyze`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tailbound_analysis::notation::{ServerNotation, TaskNotation};
use tailbound_time::Duration;

use super::ExportArguments;

/// Arguments of `analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArguments {
    /// The description (TOML); without it, the tasks of the options.
    #[arg(conflicts_with_all = ["tasks", "scheduling", "vas", "tests", "cpus", "non_preemptive", "above"])]
    pub file: Option<PathBuf>,
    /// A task: execution/period or execution/period/deadline, with ,jitter=2ms and ,blocking=1ms where
    /// there are such; execution/period+offset with --vas. Under `--scheduling fixed-priority` the first has the highest
    /// priority.
    #[arg(long = "task", required_unless_present = "file")]
    pub tasks: Vec<TaskNotation>,
    /// The order of execution.
    #[arg(long, value_enum, default_value_t = TaskOrder::FixedPriority, conflicts_with_all = ["vas", "tests"])]
    pub scheduling: TaskOrder,
    /// The number of CPUs; on several any job may run on any of them (global scheduling).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub cpus: u32,
    /// A job that has begun is not preempted.
    #[arg(long)]
    pub non_preemptive: bool,
    /// A reservation server with a higher priority than all tasks: rule:budget/period, such as
    /// deferrable:2ms/6ms.
    #[arg(long, value_name = "SERVER")]
    pub above: Vec<ServerNotation>,
    /// Every test that fits, side by side, each with its source, in place of one order.
    #[arg(long, conflicts_with = "vas")]
    pub tests: bool,
    /// The least budget of a deferrable server under which the tasks run as on a CPU of their own.
    #[arg(long, conflicts_with_all = ["cpus", "non_preemptive", "above"])]
    pub vas: bool,
    /// The server's period; the tasks' hyperperiod if left out.
    #[arg(short, long, requires = "vas")]
    pub period: Option<Duration>,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Orders of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TaskOrder {
    /// Fixed priorities, in the order of the tasks.
    FixedPriority,
    /// Rate-monotonic: fixed priorities, the shorter period first.
    RateMonotonic,
    /// Deadline-monotonic: fixed priorities, the shorter deadline first.
    DeadlineMonotonic,
    /// Fixed priorities by Audsley's assignment: some order in which all deadlines are met.
    Audsley,
    /// Earliest deadline first.
    EarliestDeadlineFirst,
}
