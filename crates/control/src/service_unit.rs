//! The unit of the daemon, where systemd manages the services of this host and the unit is installed: who needs the
//! daemon there has systemd start it, which logs, supervises and restarts it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use tailbound_enforcement::SYSTEM_STATE_DIRECTORY;
use tailbound_linux::process::effective_uid;

/// The name of the unit.
pub(crate) const UNIT: &str = "tailboundd.service";

/// The directories from which systemd takes units of the system (systemd.unit(5)).
const UNIT_DIRECTORIES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Whether the daemon of `state_directory` is the unit's. A user's own daemon is not, nor is one in a directory that
/// somebody has chosen.
pub(crate) fn serves(state_directory: &Path) -> bool {
    state_directory == Path::new(SYSTEM_STATE_DIRECTORY)
        && effective_uid() == 0
        && is_installed(Path::new("/"))
}

/// Whether systemd runs below `root` and has the unit; one that is masked is there, too.
fn is_installed(root: &Path) -> bool {
    // By this directory sd_booted(3) tells it.
    let is_booted = root.join("run/systemd/system").is_dir();
    let mut directories = UNIT_DIRECTORIES.iter();
    is_booted && directories.any(|one| root.join(one).join(UNIT).symlink_metadata().is_ok())
}

/// Starts the unit, and returns once the daemon answers.
///
/// # Errors
/// What `systemctl` says, or that there is none.
pub(crate) fn start() -> io::Result<()> {
    let output = Command::new("systemctl")
        .args(["--no-ask-password", "start", UNIT])
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

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A host with these directories and empty files.
    fn host(directories: &[&str], files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in directories {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        root
    }

    #[test]
    fn the_unit_is_there_in_each_directory_where_systemd_runs() {
        for directory in UNIT_DIRECTORIES {
            let unit = format!("{directory}/{UNIT}");
            let booted = host(&["run/systemd/system"], &[&unit]);
            assert!(is_installed(booted.path()), "{directory}");
            assert!(!is_installed(host(&["run/systemd/system"], &[]).path()));
        }
        let unit = "usr/lib/systemd/system/tailboundd.service";
        assert!(
            !is_installed(host(&[], &[unit]).path()),
            "a chroot has no systemd"
        );
    }

    #[test]
    fn a_masked_unit_is_there() {
        let root = host(&["run/systemd/system", "etc/systemd/system"], &[]);
        symlink(
            "/dev/null",
            root.path().join("etc/systemd/system").join(UNIT),
        )
        .unwrap();
        assert!(is_installed(root.path()));
    }

    #[test]
    fn a_daemon_in_a_directory_of_its_own_is_none_of_the_unit() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!serves(directory.path()));
    }
}
