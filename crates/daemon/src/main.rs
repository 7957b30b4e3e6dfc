//! `tailboundd`: owns what is enforced on this host.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use tailbound_control::state_directory::StateDirectory;
use tailbound_daemon::daemon::{self, ALREADY_RUNNING_STATUS, DaemonError, DaemonOptions};
use tailbound_daemon::{detachment, watchdog};
use tailbound_subsystem::log::note;
use tailbound_time::Duration;

/// Owns the CPU reservations of this host: makes them, keeps them, takes them back.
///
/// Whatever happens to it, nothing stays reserved that nobody holds: SIGTERM and SIGINT take
/// everything back, and a watchdog process does so if it is killed.
#[derive(Debug, Parser)]
#[command(name = "tailboundd", version)]
struct Arguments {
    /// Where the control socket, the lock and the journals lie [default: /run/tailbound for root]
    #[arg(long, value_name = "DIRECTORY", env = "TAILBOUND_STATE_DIR")]
    state_dir: Option<PathBuf>,

    /// End once there are neither reservations nor connections
    #[arg(long)]
    exit_when_idle: bool,

    /// How long to wait for that
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    idle_time: Duration,

    /// Go on in the background; return once the daemon is ready
    #[arg(long)]
    detach: bool,

    /// How long it may take to be ready, with --detach
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    start_within: Duration,

    /// Watch the daemon at the other end of standard input (tailboundd starts this itself)
    #[arg(long, hide = true)]
    watchdog: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.watchdog {
        watchdog::run().map_err(|error| failed(&error))
    } else if arguments.detach {
        detach(&arguments)
    } else {
        serve(&arguments)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => status,
    }
}

fn state_directory(arguments: &Arguments) -> StateDirectory {
    let path = arguments.state_dir.clone();
    StateDirectory::new(path.unwrap_or_else(tailbound_enforcement::state_directory))
}

fn serve(arguments: &Arguments) -> Result<(), ExitCode> {
    let options = DaemonOptions {
        state_directory: state_directory(arguments),
        exit_when_idle: arguments.exit_when_idle.then_some(arguments.idle_time),
    };
    daemon::run(&options).map_err(|error| match error {
        DaemonError::AlreadyRunning(_) => {
            note(&error);
            ExitCode::from(ALREADY_RUNNING_STATUS)
        }
        other => failed(&other),
    })
}

fn detach(arguments: &Arguments) -> Result<(), ExitCode> {
    let directory = state_directory(arguments);
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.arg("--state-dir").arg(directory.path());
    if arguments.exit_when_idle {
        let idle_time = format!("{}ns", arguments.idle_time.as_nanos());
        command.args(["--exit-when-idle", "--idle-time", &idle_time]);
    }
    detachment::detach(command, &directory, arguments.start_within).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    note(error);
    ExitCode::FAILURE
}
