//! The journal: what is changed and what it replaces, in a file before it happens.

mod debt;
mod disk;
mod file;
mod record;
mod turn;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::debt::room_for;
use self::debt::{Debt, line_bytes};
pub use self::disk::{Disk, HostDisk};
use self::file::JournalFile;
pub use self::record::{
    Entry, HeldDomain, JOURNAL_VERSION, JournalHistory, Owner, Previous, Record,
};
pub(crate) use self::turn::{PATIENCE, PATIENCE_FOR_A_CHANGE, Turn};

use crate::error::EnforcementError;
use crate::kernel::KernelView;

/// The variable that overrides where journals lie.
pub const STATE_DIRECTORY_VARIABLE: &str = "TAILBOUND_STATE_DIR";

/// By how much notes about one change of an interface differ in length at most: in the numbers of the
/// interface, the instants, and what a policy is.
const NOTES_DIFFER_BYTES: u64 = 384;

/// Tells the journals of one process apart.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// The state directory of root.
pub const SYSTEM_STATE_DIRECTORY: &str = "/run/tailbound";

/// Where journals lie: `TAILBOUND_STATE_DIR`, or `/run/tailbound` for root, or
/// `$XDG_RUNTIME_DIR/tailbound`, or `/tmp/tailbound-UID`.
pub fn state_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(STATE_DIRECTORY_VARIABLE) {
        return PathBuf::from(directory);
    }
    let uid = tailbound_linux::process::effective_uid();
    if uid == 0 {
        return PathBuf::from(SYSTEM_STATE_DIRECTORY);
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
///
/// Before a change is noted the file has room for it and for all that taking it back will append
/// ([`debt`]), so that a disk that becomes full keeps nobody from taking back.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    path: PathBuf,
    file: Option<JournalFile>,
    disk: Box<dyn Disk>,
    owner: Owner,
    history: JournalHistory,
    debt: Debt,
    next_sequence: u64,
    /// Lines that are to be written with the next one; the history has them.
    later: Vec<u8>,
    /// Room for lines that will follow a change of an interface.
    kept_bytes: u64,
    /// Why the last line about something taken back was not written, if it was not.
    unwritten: Option<io::Error>,
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
        let path = directory.join(format!("{pid}-{}-{number}.journal", owner.started));
        Ok(Self::over(&path, JournalHistory::default(), owner))
    }

    /// Takes over a journal found on disk, to end it.
    pub(crate) fn adopt(path: &Path, history: JournalHistory, owner: Owner) -> Self {
        Self::over(path, history, owner)
    }

    fn over(path: &Path, history: JournalHistory, owner: Owner) -> Self {
        let entries = history.domains.iter().flat_map(|held| &held.entries);
        let next_sequence = entries.map(|entry| entry.sequence).max().unwrap_or(0);
        Self {
            directory: path.parent().unwrap_or(Path::new(".")).into(),
            path: path.into(),
            file: None,
            disk: Box::new(HostDisk),
            owner,
            next_sequence,
            debt: Debt::of(&history),
            history,
            later: Vec::new(),
            kept_bytes: 0,
            unwritten: None,
        }
    }

    /// Has another file system, for tests.
    pub(crate) fn set_disk(&mut self, disk: Box<dyn Disk>) {
        self.disk = disk;
    }

    /// What stands.
    pub fn history(&self) -> &JournalHistory {
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

    /// Appends a line that announces something. When this returns the line outlives this process, though
    /// not a crash of the kernel; nothing that we change outlives that either. Room to take it back is had
    /// then, too.
    ///
    /// # Errors
    /// If it cannot be written, or there is no room to take it back; then what it announces must not
    /// happen.
    pub fn append(&mut self, record: Record) -> Result<(), EnforcementError> {
        let line = self.line(&record)?;
        self.use_kept_room(&record, &line);
        let owed = Debt::added_by(&record, &self.history);
        self.make_room(line.len() as u64 + owed)?;
        let before = self.later.len();
        self.later.extend_from_slice(&line);
        let written = self.write_later();
        self.later.truncate(before);
        written?;
        self.take_in(record);
        Ok(())
    }

    /// As [`Journal::append`], but for a change that only other enforcers have to know of, and not before
    /// our turn ends: it is written with the next line, or by [`Journal::write_later`].
    ///
    /// # Errors
    /// If there are no words for it.
    pub fn append_later(&mut self, record: Record) -> Result<(), EnforcementError> {
        let line = self.line(&record)?;
        self.use_kept_room(&record, &line);
        self.later.extend_from_slice(&line);
        self.take_in(record);
        Ok(())
    }

    /// Appends that something has been taken back. It has been, so this never fails: what cannot be written
    /// goes with the next line that can, and [`Journal::finish`] tells.
    pub(crate) fn append_taken_back(&mut self, record: Record) {
        // There were words for it when it was announced.
        self.later.extend(self.line(&record).unwrap_or_default());
        self.take_in(record);
        if self.unwritten.is_none() {
            self.unwritten = self.write_out().err();
        }
    }

    /// Keeps room for so many notes about a change of an interface as long as this one, until
    /// [`Journal::release_room`].
    ///
    /// # Errors
    /// If there is none; then the change must not be made.
    pub(crate) fn keep_room(&mut self, note: &Record, count: u64) -> Result<(), EnforcementError> {
        self.kept_bytes = 0;
        let bytes = count * (line_bytes(note) + NOTES_DIFFER_BYTES);
        self.make_room(bytes)?;
        self.kept_bytes = bytes;
        Ok(())
    }

    fn use_kept_room(&mut self, record: &Record, line: &[u8]) {
        if matches!(record, Record::Changed { .. }) {
            self.kept_bytes = self.kept_bytes.saturating_sub(line.len() as u64);
        }
    }

    /// The change is made or refused, and noted.
    pub(crate) fn release_room(&mut self) {
        self.kept_bytes = 0;
    }

    /// Makes sure that the file has room for `bytes` more beside all that is owed.
    ///
    /// # Errors
    /// If there is none, or the file cannot be made.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Result<(), EnforcementError> {
        let more = bytes + self.later.len() as u64 + self.debt.bytes() + self.kept_bytes;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open(more)?,
        };
        let outcome = match file.is_to_be_compacted(more) {
            true => self.compact(&mut file, more),
            false => file.make_room(self.disk.as_mut(), more),
        };
        self.file = Some(file);
        outcome.map_err(|error| self.no_room(more, error))
    }

    /// The same in a file without the lines that no longer tell anything, if there is room for both files
    /// at a time; else in this one.
    fn compact(&mut self, file: &mut JournalFile, more: u64) -> io::Result<()> {
        let lines = file::lines_of(&self.owner, &self.history)?;
        match JournalFile::replace(&self.path, self.disk.as_mut(), &lines, more) {
            Ok(new) => {
                *file = new;
                // The history has them.
                self.later.clear();
                self.unwritten = None;
                Ok(())
            }
            Err(_) => file.make_room(self.disk.as_mut(), more),
        }
    }

    fn no_room(&self, bytes: u64, source: io::Error) -> EnforcementError {
        match is_want_of_room(&source) {
            true => EnforcementError::NoRoom {
                directory: self.directory.clone(),
                bytes,
                source,
            },
            false => failure(&self.path, source),
        }
    }

    /// Writes what was left for later.
    ///
    /// # Errors
    /// If it cannot be written; it is kept.
    pub fn write_later(&mut self) -> Result<(), EnforcementError> {
        let written = self.write_out();
        if written.is_ok() {
            self.unwritten = None;
        }
        let bytes = self.later.len() as u64;
        written.map_err(|error| self.no_room(bytes, error))
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.later.is_empty() {
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => JournalFile::open(&self.path)?,
        };
        let written = file.write(self.disk.as_mut(), &self.later);
        self.file = Some(file);
        written?;
        self.later.clear();
        Ok(())
    }

    fn line(&self, record: &Record) -> Result<Vec<u8>, EnforcementError> {
        let mut line = serde_json::to_vec(record).map_err(|e| failure(&self.path, e.into()))?;
        line.push(b'\n');
        Ok(line)
    }

    fn take_in(&mut self, record: Record) {
        match &record {
            Record::Domain { request, .. } => debug_assert!(
                (self.history.domain(&request.domain))
                    .is_none_or(|held| held.request.interface == request.interface),
                "a domain stands once, and more threads change nothing of its interface"
            ),
            Record::Intent(entry) => {
                let before = self.history.domains.iter().flat_map(|held| &held.entries);
                debug_assert!(
                    before.into_iter().all(|one| one.sequence < entry.sequence),
                    "later changes have higher numbers"
                );
            }
            _ => {}
        }
        self.debt.follow(&record, &self.history);
        self.history.add(record);
    }

    /// The file, with its first line and room for `more`.
    fn open(&mut self, more: u64) -> Result<JournalFile, EnforcementError> {
        let line = self.line(&Record::Owner(self.owner.clone()))?;
        let opened = fs::create_dir_all(&self.directory)
            .and_then(|()| JournalFile::open(&self.path))
            .and_then(|mut file| {
                if file.is_empty() {
                    file.make_room(self.disk.as_mut(), more + line.len() as u64)?;
                    file.write(self.disk.as_mut(), &line)?;
                }
                Ok(file)
            });
        opened.map_err(|error| self.no_room(more, error))
    }

    /// Removes the file if nothing stands.
    ///
    /// # Errors
    /// If the file cannot be removed, or something stands and what was taken back could not be noted. It has
    /// been taken back all the same; whoever recovers finds it so.
    pub fn finish(&mut self) -> Result<(), EnforcementError> {
        if !self.history.domains.is_empty() {
            return match self.unwritten.is_some() {
                true => self.write_later(),
                false => Ok(()),
            };
        }
        debug_assert_eq!(self.debt.bytes(), 0, "nothing is owed to nothing");
        self.file = None;
        for path in [file::compacted_path(&self.path), self.path.clone()] {
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failure(&path, error));
                }
                _ => {}
            }
        }
        // Nothing is left that they could tell anything of.
        self.later.clear();
        self.unwritten = None;
        Ok(())
    }
}

/// Whether a write failed because the disk, or a share of it, is full.
pub(crate) fn is_want_of_room(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        error.kind(),
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge
    )
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
