//! Whose turn it is to change something on the host, among all enforcers.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::try_lock_exclusively;
use tailbound_linux::process::{lock_holders, stopped_by};
use tailbound_time::{Clock, Duration};

use super::{failure, is_want_of_room};
use crate::error::EnforcementError;
use crate::registry::HostRegistry;

/// The mode of a file that nobody else may open.
const OWNER_ALONE: u32 = 0o600;

/// How long we wait for our turn to make or take back reservations, and to change one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const PATIENCE_FOR_A_CHANGE: Duration = Duration::from_secs(2);
/// How long whoever takes something back waits for enforcers of other directories.
const PATIENCE_TO_UNDO: Duration = Duration::from_secs(1);
/// How often we look whether it is our turn.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_micros(100);

/// Whoever holds this makes changes; other enforcers of the host wait, or of the directory where no
/// registry is in play.
pub(crate) struct Turn {
    _host: Option<File>,
    _directory: Option<File>,
}

impl Turn {
    /// Waits for our turn, for so long at most: first on the host, then in the directory.
    pub(crate) fn take(
        registry: Option<&HostRegistry>,
        directory: &Path,
        patience: Duration,
    ) -> Result<Self, EnforcementError> {
        let host = match registry {
            Some(registry) => {
                registry.prepare()?;
                let path = registry.lock_file();
                let lock = lock(&path, patience);
                Some(lock.map_err(|source| match is_want_of_room(&source) {
                    true => no_room(&path, source),
                    false => EnforcementError::HostBusy { path, source },
                })?)
            }
            None => None,
        };
        let path = directory.join("lock");
        let own = lock(&path, patience).map_err(|source| match is_want_of_room(&source) {
            true => no_room(&path, source),
            false => failure(&path, source),
        })?;
        Ok(Self {
            _host: host,
            _directory: Some(own),
        })
    }

    /// As [`Turn::take`], to take something back. That waits for enforcers of other directories only for a
    /// moment, since one of them may be stopped, and goes on where the directory can no longer be written
    /// to: a stopped domain must run again all the same.
    pub(crate) fn take_to_undo(
        registry: Option<&HostRegistry>,
        directory: &Path,
    ) -> Result<Self, EnforcementError> {
        let host = registry.and_then(|registry| {
            registry.prepare().ok()?;
            lock(&registry.lock_file(), PATIENCE_TO_UNDO).ok()
        });
        let path = directory.join("lock");
        let own = match open(&path).or_else(|_| File::open(&path)) {
            Ok(file) => {
                wait(&file, PATIENCE).map_err(|error| failure(&path, error))?;
                Some(file)
            }
            Err(_) => None,
        };
        Ok(Self {
            _host: host,
            _directory: own,
        })
    }
}

fn no_room(path: &Path, source: io::Error) -> EnforcementError {
    EnforcementError::NoRoom {
        directory: path.parent().unwrap_or(path).into(),
        bytes: 0,
        source,
    }
}

/// Waits for the lock of a file that only its owner may open, for so long at most.
fn lock(path: &Path, patience: Duration) -> io::Result<File> {
    let file = open(path)?;
    wait(&file, patience)?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<File> {
    let open = || {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = options.mode(OWNER_ALONE).open(path)?;
        // Who may open it, if only to read, may lock it, and keep everybody waiting.
        if file.metadata()?.mode() & 0o7777 != OWNER_ALONE {
            file.set_permissions(Permissions::from_mode(OWNER_ALONE))?;
        }
        Ok::<File, io::Error>(file)
    };
    match (open(), path.parent()) {
        (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            open()
        }
        (outcome, _) => outcome,
    }
}

fn wait(file: &File, patience: Duration) -> io::Result<()> {
    let give_up = Monotonic.now().saturating_add(patience);
    while !try_lock_exclusively(file)? {
        if Monotonic.now() > give_up {
            let held = format!("{} has held it for {patience}", holder(file));
            return Err(io::Error::new(io::ErrorKind::TimedOut, held));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Names who has the lock.
fn holder(file: &File) -> String {
    match lock_holders(file).as_deref() {
        Ok([pid, ..]) => match stopped_by(*pid) {
            Ok(Some(_)) => format!("process {pid}, which is stopped,"),
            _ => format!("process {pid}"),
        },
        _ => "another process".to_owned(),
    }
}
