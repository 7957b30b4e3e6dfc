//! A daemon that leaves whoever started it: a session of its own, its log in the state directory.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time;

use tailbound_control::deadline::{remaining, std_duration};
use tailbound_control::state_directory::StateDirectory;
use tailbound_linux::cgroup;
use tailbound_linux::control_socket::{begin_session, wait_readable};
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::set_affinity;
use tailbound_time::Duration;

use crate::daemon::{ALREADY_RUNNING_STATUS, READY_LINE};
use crate::service_manager;

/// How much of the end of the log an error quotes, in bytes.
const QUOTED_BYTES: usize = 2048;

/// Why a detached daemon is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DetachError(String);

impl DetachError {
    fn of(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

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
    directory.prepare().map_err(DetachError::of)?;
    let log = directory.open_log().map_err(DetachError::of)?;
    let log_before = log.metadata().map_or(0, |metadata| metadata.len());
    leave_the_caller();
    service_manager::hide_from(&mut command);
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
        let ready = wait_readable(&[stdout.as_fd()], Some(left)).map_err(DetachError::of)?;
        if !ready.iter().any(|one| one.readable || one.closed) {
            continue;
        }
        let mut line = String::new();
        // Nothing is read if it ended.
        let _ = BufReader::new(stdout).read_line(&mut line);
        if line.trim_end() == READY_LINE {
            return Ok(());
        }
        let status = child.wait().map_err(DetachError::of)?;
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

/// Signals to the caller's terminal or group, the CPUs that it keeps to, and what is done to its
/// service or container as a whole (stopped, frozen, limited, killed) are not for the daemon.
fn leave_the_caller() {
    // It fails if we lead a group, as when started from a shell by hand; the daemon then stays in
    // our session, which does no harm.
    let _ = begin_session();
    // The kernel leaves out the CPUs that do not exist or that the cpuset excludes.
    let _ = set_affinity(own_thread(), &(0..1024).collect());
    move_to_root_cgroups();
}

/// Moves this process to the root of each cgroup hierarchy: what is done to a group (stopped, frozen, limited, killed)
/// reaches neither daemon nor watchdog, and on kernels with CONFIG_RT_GROUP_SCHED the groups below have no time for
/// real-time threads. A root is never removed, so that nothing has to be taken back.
pub fn move_to_root_cgroups() {
    // Without the privilege it stays where it is.
    for hierarchy in cgroup::hierarchies().unwrap_or_default() {
        let _ = cgroup::move_process(std::process::id(), &hierarchy.root);
    }
}

fn end_of_log(path: &Path, from: u64) -> String {
    let text = fs::read(path).unwrap_or_default();
    let begin = usize::try_from(from).unwrap_or(0);
    let added = text.get(begin..).unwrap_or(&text);
    let tail = added.get(added.len().saturating_sub(QUOTED_BYTES)..);
    String::from_utf8_lossy(tail.unwrap_or_default())
        .trim()
        .to_owned()
}
