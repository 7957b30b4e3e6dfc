//! Starting the daemon on demand, detached from whoever needs it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time;

use tailbound_linux::control_socket::{begin_session, wait_readable};
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::set_affinity;
use tailbound_time::Duration;

use crate::connection::{remaining, std_duration};
use crate::daemon::{ALREADY_RUNNING_STATUS, READY_LINE};
use crate::state_directory::StateDirectory;

/// Names the program to start as daemon, before all other places.
pub const PROGRAM_VARIABLE: &str = "TAILBOUND_TAILBOUNDD";
/// The name of the program.
const PROGRAM: &str = "tailboundd";
/// How much of the end of the log an error quotes, in bytes.
const QUOTED_BYTES: usize = 2048;

/// How a daemon is started on demand.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The program; `None` looks for it: `TAILBOUND_TAILBOUNDD`, beside the running program, PATH.
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

/// Why a detached daemon is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DetachError(String);

/// Runs `command`, a daemon, in a session of its own with its standard error in the log, and
/// returns once it is ready, or there is another one.
///
/// # Errors
/// What it said when it gave up, or that it is not ready within `limit`.
pub fn detach(
    mut command: Command,
    directory: &StateDirectory,
    limit: Duration,
) -> Result<(), DetachError> {
    directory
        .prepare()
        .map_err(|error| DetachError(error.to_string()))?;
    let log = directory
        .open_log()
        .map_err(|error| DetachError(error.to_string()))?;
    let log_before = log.metadata().map_or(0, |found| found.len());
    leave_the_caller();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log))
        .spawn()
        .map_err(|error| DetachError(format!("cannot run tailboundd: {error}")))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(DetachError("its standard output is no pipe".to_owned()));
    };
    let deadline = time::Instant::now() + std_duration(limit);
    while let Some(left) = remaining(deadline) {
        let left = Duration::from_nanos(left.as_nanos() as u64);
        let ready = wait_readable(&[stdout.as_fd()], Some(left))
            .map_err(|error| DetachError(error.to_string()))?;
        if !ready.iter().any(|one| one.readable || one.closed) {
            continue;
        }
        let mut line = String::new();
        // Nothing is read if it ended.
        let _ = BufReader::new(stdout).read_line(&mut line);
        if line.trim_end() == READY_LINE {
            return Ok(());
        }
        let status = child
            .wait()
            .map_err(|error| DetachError(error.to_string()))?;
        if status.code() == Some(ALREADY_RUNNING_STATUS.into()) {
            return Ok(());
        }
        let said = end_of_log(&directory.log(), log_before);
        return Err(DetachError(format!("{status}: {said}")));
    }
    // It may be waiting for the lock; whoever needs it then finds it later, or it gives up.
    Err(DetachError(format!(
        "it is not ready after {limit}; see {}",
        directory.log().display()
    )))
}

/// Signals to the caller's terminal or group, and the CPUs that it keeps to, are not for the
/// daemon.
fn leave_the_caller() {
    // It fails if we lead a group, as when started from a shell by hand; the daemon then stays in
    // our session, which does no harm.
    let _ = begin_session();
    // The kernel leaves out the CPUs that do not exist or that the cpuset excludes.
    let _ = set_affinity(own_thread(), &(0..1024).collect());
}

fn end_of_log(path: &Path, from: u64) -> String {
    let text = fs::File::open(path).and_then(|mut file| {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    });
    let text = text.unwrap_or_default();
    let begin = usize::try_from(from).unwrap_or(0);
    let added = text.get(begin..).unwrap_or(&text);
    let tail = added.get(added.len().saturating_sub(QUOTED_BYTES)..);
    String::from_utf8_lossy(tail.unwrap_or_default())
        .trim()
        .to_owned()
}
