//! Whose turn it is to change something on the host, among enforcers over one directory.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::try_lock_exclusively;
use tailbound_linux::process::{lock_holders, stopped_by};
use tailbound_time::{Clock, Duration};

use super::{failure, is_want_of_room};
use crate::error::EnforcementError;

/// The mode of a file that nobody else may open.
const OWNER_ALONE: u32 = 0o600;

/// How long we wait for our turn to make or take back reservations, and to change one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const PATIENCE_FOR_A_CHANGE: Duration = Duration::from_secs(2);
/// How often we look whether it is our turn.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_micros(100);

/// Whoever holds this makes changes; other enforcers over the same directory wait.
pub(crate) struct Turn(#[allow(dead_code)] Option<File>);

impl Turn {
    /// Waits for our turn, for so long at most.
    pub(crate) fn take(directory: &Path, patience: Duration) -> Result<Self, EnforcementError> {
        let path = path_in(directory);
        let failed = |error: io::Error| match is_want_of_room(&error) {
            true => EnforcementError::NoRoom {
                directory: directory.into(),
                bytes: 0,
                source: error,
            },
            false => failure(&path, error),
        };
        let file = open(directory, &path).map_err(failed)?;
        wait(&path, &file, patience)?;
        Ok(Self(Some(file)))
    }

    /// As [`Turn::take`], to take something back: that goes on where the directory can no longer be written
    /// to, without a turn if there is no other way.
    pub(crate) fn take_to_undo(directory: &Path) -> Result<Self, EnforcementError> {
        let path = path_in(directory);
        match open(directory, &path).or_else(|_| File::open(&path)) {
            Ok(file) => {
                wait(&path, &file, PATIENCE)?;
                Ok(Self(Some(file)))
            }
            Err(_) => Ok(Self(None)),
        }
    }
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join("lock")
}

fn open(directory: &Path, path: &Path) -> io::Result<File> {
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
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            open()
        }
        outcome => outcome,
    }
}

fn wait(path: &Path, file: &File, patience: Duration) -> Result<(), EnforcementError> {
    let give_up = Monotonic.now().saturating_add(patience);
    while !try_lock_exclusively(file).map_err(|error| failure(path, error))? {
        if Monotonic.now() > give_up {
            let held = format!("{} has held it for {patience}", holder(file));
            return Err(failure(path, io::Error::new(io::ErrorKind::TimedOut, held)));
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
