//! The journal: what is changed and what it replaces, in a file before it happens.

mod record;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use record::{Entry, HeldDomain, History, JOURNAL_VERSION, Owner, Previous, Record};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::try_lock_exclusively;
use tailbound_time::{Clock, Duration};

use crate::error::EnforcementError;
use crate::kernel::KernelView;
use crate::registry::HostRegistry;

/// The variable that overrides where journals lie.
pub const STATE_DIRECTORY_VARIABLE: &str = "TAILBOUND_STATE_DIR";

/// The mode of a file that nobody else may open.
const OWNER_ALONE: u32 = 0o600;

/// How long we wait for our turn to make or take back reservations, and to change one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const PATIENCE_FOR_A_CHANGE: Duration = Duration::from_secs(2);
/// How long whoever takes something back waits for enforcers of other directories.
const PATIENCE_TO_RESTORE: Duration = Duration::from_secs(1);
/// How often we look whether it is our turn.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_micros(100);

/// Tells the journals of one process apart.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Where journals lie: `TAILBOUND_STATE_DIR`, or `/run/tailbound` for root, or
/// `$XDG_RUNTIME_DIR/tailbound`, or `/tmp/tailbound-UID`.
pub fn state_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(STATE_DIRECTORY_VARIABLE) {
        return PathBuf::from(directory);
    }
    let uid = tailbound_linux::process::effective_uid();
    if uid == 0 {
        return PathBuf::from("/run/tailbound");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) => PathBuf::from(runtime).join("tailbound"),
        None => std::env::temp_dir().join(format!("tailbound-{uid}")),
    }
}

/// The error of a failure at `path`.
pub(crate) fn failure(path: &Path, source: io::Error) -> EnforcementError {
    EnforcementError::Journal {
        path: path.into(),
        source,
    }
}

/// The journal of one enforcer. Its file is made with the first line and removed by
/// [`Journal::finish`].
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    path: PathBuf,
    file: Option<File>,
    owner: Owner,
    history: History,
    next_sequence: u64,
    /// Lines that are to be written with the next one.
    later: Vec<u8>,
}

impl Journal {
    /// A journal in `directory` that belongs to the process of `kernel`. Nothing is written yet.
    ///
    /// # Errors
    /// If our own process cannot be identified.
    pub fn new(directory: &Path, kernel: &dyn KernelView) -> Result<Self, EnforcementError> {
        let pid = kernel.own_process();
        let owner = Owner {
            version: JOURNAL_VERSION,
            pid,
            started: kernel
                .process_started(pid)
                .map_err(|e| failure(directory, e))?,
            boot: kernel.boot().map_err(|e| failure(directory, e))?,
        };
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            directory: directory.into(),
            path: directory.join(format!("{pid}-{}-{number}.journal", owner.started)),
            file: None,
            owner,
            history: History::default(),
            next_sequence: 0,
            later: Vec::new(),
        })
    }

    /// Takes over a journal found on disk, to end it.
    pub(crate) fn adopt(path: &Path, history: History, owner: Owner) -> Self {
        let entries = history.domains.iter().flat_map(|held| &held.entries);
        let next_sequence = entries.map(|entry| entry.sequence).max().unwrap_or(0);
        Self {
            directory: path.parent().unwrap_or(Path::new(".")).into(),
            path: path.into(),
            file: None,
            owner,
            next_sequence,
            history,
            later: Vec::new(),
        }
    }

    /// What stands.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that it belongs to.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The latest change's number.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The next change's number.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    /// Appends a line. When this returns it outlives this process, though not a crash of the kernel;
    /// nothing that we change outlives that either.
    ///
    /// # Errors
    /// If it cannot be written; then what it announces must not happen.
    pub fn append(&mut self, record: Record) -> Result<(), EnforcementError> {
        let before = self.later.len();
        self.put(&record)?;
        let written = self.write_later();
        self.later.truncate(before);
        written?;
        self.history.add(record);
        Ok(())
    }

    /// As [`Journal::append`], but for a change that only other enforcers have to know of, and not before
    /// our turn ends: it is written with the next line, or by [`Journal::write_later`].
    ///
    /// # Errors
    /// If there are no words for it.
    pub fn append_later(&mut self, record: Record) -> Result<(), EnforcementError> {
        self.put(&record)?;
        self.history.add(record);
        Ok(())
    }

    /// Writes what was left for later.
    ///
    /// # Errors
    /// If it cannot be written; it is kept.
    pub fn write_later(&mut self) -> Result<(), EnforcementError> {
        if self.later.is_empty() {
            return Ok(());
        }
        let mut lines = std::mem::take(&mut self.later);
        let written = self.write(&lines);
        if written.is_ok() {
            lines.clear();
        }
        self.later = lines;
        written.map_err(|error| failure(&self.path, error))
    }

    fn put(&mut self, record: &Record) -> Result<(), EnforcementError> {
        let line = serde_json::to_vec(record).map_err(|e| failure(&self.path, e.into()))?;
        self.later.extend_from_slice(&line);
        self.later.push(b'\n');
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let start = file.metadata()?.len();
        let outcome = file.write_all(line);
        if outcome.is_err() {
            // Half a line would swallow the next one.
            let _best_effort = file.set_len(start);
        }
        self.file = Some(file);
        outcome
    }

    fn open(&self) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)?;
        let old = fs::read(&self.path)?;
        if old.is_empty() {
            let mut line = serde_json::to_vec(&Record::Owner(self.owner.clone()))?;
            line.push(b'\n');
            file.write_all(&line)?;
        } else if !old.ends_with(b"\n") {
            // A line that was cut off announces what did not happen.
            let end = old.iter().rposition(|&byte| byte == b'\n');
            file.set_len(end.map_or(0, |at| at as u64 + 1))?;
        }
        Ok(file)
    }

    /// Removes the file if nothing stands.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn finish(&mut self) -> Result<(), EnforcementError> {
        if !self.history.domains.is_empty() {
            return Ok(());
        }
        self.file = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure(&self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Whoever holds this makes changes; other enforcers of the host wait, or of the directory where no
/// registry is in play.
pub(crate) struct Turn {
    _host: Option<File>,
    _directory: File,
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
                let lock = lock.map_err(|source| EnforcementError::HostBusy { path, source })?;
                crate::registry::sign(&lock, directory);
                Some(lock)
            }
            None => None,
        };
        Self::in_directory(host, directory, patience)
    }

    /// As [`Turn::take`], to take something back: that waits for enforcers of other directories only
    /// for a moment, since one of them may be stopped, and a stopped domain must go on all the same.
    pub(crate) fn take_to_restore(
        registry: Option<&HostRegistry>,
        directory: &Path,
        patience: Duration,
    ) -> Result<Self, EnforcementError> {
        let host = registry.and_then(|registry| {
            registry.prepare().ok()?;
            let lock = lock(&registry.lock_file(), PATIENCE_TO_RESTORE).ok()?;
            crate::registry::sign(&lock, directory);
            Some(lock)
        });
        Self::in_directory(host, directory, patience)
    }

    fn in_directory(
        host: Option<File>,
        directory: &Path,
        patience: Duration,
    ) -> Result<Self, EnforcementError> {
        let path = directory.join("lock");
        fs::create_dir_all(directory).map_err(|error| failure(&path, error))?;
        let lock = lock(&path, patience).map_err(|error| failure(&path, error))?;
        Ok(Self {
            _host: host,
            _directory: lock,
        })
    }
}

/// Waits for the lock of a file that only its owner may open, for so long at most.
fn lock(path: &Path, patience: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    // Who may open it, if only to read, may lock it, and keep everybody waiting.
    let mut file = options.mode(OWNER_ALONE).open(path)?;
    file.set_permissions(Permissions::from_mode(OWNER_ALONE))?;
    let give_up = Monotonic.now().saturating_add(patience);
    while !try_lock_exclusively(&file)? {
        if Monotonic.now() > give_up {
            let mut holder = String::new();
            // Only the host's lock is signed.
            let _unsigned = file.read_to_string(&mut holder);
            let holder = match holder.is_empty() {
                true => "another process",
                false => &holder,
            };
            let held = format!("{holder} has held it for {patience}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, held));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(file)
}

/// The journals in `directory`; none if it is not there.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn journals_in(directory: &Path) -> Result<Vec<PathBuf>, EnforcementError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        outcome => outcome.map_err(|error| failure(directory, error))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failure(directory, error))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "journal")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether the process that a journal belongs to lives. One of which only the first thread has
/// exited does: its managers may still be stopping and starting domains.
pub(crate) fn owner_lives(owner: &Owner, kernel: &dyn KernelView) -> bool {
    kernel.boot().is_ok_and(|boot| boot == owner.boot)
        && kernel
            .process_started(owner.pid)
            .is_ok_and(|started| started == owner.started)
}
