//! The host's registry of journals: what is reserved on one host is admitted together, whatever
//! state directory it is from.
//!
//! The registry lies at a fixed place that depends neither on a state directory nor on the caller's
//! environment. Each enforcer enters its journal there before its first change, and has the
//! registry's lock while it makes changes: first that lock, then the one of its state directory.
//! Only root enters: a reservation takes real-time policies and cgroups of root's, and a lock that
//! another user could hold would let that user keep root waiting.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_linux::namespaces::{path_as_seen_by, processes_with_another};
use tailbound_linux::own_directory::{self, NotOwnDirectory};
use tailbound_linux::process::{effective_uid, is_in_user_namespace};

use crate::admission::Holding;
use crate::error::EnforcementError;
use crate::journal::{HeldDomain, JournalHistory, Owner, owner_lives};
use crate::kernel::KernelView;

/// Where the registry of a host lies.
const DIRECTORY: &str = "/run/tailbound-host";
/// The directory that all enforcers of a host must have in common.
const COMMON_DIRECTORY: &str = "/run";
/// The name of the daemon's process.
const DAEMON: &str = "tailboundd";
/// How the names of entries end.
const ENTRY: &str = "entry";
/// The longest entry that is read.
const ENTRY_BYTES_MAX: u64 = 16 * 1024;

/// One journal in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The process that the journal belongs to.
    pub owner: Owner,
    /// The journal's canonical path, as its owner sees it.
    pub journal: PathBuf,
}

impl RegistryEntry {
    /// Reads an entry; nothing if these bytes are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A reservation that stands by the journal of another enforcer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldElsewhere {
    /// The reservation.
    pub held: HeldDomain,
    /// Where it is from, in words, if that is another state directory.
    pub place: Option<String>,
}

impl HeldElsewhere {
    /// As admission counts it.
    pub(crate) fn holding(&self) -> Holding {
        let mut holding = self.held.holding();
        holding.standing.place.clone_from(&self.place);
        holding
    }
}

/// The registry of journals of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRegistry {
    directory: PathBuf,
    /// Whether it is that of the host that this process runs on.
    is_of_this_host: bool,
}

impl HostRegistry {
    /// The registry of the host that this process runs on.
    pub fn of_this_host() -> Self {
        Self {
            directory: DIRECTORY.into(),
            is_of_this_host: true,
        }
    }

    /// A registry at another place, for tests over another kernel.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            is_of_this_host: false,
        }
    }

    /// The lock that whoever makes changes has.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Makes the directory if it is not there, and makes sure that only root writes to it.
    ///
    /// # Errors
    /// If this is not a process of the host's root, or others could write to the directory.
    pub(crate) fn prepare(&self) -> Result<(), EnforcementError> {
        let uid = effective_uid();
        if self.is_of_this_host && uid != 0 {
            return Err(EnforcementError::NotRoot { uid });
        }
        if self.is_of_this_host && is_in_user_namespace().unwrap_or(false) {
            return Err(EnforcementError::NotRootOfHost);
        }
        own_directory::prepare(&self.directory).map_err(|error| match error {
            NotOwnDirectory::Unusable(error) => self.unusable(error),
            NotOwnDirectory::Unsafe { reason } => self.unusable(io::Error::other(reason)),
        })
    }

    /// Refuses where another daemon has another registry, so that neither counts what the other holds.
    ///
    /// # Errors
    /// Which processes those are.
    pub(crate) fn refuse_strangers(&self) -> Result<(), EnforcementError> {
        if !self.is_of_this_host {
            return Ok(());
        }
        let others = processes_with_another(Path::new(COMMON_DIRECTORY), DAEMON);
        match others.map_err(|error| self.unusable(error))?.first() {
            None => Ok(()),
            Some(&pid) => Err(EnforcementError::Stranger { pid }),
        }
    }

    /// Enters a journal, whose file need not be there yet; the caller has the lock.
    ///
    /// # Errors
    /// If the entry cannot be written; then nothing must be changed.
    pub(crate) fn enter(&self, owner: &Owner, journal: &Path) -> Result<(), EnforcementError> {
        let written = canonical(journal).and_then(|journal| {
            let path = self.entry_of(&journal);
            let owner = owner.clone();
            let text = serde_json::to_vec(&RegistryEntry { owner, journal })?;
            if fs::read(&path).is_ok_and(|content| content == text) {
                return Ok(());
            }
            // An entry counts once it has its name, so it is never half an entry.
            let unnamed = path.with_extension("new");
            let mut options = OpenOptions::new();
            options.create(true).truncate(true).write(true).mode(0o644);
            options.open(&unnamed)?.write_all(&text)?;
            fs::rename(&unnamed, &path)
        });
        written.map_err(|error| self.unusable(error))
    }

    /// Removes the entry of a journal that has ended; one that stays is removed by
    /// [`HostRegistry::clean`].
    pub(crate) fn leave(&self, journal: &Path) {
        if let Ok(journal) = canonical(journal) {
            // It may never have been entered.
            let _ = fs::remove_file(self.entry_of(&journal));
        }
    }

    /// Removes the entries of earlier boots, and those of dead processes whose journal is gone; the
    /// caller has the lock.
    pub(crate) fn clean(&self, kernel: &dyn KernelView) {
        for (path, entry) in self.entries() {
            let is_stale = entry.is_none_or(|entry| {
                !is_of_this_boot(&entry.owner, kernel)
                    || (!owner_lives(&entry.owner, kernel) && !entry.journal.exists())
            });
            if is_stale {
                // The next one tries again.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// What stands by journals in other state directories than `own`: what their owners hold, and
    /// what dead ones left and nobody has taken back yet.
    ///
    /// # Errors
    /// If a journal cannot be read, unless this is not root, who could not have it counted either.
    pub(crate) fn held_elsewhere(
        &self,
        own: &Path,
        kernel: &dyn KernelView,
    ) -> Result<Vec<HeldElsewhere>, EnforcementError> {
        let own = fs::canonicalize(own).unwrap_or_else(|_| own.into());
        let mut held = Vec::new();
        for (_, entry) in self.entries() {
            let Some(entry) = entry else { continue };
            // A daemon with a /tmp of its own may have a directory of the same name.
            let is_own = entry.journal.parent() == Some(&own) && entry.journal.exists();
            if is_own || !is_of_this_boot(&entry.owner, kernel) {
                continue;
            }
            let lives = owner_lives(&entry.owner, kernel);
            let bytes = match self.journal_of(&entry, lives) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) if effective_uid() != 0 => continue,
                Err(error) => return Err(crate::journal::failure(&entry.journal, error)),
            };
            let (history, _) = JournalHistory::read(&bytes);
            let place = place(&entry, lives);
            held.extend(history.domains.into_iter().map(|held| HeldElsewhere {
                held,
                place: Some(place.clone()),
            }));
        }
        Ok(held)
    }

    fn journal_of(&self, entry: &RegistryEntry, lives: bool) -> io::Result<Vec<u8>> {
        // A daemon may have a /tmp of its own.
        if lives && self.is_of_this_host {
            let path = path_as_seen_by(entry.owner.pid, &entry.journal);
            match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => return outcome,
            }
        }
        fs::read(&entry.journal)
    }

    /// The entries with their files; nothing for a file that is no entry.
    fn entries(&self) -> Vec<(PathBuf, Option<RegistryEntry>)> {
        let files = fs::read_dir(&self.directory).into_iter().flatten();
        let paths = files.flatten().map(|file| file.path());
        let entries = paths.filter(|path| path.extension().is_some_and(|end| end == ENTRY));
        let read = |path: PathBuf| {
            let mut bytes = Vec::new();
            let file = File::open(&path);
            let read = file.and_then(|file| {
                file.take(ENTRY_BYTES_MAX)
                    .read_to_end(&mut bytes)
                    .map(|_| ())
            });
            let entry = read.ok().and_then(|()| RegistryEntry::read(&bytes));
            (path, entry)
        };
        let mut entries: Vec<_> = entries.map(read).collect();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries
    }

    /// The names of journals differ in all directories: they name the process, when it started, and
    /// which of its enforcers it is.
    fn entry_of(&self, journal: &Path) -> PathBuf {
        let name = journal.file_stem().unwrap_or_default();
        let mut name = name.to_owned();
        name.push(".");
        name.push(ENTRY);
        self.directory.join(name)
    }

    fn unusable(&self, source: io::Error) -> EnforcementError {
        EnforcementError::Registry {
            path: self.directory.clone(),
            source,
        }
    }
}

/// Where an entry's reservations are from, and how they are taken back.
fn place(entry: &RegistryEntry, lives: bool) -> String {
    let directory = entry.journal.parent().unwrap_or(&entry.journal).display();
    let pid = entry.owner.pid;
    match lives {
        true => format!("of state directory {directory}, process {pid}"),
        false => format!(
            "of state directory {directory}, left by process {pid}, which has died: its watchdog \
             takes that back, or `TAILBOUND_STATE_DIR={directory} tailbound revert --all`"
        ),
    }
}

fn is_of_this_boot(owner: &Owner, kernel: &dyn KernelView) -> bool {
    kernel.boot().is_ok_and(|boot| boot == owner.boot)
}

/// The path of a journal without links; its directory is there.
fn canonical(journal: &Path) -> io::Result<PathBuf> {
    let name = journal.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = journal.parent().unwrap_or(Path::new("."));
    Ok(fs::canonicalize(directory)?.join(name))
}
