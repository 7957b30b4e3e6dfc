//! What CPU time the servers of an ensemble get where others use the CPUs, too.

use std::path::PathBuf;

use clap::Args;
use tailbound_time::Duration;

/// The CPU time of `predict recovery`; without any of it, CPUs for all threads.
#[derive(Debug, Args)]
pub struct BusyHostArguments {
    /// Budget of the reservation of each server: the answer is a bound.
    #[arg(short, long, requires = "period", conflicts_with = "neighbours")]
    pub budget: Option<Duration>,
    /// Period of the reservation of each server.
    #[arg(short, long, requires = "budget")]
    pub period: Option<Duration>,
    /// Most that a server may have used of its budget when the leader fails; all of it if left out.
    #[arg(long, requires = "budget")]
    pub used: Option<Duration>,
    /// CPU time that each server uses from the failure to the first write at most; if left out, one
    /// busy thread all along.
    #[arg(long, requires = "budget")]
    pub work: Option<Duration>,
    /// Most that reservations above take of each period.
    #[arg(long, requires = "budget", default_value = "0ns")]
    pub held_up: Duration,
    /// Busy threads of ordinary priority on each CPU beside servers without reservations: the answer
    /// is an estimate.
    #[arg(short, long)]
    pub neighbours: Option<u32>,
    /// Weight of a server among the neighbours, which have 100 each (`cpu.weight`; a nice value of
    /// -20 is 8668).
    #[arg(long, requires = "neighbours", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub weight: u32,
    /// How long the kernel lets a thread run at a stretch.
    #[arg(long, requires = "neighbours", default_value = "3ms")]
    pub slice: Duration,
    /// Recoveries measured on the busy host (JSON), to hold against the prediction.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// The variant in that file, where the variant has another name there.
    #[arg(long, requires = "against", value_name = "VARIANT")]
    pub against_variant: Option<String>,
}
