//! The command line of `tailboundd`, which the daemon reads and its manual page describes.

use std::path::PathBuf;

use clap::Parser;
use tailbound_time::Duration;

/// Owns the CPU reservations of this host: makes them, keeps them, takes them back.
///
/// Whatever happens to it, nothing stays reserved that nobody holds: SIGTERM and SIGINT take
/// everything back, and a watchdog process does so if it is killed.
///
/// The log is on standard error, with fields where that is systemd's journal (TAILBOUND_DOMAIN, TAILBOUND_BACK_END,
/// TAILBOUND_UNIT, TAILBOUND_CONTAINER). TAILBOUND_LOG=error, warn, info, debug or off says which entries are logged: by
/// default info and what is more urgent.
#[derive(Debug, Parser)]
#[command(name = "tailboundd", version)]
pub struct DaemonArguments {
    /// Where the control socket, the lock and the journals lie [default: /run/tailbound for root]
    #[arg(long, value_name = "DIRECTORY", env = "TAILBOUND_STATE_DIR")]
    pub state_dir: Option<PathBuf>,

    /// End once there are neither reservations nor connections
    #[arg(long)]
    pub exit_when_idle: bool,

    /// How long to wait for that
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub idle_time: Duration,

    /// Go on in the background; return once the daemon is ready
    #[arg(long)]
    pub detach: bool,

    /// How long it may take to be ready, with --detach
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    pub start_within: Duration,

    /// Watch the daemon at the other end of standard input (tailboundd starts this itself)
    #[arg(long, hide = true)]
    pub watchdog: bool,
}
