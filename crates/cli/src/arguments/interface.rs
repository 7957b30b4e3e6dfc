//! Arguments of `interface`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tailbound_analysis::notation::{PeriodRange, TaskNotation};
use tailbound_time::Duration;

use super::ExportArguments;

/// Arguments of `interface`.
#[derive(Debug, Args)]
pub struct InterfaceArguments {
    /// The description (TOML); without it, the tasks of the options.
    #[arg(conflicts_with_all = ["tasks", "bandwidth"])]
    pub file: Option<PathBuf>,
    /// A task: execution/period or execution/period/deadline, with ,jitter=2ms where its jobs may
    /// become ready late; under `--policy fp` the first has the highest priority.
    #[arg(long = "task", required_unless_present = "file")]
    pub tasks: Vec<TaskNotation>,
    /// With a FILE: only this domain.
    #[arg(long, requires = "file", value_name = "NAME")]
    pub domain: Option<String>,
    /// How the reservation gives its budget.
    #[arg(long, value_enum, default_value_t = ModelName::Periodic)]
    pub model: ModelName,
    /// The order of the tasks; with a FILE, of the domains on each CPU (the order of tasks is described).
    #[arg(long, value_enum, default_value_t = ComponentPolicy::Edf)]
    pub policy: ComponentPolicy,
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
pub enum ComponentPolicy {
    /// Earliest deadline first.
    Edf,
    /// Fixed priorities, in the order of the tasks.
    Fp,
    /// Rate-monotonic: fixed priorities, the shorter period first.
    Rm,
    /// Deadline-monotonic: fixed priorities, the shorter deadline first.
    Dm,
    /// First come, first served.
    Fifo,
}

/// Shares of a CPU, in billionths of one percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthRange {
    /// The least.
    pub low: u64,
    /// The largest, not below.
    pub high: u64,
}

/// So many parts make a CPU.
pub const PARTS_OF_A_CPU: u64 = 100_000_000_000;

impl std::str::FromStr for BandwidthRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (share(low)?, share(high)?);
        if low > high {
            return Err(format!(
                "the range {text} falls; write the smaller share first"
            ));
        }
        Ok(Self { low, high })
    }
}

/// A percentage with up to nine decimals.
fn share(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "\"{text}\" is no share of a CPU; write a percentage above 0% and up to 100%, such as \
             37.5%, or a range such as 30%..90%"
        )
    };
    let digits = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(decimals) || whole.len() > 9 || decimals.len() > 9 {
        return Err(wrong());
    }
    let parts = format!("{whole}{decimals:0<9}").parse::<u64>();
    let parts = parts.map_err(|_| wrong())?;
    (1..=PARTS_OF_A_CPU)
        .contains(&parts)
        .then_some(parts)
        .ok_or_else(wrong)
}
