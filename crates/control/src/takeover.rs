//! Taking back what a daemon holds that is stopped together with its watchdog.

use std::fs::File;
use std::io;
use std::path::Path;

use tailbound_linux::control_socket::ProcessHandle;
use tailbound_linux::process::{has_open, processes_with_open, stopped_by};
use tailbound_time::Duration;

use crate::state_directory::StateDirectory;

/// How long a killed process may take to end.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// Why the processes of a state directory were not ended.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// One of them goes on, so that it takes everything back itself, or still holds it rightly.
    #[error("process {0} serves the state directory and is not stopped; ask it")]
    AtWork(u32),
    /// The kernel lets us neither look at them nor end them.
    #[error("process {pid} cannot be ended: {source}; run the command as root (sudo)")]
    NotEnded {
        /// Which.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// It was killed, and is still there.
    #[error("process {pid} has not ended {ENDED_WITHIN} after SIGKILL: it waits in the kernel")]
    Lingers {
        /// Which.
        pid: u32,
    },
}

/// Ends the daemon and the watchdog of a state directory if both, or whichever is left, are stopped; tells
/// their processes. A process belongs to the directory if it has the lock of the directory open, which only
/// the daemon's user can have; it is looked at and killed by a handle, so no other process that has got its
/// number is.
///
/// # Errors
/// If one of them is not stopped, or cannot be ended. Nothing is killed unless all are stopped.
pub fn end_stopped(state_directory: &Path) -> Result<Vec<u32>, TakeoverError> {
    let Ok(lock) = File::open(StateDirectory::new(state_directory).lock_path()) else {
        // Nobody has ever served it, or it is not ours to look at.
        return Ok(Vec::new());
    };
    let mut stopped = Vec::new();
    for pid in processes_with_open(&lock).unwrap_or_default() {
        if pid == std::process::id() {
            continue;
        }
        let Ok(handle) = ProcessHandle::open(pid) else {
            continue;
        };
        // Of the process that the handle is of, and not of one that had its number before.
        if !has_open(pid, &lock).unwrap_or(false) {
            continue;
        }
        if !matches!(stopped_by(pid), Ok(Some(_))) {
            return Err(TakeoverError::AtWork(pid));
        }
        stopped.push((pid, handle));
    }
    for (pid, handle) in &stopped {
        match handle.kill() {
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(TakeoverError::NotEnded { pid: *pid, source });
            }
            // It has ended by itself.
            _ => {}
        }
    }
    for (pid, handle) in &stopped {
        if !handle.wait_ended(ENDED_WITHIN).unwrap_or(false) {
            return Err(TakeoverError::Lingers { pid: *pid });
        }
    }
    Ok(stopped.into_iter().map(|(pid, _)| pid).collect())
}
