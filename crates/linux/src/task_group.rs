//! A cgroup whose processes are stopped and continued together by the v2 freezer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tailbound_time::{Clock, Duration};

use crate::cgroup;
use crate::clock::Monotonic;
use crate::system_call::ppoll;

/// A cgroup with its freezer, opened beforehand: switching it opens no file.
#[derive(Debug)]
pub struct TaskGroup {
    directory: PathBuf,
    freeze: File,
    events: File,
}

impl TaskGroup {
    /// The cgroup in `directory`.
    ///
    /// # Errors
    /// `NotFound` where there is no cgroup v2 with a freezer, `InvalidInput` where this process is
    /// in it or below it and would freeze itself; else what the kernel says.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        if holds_this_process(&directory)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this process is in it, and would freeze itself",
            ));
        }
        let freeze = OpenOptions::new()
            .read(true)
            .write(true)
            .open(directory.join("cgroup.freeze"))?;
        let events = File::open(directory.join("cgroup.events"))?;
        Ok(Self {
            directory,
            freeze,
            events,
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is to be frozen by its own switch, whatever those above it say.
    ///
    /// # Errors
    /// `NotFound` if it was removed; else what the kernel says.
    pub fn is_switched_off(&self) -> io::Result<bool> {
        let mut text = [0; 8];
        let bytes = self.freeze.read_at(&mut text, 0).map_err(gone)?;
        Ok(text.get(..bytes).is_some_and(|text| text.starts_with(b"1")))
    }

    /// Freezes or thaws it. Freezing has taken effect when [`TaskGroup::wait_frozen`] says so; a
    /// group below a frozen one stays frozen after its own thaw.
    ///
    /// # Errors
    /// `NotFound` if it was removed; else what the kernel says.
    pub fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        let value = if frozen { b"1" } else { b"0" };
        match self.freeze.write_at(value, 0).map_err(gone)? {
            1 => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Waits until every process in it and below it is frozen; whether that was so within `limit`.
    ///
    /// # Errors
    /// `NotFound` if it was removed; else what the kernel says.
    pub fn wait_frozen(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Monotonic.now().saturating_add(limit);
        loop {
            let mut text = [0; 128];
            let bytes = self.events.read_at(&mut text, 0).map_err(gone)?;
            if says_frozen(text.get(..bytes).unwrap_or_default()) {
                return Ok(true);
            }
            let left = deadline.saturating_since(Monotonic.now());
            if left.is_zero() {
                return Ok(false);
            }
            self.wait_changed(left)?;
        }
    }

    /// Waits until the events file may read otherwise than last time (cgroup v2 documentation,
    /// "cgroup.events"), for `limit` at most.
    fn wait_changed(&self, limit: Duration) -> io::Result<()> {
        let mut polled = libc::pollfd {
            fd: self.events.as_raw_fd(),
            events: libc::POLLPRI,
            revents: 0,
        };
        match ppoll(std::slice::from_mut(&mut polled), Some(limit)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

fn says_frozen(events: &[u8]) -> bool {
    events
        .split(|&byte| byte == b'\n')
        .any(|line| line == b"frozen 1")
}

fn holds_this_process(directory: &Path) -> io::Result<bool> {
    let unified = cgroup::hierarchies()?
        .into_iter()
        .find(|hierarchy| hierarchy.unified && hierarchy.holds(directory));
    match unified {
        Some(hierarchy) => {
            let own = hierarchy.cgroup_of(std::process::id())?;
            Ok(own.starts_with(directory))
        }
        None => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "it is in no cgroup v2 hierarchy that is mounted here",
        )),
    }
}

/// A cgroup that was removed while its files were open.
fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, "the cgroup was removed"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn only_the_line_of_the_freezer_counts() {
        assert!(says_frozen(b"populated 1\nfrozen 1\n"));
        assert!(says_frozen(b"frozen 1"));
        assert!(!says_frozen(b"populated 1\nfrozen 0\n"));
        assert!(!says_frozen(b"frozen 11\n"));
        assert!(!says_frozen(b""));
    }

    #[test]
    fn what_is_no_cgroup_is_refused() {
        let kind = |path: &str| TaskGroup::open(Path::new(path)).unwrap_err().kind();
        assert_eq!(kind("/nowhere/at/all"), io::ErrorKind::NotFound);
        assert_eq!(kind("/proc"), io::ErrorKind::NotFound);
    }

    #[test]
    fn nobody_freezes_himself() {
        let unified = cgroup::hierarchies()
            .unwrap()
            .into_iter()
            .find(|h| h.unified);
        let Some(own) = unified.and_then(|h| h.cgroup_of(std::process::id()).ok()) else {
            eprintln!("SKIP nobody_freezes_himself: needs a cgroup v2 hierarchy");
            return;
        };
        let refused = TaskGroup::open(&own).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
