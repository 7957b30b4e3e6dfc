//! What can be recorded of a program from within: its locks, and its triggers.

use clap::{Args, Subcommand};

use super::ExportArguments;

/// Arguments of `trace locks`.
#[derive(Debug, Args)]
pub struct LockTraceArguments {
    /// The command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
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
    /// Switch triggers off.
    Disable {
        /// The name, in which `*` stands for any characters.
        pattern: String,
    },
}
