//! What of a sweep is finished, on disk, so that a sweep that was killed goes on where it was.
//!
//! The first line names the sweep; each further line is one unit with a checksum. A process may die
//! in the middle of a line: what follows the last whole line is cut off.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tailbound_model::InputFiles;
use tailbound_simulator::ENGINE;

use crate::{SweepError, SweepQuery};

/// The first word of a journal, with the version of its form.
const MAGIC: &str = "tailbound-sweep-3";

/// `JournalError` says why a journal cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process writes the journal.
    #[error("another process writes {}", journal.display())]
    InUse {
        /// The journal.
        journal: PathBuf,
    },
    /// The journal has another title.
    #[error("{} is a journal of something else", journal.display())]
    OtherTitle {
        /// The journal.
        journal: PathBuf,
    },
    /// The journal cannot be read or written.
    #[error("cannot write {}: {cause}", file.display())]
    Write {
        /// The journal.
        file: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}

/// `UnitJournal` is a file of finished units: numbers with a text each, in any order. A process that dies at any
/// moment leaves every unit whole that was added before. While the journal lives, no other process opens it.
pub struct UnitJournal {
    file: File,
    path: PathBuf,
    /// The length of what is whole.
    length: u64,
}

impl UnitJournal {
    /// Opens the journal at `path`, which begins with `title`, a line without its end, and returns the finished
    /// units, all below `units`. A last line that is not whole is cut off.
    ///
    /// # Errors
    /// Another process has the journal, it has another title, or it cannot be written.
    pub fn open(
        path: &Path,
        title: &str,
        units: usize,
    ) -> Result<(Self, BTreeMap<usize, String>), JournalError> {
        let failed = |cause| JournalError::Write {
            file: path.to_owned(),
            cause,
        };
        let journal = || path.to_owned();
        let mut file = match locked(path, || {}) {
            Ok(file) => file,
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse { journal: journal() });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        let title = format!("{title}\n");
        let (finished, whole) = match text.strip_prefix(&title) {
            Some(rest) => {
                let (finished, length) = units_in(rest, units);
                (finished, title.len() + length)
            }
            // Killed before the first line was whole.
            None if title.starts_with(&*text) => (BTreeMap::new(), 0),
            None => return Err(JournalError::OtherTitle { journal: journal() }),
        };
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::Start(whole as u64)).map_err(failed)?;
        if whole == 0 {
            file.write_all(title.as_bytes()).map_err(failed)?;
        }
        let journal = Self {
            file,
            path: path.to_owned(),
            length: whole.max(title.len()) as u64,
        };
        Ok((journal, finished))
    }

    /// Adds a unit.
    ///
    /// # Errors
    /// The journal cannot be written, such as on a full disk. It holds the units from before then.
    pub fn add(&mut self, unit: usize, text: &str) -> Result<(), JournalError> {
        let line = line(unit, text);
        let written = self.file.write_all(line.as_bytes());
        match written {
            Ok(()) => self.length += line.len() as u64,
            Err(cause) => {
                // Half a line would be cut off by whoever opens the journal next, too.
                let _shortened = self.file.set_len(self.length);
                let _moved = self.file.seek(SeekFrom::Start(self.length));
                let file = self.path.clone();
                return Err(JournalError::Write { file, cause });
            }
        }
        Ok(())
    }

    /// Waits until the units are on the disk.
    ///
    /// # Errors
    /// The disk refuses them.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|cause| JournalError::Write {
            file: self.path.clone(),
            cause,
        })
    }
}

/// The journal of a sweep that is running.
pub(super) struct SweepJournal(UnitJournal);

impl From<JournalError> for SweepError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::InUse { journal } => Self::Busy { journal },
            JournalError::OtherTitle { journal } => Self::OtherSweep { journal },
            JournalError::Write { file, cause } => Self::File { file, cause },
        }
    }
}

impl SweepJournal {
    /// The journal beside `out`, and the rows of the units that it holds.
    pub(super) fn open(
        out: &Path,
        fingerprint: u64,
        units: usize,
    ) -> Result<(Self, BTreeMap<usize, String>), SweepError> {
        let title = format!("{MAGIC} {fingerprint:016x}");
        let (journal, finished) = UnitJournal::open(&beside(out, "journal"), &title, units)?;
        Ok((Self(journal), finished))
    }

    /// Adds a unit.
    pub(super) fn add(&mut self, unit: usize, rows: &str) -> Result<(), SweepError> {
        Ok(self.0.add(unit, rows)?)
    }

    /// Puts the results in place of `out`, all at once.
    pub(super) fn write<'a>(
        &self,
        out: &Path,
        header: &str,
        rows: impl Iterator<Item = &'a String>,
    ) -> Result<(), SweepError> {
        let partial = beside(out, "partial");
        let failed = |file: &Path, cause| SweepError::File {
            file: file.to_owned(),
            cause,
        };
        let write = || {
            let mut file = std::io::BufWriter::new(File::create(&partial)?);
            file.write_all(header.as_bytes())?;
            for rows in rows {
                file.write_all(rows.as_bytes())?;
            }
            file.into_inner()
                .map_err(std::io::IntoInnerError::into_error)?
                .sync_all()
        };
        write().map_err(|cause| failed(&partial, cause))?;
        // The journal goes next, so the name has to be on the disk as well.
        std::fs::rename(&partial, out)
            .and_then(|()| sync_folder_of(out))
            .map_err(|cause| failed(out, cause))
    }

    /// Takes the journal away.
    pub(super) fn remove(self) -> Result<(), SweepError> {
        let file = self.0.path;
        std::fs::remove_file(&file).map_err(|cause| SweepError::File { file, cause })
    }
}

/// The journal at `path`, made if there is none, and ours alone. `before_lock` is told each time that
/// it is open and not yet locked.
fn locked(path: &Path, mut before_lock: impl FnMut()) -> Result<File, TryLockError> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(TryLockError::Error)?;
        before_lock();
        file.try_lock()?;
        // Whoever had it until now may have taken it away: a lock on a file without a name keeps
        // nobody out.
        if is_at(&file, path).map_err(TryLockError::Error)? {
            return Ok(file);
        }
    }
}

/// Whether the path still leads to this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((held.dev(), held.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elsewhere an open file keeps its name.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> std::io::Result<bool> {
    Ok(true)
}

#[cfg(unix)]
fn sync_folder_of(file: &Path) -> std::io::Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Elsewhere folders are not opened.
#[cfg(not(unix))]
fn sync_folder_of(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn beside(out: &Path, extension: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// A unit as a line: its number, the checksum of its rows, and the rows with their newlines escaped.
fn line(unit: usize, rows: &str) -> String {
    let mut sum = Sum::new();
    let _ = write!(sum, "{unit} {rows}");
    let escaped = rows.replace('\\', "\\\\").replace('\n', "\\n");
    format!("{unit} {:016x} {escaped}\n", sum.0)
}

/// The units in the text of a journal, and the length of what is whole of it.
fn units_in(text: &str, units: usize) -> (BTreeMap<usize, String>, usize) {
    let mut finished = BTreeMap::new();
    let mut length = 0;
    for whole in text.split_inclusive('\n') {
        let Some((unit, rows)) = unit_of(whole).filter(|(unit, _)| *unit < units) else {
            break;
        };
        finished.insert(unit, rows);
        length += whole.len();
    }
    (finished, length)
}

fn unit_of(whole: &str) -> Option<(usize, String)> {
    let (unit, rest) = whole.strip_suffix('\n')?.split_once(' ')?;
    let (_, escaped) = rest.split_once(' ')?;
    let mut rows = String::with_capacity(escaped.len());
    let mut letters = escaped.chars();
    while let Some(letter) = letters.next() {
        rows.push(match letter {
            '\\' if letters.next()? == 'n' => '\n',
            other => other,
        });
    }
    let unit = unit.parse().ok()?;
    // Holds the checksum against the line: it is as it would be written.
    (line(unit, &rows) == whole).then_some((unit, rows))
}

/// What makes two sweeps the same: version and engine, description, question and the files that it
/// names.
pub(super) fn fingerprint(text: &str, query: &SweepQuery, inputs: &InputFiles) -> u64 {
    let version = env!("CARGO_PKG_VERSION");
    hash_of(&format_args!(
        "{version} {ENGINE}\n{text}\n{query:?}\n{inputs:?}"
    ))
}

/// The 64-bit hash of a text, by which a journal recognises its question.
pub fn hash_of(what: &impl std::fmt::Display) -> u64 {
    let mut sum = Sum::new();
    let _ = write!(sum, "{what}");
    sum.0
}

/// The 64-bit FNV-1a hash.
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl std::fmt::Write for Sum {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Wherever a process died, what was whole is read and the rest is cut off.
        #[test]
        fn a_journal_cut_anywhere_keeps_its_whole_units(
            rows in prop::collection::vec("[a-z,\\\\\n\"é]{0,20}", 1..8), share in 0.0..1.0_f64,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out.csv");
            let (mut journal, none) = SweepJournal::open(&out, 7, rows.len()).unwrap();
            prop_assert!(none.is_empty());
            for (unit, rows) in rows.iter().enumerate() {
                journal.add(unit, rows).unwrap();
            }
            drop(journal);
            let path = folder.path().join("out.csv.journal");
            let bytes = std::fs::read(&path).unwrap();
            let kept = (bytes.len() as f64 * share) as usize;
            std::fs::write(&path, &bytes[..kept]).unwrap();
            let (mut journal, finished) = SweepJournal::open(&out, 7, rows.len()).unwrap();
            for (unit, text) in &finished {
                prop_assert_eq!(text, &rows[*unit]);
            }
            for (unit, rows) in rows.iter().enumerate().skip(finished.len()) {
                journal.add(unit, rows).unwrap();
            }
            drop(journal);
            prop_assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }

        #[test]
        fn no_text_makes_it_fall_over(text in ".{0,80}") {
            let (units, length) = units_in(&text, 10);
            prop_assert!(length <= text.len() && units.len() <= 10);
        }
    }

    /// Another process ends between our opening of its journal and our lock: what we hold then has no
    /// name any more, and a third process would not see the lock.
    #[test]
    fn a_journal_taken_away_before_it_is_locked_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv.journal");
        for replaced in [false, true] {
            let mut opened = 0;
            let file = locked(&path, || {
                opened += 1;
                if opened == 1 {
                    std::fs::remove_file(&path).unwrap();
                    if replaced {
                        std::fs::write(&path, "another's").unwrap();
                    }
                }
            });
            let file = file.unwrap();
            assert_eq!(opened, 2);
            assert!(is_at(&file, &path).unwrap());
            assert_eq!(file.metadata().unwrap().len() > 0, replaced);
            assert!(matches!(
                locked(&path, || {}),
                Err(TryLockError::WouldBlock)
            ));
        }
    }

    #[test]
    fn a_journal_of_another_sweep_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.csv");
        let (mut journal, _) = SweepJournal::open(&out, 7, 3).unwrap();
        assert!(matches!(
            SweepJournal::open(&out, 7, 3),
            Err(SweepError::Busy { .. })
        ));
        journal.add(0, "a\n").unwrap();
        drop(journal);
        let before = std::fs::read(folder.path().join("out.csv.journal")).unwrap();
        assert!(matches!(
            SweepJournal::open(&out, 8, 3),
            Err(SweepError::OtherSweep { .. })
        ));
        assert_eq!(
            std::fs::read(folder.path().join("out.csv.journal")).unwrap(),
            before
        );
    }
}
