//! The arguments of `route`.

use std::path::PathBuf;

use clap::Args;
use tailbound_time::Duration;

/// Arguments of `route`.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGHUP reads the description again: routes that stay lose no message, and a file that is wrong leaves \
    the routes of before in force. SIGUSR1 prints the numbers. SIGTERM and Ctrl-C pass on what waits, and end."
)]
pub struct RouteArguments {
    /// The description (TOML).
    pub file: PathBuf,
    /// Only the routes whose tasks are on this host of the description.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Only the routes whose tasks are in this domain.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Print the numbers of messages at this interval, too, and not at the end alone.
    #[arg(long, value_name = "INTERVAL")]
    pub report: Option<Duration>,
}
