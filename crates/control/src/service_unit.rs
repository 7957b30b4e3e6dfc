//! The unit of the daemon, where systemd manages the services of this host and the unit is installed: who needs the
//! daemon there has systemd start it, which logs, supervises and restarts it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use tailbound_enforcement::SYSTEM_STATE_DIRECTORY;
use tailbound_linux::host_managers::{DAEMON_UNIT, has_daemon_unit, runs_systemd};
use tailbound_linux::process::effective_uid;

/// Whether the daemon of `state_directory` is the unit's. A user's own daemon is not, nor is one in a directory that
/// somebody has chosen.
pub(crate) fn serves(state_directory: &Path) -> bool {
    state_directory == Path::new(SYSTEM_STATE_DIRECTORY)
        && effective_uid() == 0
        && runs_systemd(Path::new("/"))
        && has_daemon_unit(Path::new("/"))
}

/// Starts the unit, and returns once the daemon answers.
///
/// # Errors
/// The words of `systemctl`, or that there is none.
pub(crate) fn start() -> io::Result<()> {
    let output = Command::new("systemctl")
        .args(["--no-ask-password", "start", DAEMON_UNIT])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = match reason.trim() {
        "" => output.status.to_string(),
        reason => reason.to_owned(),
    };
    Err(io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_daemon_in_a_directory_of_its_own_is_none_of_the_unit() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!serves(directory.path()));
    }
}
