//! `tailboundd`: owns what is enforced on this host.

use std::process::{Command, ExitCode};

use clap::Parser;
use tailbound_control::daemon_arguments::DaemonArguments;
use tailbound_control::state_directory::StateDirectory;
use tailbound_daemon::daemon::{self, ALREADY_RUNNING_STATUS, DaemonError, DaemonOptions};
use tailbound_daemon::{detachment, watchdog};
use tailbound_subsystem::log;
use tracing::error;

fn main() -> ExitCode {
    let arguments = DaemonArguments::parse();
    log::begin();
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

fn state_directory(arguments: &DaemonArguments) -> StateDirectory {
    let path = arguments.state_dir.clone();
    StateDirectory::new(path.unwrap_or_else(tailbound_enforcement::state_directory))
}

fn serve(arguments: &DaemonArguments) -> Result<(), ExitCode> {
    let options = DaemonOptions {
        state_directory: state_directory(arguments),
        exit_when_idle: arguments.exit_when_idle.then_some(arguments.idle_time),
    };
    daemon::run(&options).map_err(|error| match error {
        DaemonError::AlreadyRunning(_) => {
            error!("{error}");
            ExitCode::from(ALREADY_RUNNING_STATUS)
        }
        other => failed(&other),
    })
}

fn detach(arguments: &DaemonArguments) -> Result<(), ExitCode> {
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

fn failed(failure: &dyn std::fmt::Display) -> ExitCode {
    error!("{failure}");
    ExitCode::FAILURE
}
