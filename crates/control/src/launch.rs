//! Starting the daemon on demand: as the unit of the system where there is one, else detached from whoever needs it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tailbound_linux::host_managers::DAEMON_UNIT;
use tailbound_time::Duration;

use crate::service_unit;

/// Names the program to start as daemon, before all other places.
pub const PROGRAM_VARIABLE: &str = "TAILBOUND_TAILBOUNDD";
/// The name of the program.
const PROGRAM: &str = "tailboundd";

/// How a daemon is started on demand.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The program; `None` looks for it: `TAILBOUND_TAILBOUNDD`, the unit of the system, beside the running program,
    /// PATH.
    pub program: Option<PathBuf>,
    /// The daemon ends after so long without reservations and connections.
    pub idle_time: Duration,
    /// How long it may take until it answers.
    pub start_within: Duration,
}

impl Default for StartOptions {
    fn default() -> Self {
        Self {
            program: None,
            idle_time: Duration::from_secs(5),
            start_within: Duration::from_secs(20),
        }
    }
}

/// Why no daemon was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program is nowhere.
    #[error(
        "cannot find tailboundd beside this program or in PATH; install it, or set {PROGRAM_VARIABLE} to its path"
    )]
    NotFound,
    /// It cannot be run.
    #[error("cannot run {}: {source}", .program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its unit does not start.
    #[error(
        "{} does not start: {source}; `journalctl --unit {}` tells more",
        DAEMON_UNIT,
        DAEMON_UNIT
    )]
    Unit {
        /// The words of systemd.
        source: io::Error,
    },
    /// It ran and gave up.
    #[error("{} did not start: {reason}", .program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// What it said.
        reason: String,
    },
}

/// Starts a daemon for `state_directory`, and returns once it answers, or another one does.
///
/// # Errors
/// If the program is nowhere, or does not start.
pub fn start(state_directory: &Path, options: &StartOptions) -> Result<(), LaunchError> {
    let is_named = options.program.is_some() || std::env::var_os(PROGRAM_VARIABLE).is_some();
    if !is_named && service_unit::serves(state_directory) {
        return service_unit::start().map_err(|source| LaunchError::Unit { source });
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => find_program().ok_or(LaunchError::NotFound)?,
    };
    // Returns as soon as the daemon, its child, is ready; so there is no child of ours left over.
    let output = Command::new(&program)
        .arg("--detach")
        .arg("--state-dir")
        .arg(state_directory)
        .arg("--exit-when-idle")
        .arg("--idle-time")
        .arg(format!("{}ns", options.idle_time.as_nanos()))
        .arg("--start-within")
        .arg(format!("{}ns", options.start_within.as_nanos()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|source| LaunchError::NotRun {
            program: program.clone(),
            source,
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let reason = if said.is_empty() {
        output.status.to_string()
    } else {
        said
    };
    Err(LaunchError::Failed { program, reason })
}

/// The program of the daemon: `TAILBOUND_TAILBOUNDD`, beside the running program (or in the folder
/// above, where cargo puts programs under test), or in PATH.
pub fn find_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM_VARIABLE) {
        return Some(PathBuf::from(named));
    }
    let beside = std::env::current_exe().ok();
    let mut folders: Vec<PathBuf> = beside
        .iter()
        .flat_map(|program| program.ancestors().skip(1).take(2))
        .map(Path::to_owned)
        .collect();
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders
        .into_iter()
        .map(|folder| folder.join(PROGRAM))
        .find(|candidate| candidate.is_file())
}
