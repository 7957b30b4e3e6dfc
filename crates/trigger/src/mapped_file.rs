//! A recording's file in the memory of this process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// Memory of whole pages that stays mapped until the value is dropped.
#[derive(Debug)]
pub struct MappedFile {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is reached through atomics only.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the whole of `file`, shared with other processes.
    ///
    /// # Errors
    /// What fstat and mmap report; `InvalidInput` for an empty file.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast()) {
            Some(base) if base.as_ptr() != libc::MAP_FAILED.cast() => Ok(Self { base, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the memory behind the file back to the system; reads give zeros from then on.
    pub fn empty(&self) {
        // SAFETY: the range is ours. A file system that cannot do it keeps the memory until the file is gone.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, libc::MADV_REMOVE) };
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and no reference into it outlives the value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
