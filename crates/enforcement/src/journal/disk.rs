//! What a journal asks of the file system.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tailbound_linux::file_room;

/// The file system of a journal; another one for tests, which becomes full when they wish.
pub trait Disk: Debug + Send {
    /// Room is asked for in multiples of so many bytes.
    fn grain_bytes(&self) -> u64;

    /// Gives `file` room from byte `from` up to `to`: no write there fails for want of room any more.
    ///
    /// # Errors
    /// What the kernel says; the file is as before then.
    fn allocate(&mut self, file: &File, from: u64, to: u64) -> io::Result<()>;

    /// Writes all of `bytes` to `file` from byte `at` on.
    ///
    /// # Errors
    /// What the kernel says; a part may be written then.
    fn write(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the kernel says, `NotFound` if it is not there.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// The file system that the state directory lies in.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

impl Disk for HostDisk {
    fn grain_bytes(&self) -> u64 {
        // A block of most file systems, and a page of tmpfs.
        4096
    }

    fn allocate(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        file_room::allocate(file, from, to)
    }

    fn write(&mut self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}
