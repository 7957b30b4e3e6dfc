//! Memory that stays put, and memory that two processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::system_call::{check, descriptor, map_shared};

/// Keeps every page of this process in memory once it has been touched, so that a real-time
/// thread never waits for the disk.
///
/// Pages are locked as they are first used (MCL_ONFAULT), so a process with large unused
/// mappings does not grow.
///
/// # Errors
/// EPERM or ENOMEM without CAP_IPC_LOCK and with too small an RLIMIT_MEMLOCK.
pub fn lock_touched_pages() -> io::Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: mlockall takes a number.
    check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// Touches the next 64 KiB of the calling thread's stack, so that growing into them later does
/// not fault.
#[inline(never)]
pub fn touch_stack() {
    let mut pages = [0_u8; 64 * 1024];
    for page in pages.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&pages);
}

/// A fixed number of 64-bit words in memory that can be shared between processes.
///
/// The memory belongs to an anonymous file (memfd) sealed against shrinking, so a process that
/// maps it can rely on every word; what the words mean is up to whoever shares them, and a reader
/// must not trust them blindly.
#[derive(Debug)]
pub struct SharedWords {
    file: File,
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping lives as long as the value and is only reached through atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `count` zero words in a fresh anonymous file.
    ///
    /// # Errors
    /// What memfd_create, ftruncate, fcntl or mmap report; InvalidInput where `count` is zero.
    pub fn create(count: usize) -> io::Result<Self> {
        let name = c"tailbound-shared-words".as_ptr();
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a valid C string, and a descriptor is made.
        let file = File::from(unsafe { descriptor(libc::memfd_create(name, flags)) }?);
        file.set_len(byte_length(count)? as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: fcntl on a descriptor of ours with a number.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Self::map(file, count)
    }

    /// The words that another process made and passed on as `descriptor`.
    ///
    /// # Errors
    /// InvalidData where the file is no such memory: not sealed against shrinking, or not a
    /// positive whole number of words.
    pub fn open(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let file = File::from(descriptor.try_clone_to_owned()?);
        // SAFETY: fcntl on a descriptor of ours.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let length = file.metadata()?.len();
        let words = usize::try_from(length / 8).unwrap_or(0);
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || length % 8 != 0 || words == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a memory file of shared words: it must be sealed against shrinking and hold \
                 a whole number of 8-byte words",
            ));
        }
        Self::map(file, words)
    }

    fn map(file: File, count: usize) -> io::Result<Self> {
        // The file is at least that long, and cannot shrink.
        let base = map_shared(&file, byte_length(count)?, libc::MAP_POPULATE)?;
        Ok(Self { file, base, count })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` aligned words, lives as long as `self`, and every
        // bit pattern is a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and nobody borrows it any more.
        let _cannot_fail = unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * 8) };
    }
}

fn byte_length(words: usize) -> io::Result<usize> {
    match words.checked_mul(8) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "shared memory needs at least one word",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_see_the_same_words() {
        let mine = SharedWords::create(16).expect("create");
        let theirs = SharedWords::open(mine.as_fd()).expect("open");
        mine.words()[3].store(42, Ordering::Release);
        assert_eq!(theirs.words().len(), 16);
        assert_eq!(theirs.words()[3].load(Ordering::Acquire), 42);
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let file = tempfile_like();
        let error = SharedWords::open(file.as_fd()).expect_err("not sealed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(SharedWords::create(0).is_err());
    }

    fn tempfile_like() -> File {
        File::open("/proc/self/exe").expect("own program")
    }

    #[test]
    fn touching_the_stack_does_no_harm() {
        touch_stack();
    }
}
