//! The daemon's directory: its socket, its lock, its log, and the journals of the enforcer.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tailbound_linux::control_socket::try_lock_exclusively;
use tailbound_linux::own_directory::{self, NotOwnDirectory};
use tailbound_linux::process::effective_uid;

/// The longest path that the address of a Unix socket takes, in bytes (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirectoryError {
    /// It cannot be made or looked at.
    #[error("the state directory {}: {source}; run as root, or set TAILBOUND_STATE_DIR to a directory of your own", .path.display())]
    Unusable {
        /// The directory, or the file in it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file system is full.
    #[error("the state directory {}: {source}; free 4 kB there, or set TAILBOUND_STATE_DIR to a directory that has room", .path.display())]
    Full {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Somebody else could plant a socket or a journal in it.
    #[error("the state directory {} is unsafe: {reason}; it must be a directory of the daemon's user (uid {uid}) that nobody else can write to", .path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The daemon's user.
        uid: u32,
    },
    /// The path of the socket would be cut.
    #[error("the state directory {} has too long a path for a Unix socket in it; at most {} bytes", .path.display(), SOCKET_PATH_BYTES_MAX - "/control.sock".len())]
    PathTooLong {
        /// The directory.
        path: PathBuf,
    },
}

/// The daemon's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDirectory {
    path: PathBuf,
}

impl StateDirectory {
    /// The directory at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Makes the directory if it is not there, and makes sure that nobody else can write to it.
    ///
    /// # Errors
    /// If it cannot be made, or others could write to it.
    pub fn prepare(&self) -> Result<(), StateDirectoryError> {
        if self.socket().as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(StateDirectoryError::PathTooLong {
                path: self.path.clone(),
            });
        }
        own_directory::prepare(&self.path).map_err(|error| match error {
            NotOwnDirectory::Unusable(source) => self.unusable(&self.path, source),
            NotOwnDirectory::Unsafe { reason } => StateDirectoryError::Unsafe {
                path: self.path.clone(),
                reason,
                uid: effective_uid(),
            },
        })
    }

    /// The directory itself, where the journals lie.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// The file whose lock the daemon and its watchdog hold.
    pub fn lock_path(&self) -> PathBuf {
        self.path.join("tailboundd.lock")
    }

    /// What the daemon wrote to its standard error, if it was started on demand.
    pub fn log(&self) -> PathBuf {
        self.path.join("tailboundd.log")
    }

    /// Opens the log to append to; it is begun anew once it is longer than a mebibyte.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_log(&self) -> Result<File, StateDirectoryError> {
        let path = self.log();
        let unusable = |source| self.unusable(&path, source);
        let full = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 1024 * 1024);
        let mut options = OpenOptions::new();
        let options = options.create(true).append(true).mode(0o600);
        let file = options.open(&path).map_err(unusable)?;
        if full {
            file.set_len(0).map_err(unusable)?;
        }
        // It names processes and files of whoever uses the daemon; one of an earlier release is open.
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(unusable)?;
        Ok(file)
    }

    /// Takes the lock of the one daemon in this directory; `None` if a daemon or its watchdog
    /// holds it. The watchdog gets a copy, so that no new daemon starts before what the old one
    /// left is taken back.
    ///
    /// # Errors
    /// If the lock file cannot be opened or locked.
    pub fn try_lock(&self) -> Result<Option<File>, StateDirectoryError> {
        let path = self.lock_path();
        let unusable = |source| self.unusable(&path, source);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(unusable)?;
        // Who may open it, if only to read, may lock it.
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(unusable)?;
        let taken = try_lock_exclusively(&file).map_err(unusable)?;
        Ok(taken.then_some(file))
    }

    /// Lets every user connect to the socket; who may do what is decided by the peer's credentials.
    ///
    /// # Errors
    /// If the mode of the socket cannot be set.
    pub fn open_socket_to_everyone(&self) -> Result<(), StateDirectoryError> {
        let path = self.socket();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
            .map_err(|source| self.unusable(&path, source))
    }

    fn unusable(&self, path: &Path, source: io::Error) -> StateDirectoryError {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let path = path.to_owned();
        match source.kind() {
            StorageFull | QuotaExceeded => StateDirectoryError::Full { path, source },
            _ => StateDirectoryError::Unusable { path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let open = StateDirectory::new(base.path().join("open"));
        open.prepare().unwrap();
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = open.prepare().unwrap_err().to_string();
        assert!(error.contains("its mode is 777"), "{error}");
    }

    #[test]
    fn nobody_else_reads_the_log() {
        let base = tempfile::tempdir().unwrap();
        let directory = StateDirectory::new(base.path());
        fs::write(directory.log(), "of an earlier release").unwrap();
        fs::set_permissions(directory.log(), fs::Permissions::from_mode(0o644)).unwrap();
        for length in [0, 2_000_000] {
            fs::write(directory.log(), vec![b'x'; length]).unwrap();
            let mode = directory.open_log().unwrap().metadata().unwrap().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::remove_file(directory.log()).unwrap();
            let mode = directory.open_log().unwrap().metadata().unwrap().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_symbolic_link_in_its_place_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        symlink(base.path(), &link).unwrap();
        assert!(matches!(
            StateDirectory::new(link).prepare(),
            Err(StateDirectoryError::Unsafe { .. })
        ));
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_before_anything_is_made() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(100));
        assert!(matches!(
            StateDirectory::new(&long).prepare(),
            Err(StateDirectoryError::PathTooLong { .. })
        ));
        assert!(!long.exists());
    }

    #[test]
    fn only_one_holds_the_lock() {
        let base = tempfile::tempdir().unwrap();
        let directory = StateDirectory::new(base.path());
        let first = directory.try_lock().unwrap();
        assert!(first.is_some());
        assert!(directory.try_lock().unwrap().is_none());
        drop(first);
        assert!(directory.try_lock().unwrap().is_some());
    }
}
