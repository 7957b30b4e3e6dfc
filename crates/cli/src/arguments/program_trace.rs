//! What can be recorded of a program from within: its locks, and its triggers.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tailbound_time::Duration;

use super::ExportArguments;

/// Arguments of `trace locks`.
#[derive(Debug, Args)]
pub struct LockTraceArguments {
    /// A recording that `--output` kept, whose tables are printed again, or one of `trace record --kernel-locks`.
    #[arg(conflicts_with_all = ["command", "output"])]
    pub file: Option<PathBuf>,
    /// Keep the recording in this file, too.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "file")]
    pub command: Vec<String>,
    /// The most locks and the most places that the table has.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Where the answer goes, too.
    #[command(flatten)]
    pub export: ExportArguments,
}

/// Arguments of `trace triggers`.
#[derive(Debug, Args)]
pub struct TriggerArguments {
    /// The process.
    pub pid: u32,
    /// The request; without one, the triggers are listed.
    #[command(subcommand)]
    pub request: Option<TriggerRequest>,
}

/// A request to the triggers of a process.
#[derive(Debug, Subcommand)]
pub enum TriggerRequest {
    /// List the triggers.
    List,
    /// Switch triggers on.
    Enable {
        /// The name, in which `*` stands for any characters.
        pattern: String,
    },
    /// Record events of triggers, which are on for that time.
    Record {
        /// The name, in which `*` stands for any characters.
        pattern: String,
        /// How long; until Ctrl-C if left out.
        #[arg(short, long)]
        duration: Option<Duration>,
        /// The most events, after which the recording ends.
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        events: usize,
    },
    /// Switch triggers off.
    Disable {
        /// The name, in which `*` stands for any characters.
        pattern: String,
    },
}
