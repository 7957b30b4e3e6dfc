//! What can be typed to make descriptions.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tailbound_model::Scheduling;
use tailbound_simulator::generate::{Deadlines, Offsets, Periods, UtilisationLaw};
use tailbound_sweep::Axis;
use tailbound_time::Duration;

use super::values::scheduling;

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub struct GenerateArguments {
    /// How many tasks a set has; under a bimodal law that is an outcome, and ranges tell it.
    #[arg(short, long)]
    pub tasks: Option<u32>,
    /// The utilisation of a set: the sum of execution time / period.
    #[arg(short, long)]
    pub utilisation: f64,
    /// How it is divided: uunifast[:MOST], rand-fixed-sum[:LEAST..MOST], within:RANGE,RANGE,...
    /// (a [LEAST..]MOST for each task) or bimodal:light|medium|heavy.
    #[arg(long, default_value = "uunifast", value_name = "LAW")]
    pub utilisations: UtilisationLaw,
    /// Periods: log-uniform:1ms..1s[,GRANULARITY], harmonic:10ms..1280ms[,FACTOR] or
    /// divisors-of:1s,1ms..100ms.
    #[arg(long, default_value = "log-uniform:1ms..1s", value_name = "LAW")]
    pub periods: Periods,
    /// Deadlines: implicit (the period), constrained (up to the period) or arbitrary:PERIODS.
    #[arg(long, default_value = "implicit", value_name = "LAW")]
    pub deadlines: Deadlines,
    /// First releases: zero, or uniform over the period.
    #[arg(long, default_value = "zero", value_name = "LAW")]
    pub offsets: Offsets,
    /// The order of service in a description.
    #[arg(long, default_value = "rate-monotonic", value_parser = scheduling)]
    pub scheduling: Scheduling,
    /// Budget of the reservation in a description; a CPU of its own if left out.
    #[arg(short, long, requires = "period")]
    pub budget: Option<Duration>,
    /// Period of the reservation in a description.
    #[arg(short, long, requires = "budget")]
    pub period: Option<Duration>,
    /// The seed; the same one draws the same sets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many sets.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sets: u32,
    /// Write a description for each set into this folder.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Whose file it is.
    #[command(subcommand)]
    pub tool: ImportTool,
}

/// Tools whose files can be imported.
#[derive(Debug, Subcommand)]
pub enum ImportTool {
    /// rt-app's JSON.
    RtApp {
        /// The file.
        file: PathBuf,
    },
    /// A recorded schedule of the kernel: the text of ftrace, trace-cmd report or perf script
    /// --show-lost-events.
    KernelTrace(KernelTraceArguments),
}

/// Arguments of `import kernel-trace`.
#[derive(Debug, Args)]
pub struct KernelTraceArguments {
    /// The file, with the events sched_switch and sched_wakeup.
    pub file: PathBuf,
    /// The threads whose jobs are taken, by number.
    #[arg(long, value_delimiter = ',', required_unless_present = "comm", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// The threads whose jobs are taken, by name.
    #[arg(long)]
    pub comm: Option<String>,
    /// Where releases and execution times are written (CSV); named like the recording if left out.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// The description (TOML).
    pub file: PathBuf,
    /// A key with its values, KEY=V1,V2 or KEY=START..END/STEP; several make a product.
    #[arg(long, required = true, value_name = "KEY=VALUES")]
    pub vary: Vec<Axis>,
    /// How many seeds each point is simulated with, from the description's on.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// How much time is simulated and counted.
    #[arg(short, long, default_value = "100s")]
    pub duration: Duration,
    /// How much is simulated before anything counts.
    #[arg(long, default_value = "0s")]
    pub warm_up: Duration,
    /// The mode that the system is in; the initial one if left out.
    #[arg(long)]
    pub mode: Option<String>,
    /// As in this variant of the experiment; as described if left out.
    #[arg(long)]
    pub variant: Option<String>,
    /// Where the rows are written (CSV). A sweep that was cut off goes on from FILE.journal.
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}
