//! The file of a journal: lines, and after them zeros that are room for more.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, JournalHistory, Owner, Record};

/// How much room is asked for at once, if there is so much.
const STRIDE_BYTES: u64 = 16 * 1024;
/// A file that is shorter is not compacted.
const COMPACT_FROM_BYTES: u64 = 256 * 1024;
/// A file is compacted once so many times as long as when it was last compacted.
const COMPACT_AT_GROWTH: u64 = 4;

/// The file, with the places in it that matter.
#[derive(Debug)]
pub(super) struct JournalFile {
    file: File,
    /// The end of its last line.
    end: u64,
    /// Where it holds nothing but zeros from: a write that failed may have left something behind the end.
    zeros_from: u64,
    /// Up to where it has room.
    room_to: u64,
    /// How long it was when it held only what stood.
    compact_bytes: u64,
}

impl JournalFile {
    /// The file at `path`, which is made if it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        let bytes = fs::read(path)?;
        // A line that was cut off announces what did not happen.
        let last = bytes.iter().rposition(|&byte| byte == b'\n');
        let written = bytes.iter().rposition(|&byte| byte != 0);
        Ok(Self {
            file,
            end: last.map_or(0, |at| at as u64 + 1),
            zeros_from: written.map_or(0, |at| at as u64 + 1),
            room_to: bytes.len() as u64,
            compact_bytes: 0,
        })
    }

    /// A file of `lines` with room for `more`, in the place of the one at `path`.
    pub(super) fn replace(
        path: &Path,
        disk: &mut dyn Disk,
        lines: &[u8],
        more: u64,
    ) -> io::Result<Self> {
        let new = compacted_path(path);
        let fill = |disk: &mut dyn Disk| {
            let file = File::create(&new)?;
            let mut replacement = Self {
                file,
                end: 0,
                zeros_from: 0,
                room_to: 0,
                compact_bytes: lines.len() as u64,
            };
            replacement.make_room(disk, lines.len() as u64 + more)?;
            replacement.write(disk, lines)?;
            fs::rename(&new, path)?;
            Ok(replacement)
        };
        let outcome = fill(disk);
        if outcome.is_err() {
            // It may not have come to be.
            let _best_effort = disk.remove(&new);
        }
        outcome
    }

    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Whether most of its lines are likely to tell nothing any more, and it would have to grow for `more`.
    pub(super) fn is_to_be_compacted(&self, more: u64) -> bool {
        let growth = self.compact_bytes.saturating_mul(COMPACT_AT_GROWTH);
        self.end + more > self.room_to && self.end > growth.max(COMPACT_FROM_BYTES)
    }

    /// Has room for `more` bytes after its last line.
    pub(super) fn make_room(&mut self, disk: &mut dyn Disk, more: u64) -> io::Result<()> {
        let needed = self.end + more;
        if needed <= self.room_to {
            return Ok(());
        }
        let grain = disk.grain_bytes();
        let at_ease = needed.next_multiple_of(STRIDE_BYTES.max(grain));
        let at_least = needed.next_multiple_of(grain);
        let to = match disk.allocate(&self.file, self.room_to, at_ease) {
            Ok(()) => at_ease,
            Err(_) => {
                disk.allocate(&self.file, self.room_to, at_least)?;
                at_least
            }
        };
        self.room_to = to;
        Ok(())
    }

    /// Appends lines, all of them or none.
    pub(super) fn write(&mut self, disk: &mut dyn Disk, lines: &[u8]) -> io::Result<()> {
        let mut bytes = lines.to_vec();
        let end = self.end + lines.len() as u64;
        let behind = self.zeros_from.saturating_sub(end);
        bytes.resize(lines.len() + usize::try_from(behind).unwrap_or(0), 0);
        if let Err(error) = disk.write(&self.file, &bytes, self.end) {
            // As much of it as the file has come to hold may be there.
            let length = self.file.metadata().map_or(end, |metadata| metadata.len());
            self.zeros_from = self.zeros_from.max(end.min(length));
            return Err(error);
        }
        (self.end, self.zeros_from) = (end, end);
        self.room_to = self.room_to.max(end);
        debug_assert!(
            self.end <= self.room_to,
            "the last line ends within the file's room"
        );
        Ok(())
    }
}

/// Where a journal is written anew; it is none of [`super::journals_in`] there.
pub(super) fn compacted_path(path: &Path) -> PathBuf {
    path.with_extension("journal-new")
}

/// The fewest lines that say what `history` does.
pub(super) fn lines_of(owner: &Owner, history: &JournalHistory) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let mut add = |record: &Record| {
        lines.extend(serde_json::to_vec(record)?);
        lines.push(b'\n');
        Ok::<(), io::Error>(())
    };
    add(&Record::Owner(owner.clone()))?;
    for held in &history.domains {
        add(&Record::Held {
            request: held.request.clone(),
            inheritance: held.inheritance.clone(),
            first_period: held.first_period,
            pending: held.pending.clone(),
        })?;
        for entry in &held.entries {
            add(&Record::Intent(entry.clone()))?;
        }
    }
    Ok(lines)
}
