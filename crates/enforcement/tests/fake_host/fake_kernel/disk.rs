//! A file system that becomes full, or fails, when a test wishes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailbound_enforcement::journal::Disk;

#[derive(Debug, Default)]
struct Inside {
    /// What the disk has room for, where that is bounded.
    free_bytes: Option<u64>,
    /// Up to where the file has room.
    allocated: u64,
    writes: usize,
    fails_from: Option<usize>,
    keeps_files: bool,
}

/// A disk for one journal, over real files. Clones share it. Room is given byte by byte.
#[derive(Clone, Debug, Default)]
pub struct FakeDisk {
    inside: Arc<Mutex<Inside>>,
}

impl FakeDisk {
    /// A disk that has room for so many bytes.
    pub fn with_room(bytes: u64) -> Self {
        let disk = Self::default();
        disk.lock().free_bytes = Some(bytes);
        disk
    }

    /// From this write on (counted from 0, of all since the disk was made), all fail half-way with an input
    /// or output error.
    pub fn fail_from(&self, write: usize) {
        self.lock().fails_from = Some(write);
    }

    /// From now on nothing can be removed, as after the file system was mounted again to be read only.
    pub fn keep_files(&self) {
        self.lock().keeps_files = true;
    }

    /// Writes and removals succeed again.
    pub fn mend(&self) {
        let mut inside = self.lock();
        inside.fails_from = None;
        inside.keeps_files = false;
    }

    /// Others take what room is left.
    pub fn fill(&self) {
        self.lock().free_bytes = Some(0);
    }

    /// Files of others go, and leave so much.
    pub fn give(&self, bytes: u64) {
        self.lock().free_bytes = Some(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for FakeDisk {
    fn grain_bytes(&self) -> u64 {
        1
    }

    fn allocate(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        let mut inside = self.lock();
        if let Some(free_bytes) = &mut inside.free_bytes {
            let wanted = to - from;
            if wanted > *free_bytes {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *free_bytes -= wanted;
        }
        inside.allocated = to;
        file.set_len(to)
    }

    fn write(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut inside = self.lock();
        let number = inside.writes;
        inside.writes += 1;
        if inside.fails_from.is_some_and(|from| number >= from) {
            file.write_all_at(bytes.get(..bytes.len() / 2).unwrap_or_default(), at)?;
            return Err(io::Error::other("input or output error"));
        }
        let end = at + bytes.len() as u64;
        let beyond = end.saturating_sub(inside.allocated);
        match inside.free_bytes {
            Some(free_bytes) if beyond > free_bytes => {
                let fits = usize::try_from((end - beyond + free_bytes).saturating_sub(at));
                let fits = bytes.get(..fits.unwrap_or(0)).unwrap_or_default();
                file.write_all_at(fits, at)?;
                inside.free_bytes = Some(0);
                inside.allocated += free_bytes;
                Err(io::ErrorKind::StorageFull.into())
            }
            free_bytes => {
                inside.free_bytes = free_bytes.map(|free_bytes| free_bytes - beyond);
                inside.allocated += beyond;
                file.write_all_at(bytes, at)
            }
        }
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let mut inside = self.lock();
        if inside.keeps_files {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        inside.allocated = 0;
        fs::remove_file(path)
    }
}
