//! Memory that stays put, and memory that two processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::system_call::{check, descriptor, map_shared, map_to_read};

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
        let words = Self::unsealed(count)?;
        words.seal(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)?;
        Ok(words)
    }

    /// The same, of which nobody can make another mapping to write: whoever gets the descriptor, root too, reads
    /// ([`ReadWords`]). The kernel refuses the rest (F_SEAL_FUTURE_WRITE, Linux 5.1).
    ///
    /// # Errors
    /// As of [`SharedWords::create`].
    pub fn create_for_readers(count: usize) -> io::Result<Self> {
        let words = Self::unsealed(count)?;
        words.seal(READERS_ONLY | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)?;
        Ok(words)
    }

    fn unsealed(count: usize) -> io::Result<Self> {
        let name = c"tailbound-shared-words".as_ptr();
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // By its number, as the C libraries that the Python package supports have no function for the call.
        // SAFETY: the name is a valid C string, and a descriptor is made.
        let raw = unsafe { libc::syscall(libc::SYS_memfd_create, name, flags) };
        let raw = libc::c_int::try_from(raw).map_err(io::Error::other)?;
        // SAFETY: as above.
        let file = File::from(unsafe { descriptor(raw) }?);
        file.set_len(byte_length(count)? as u64)?;
        Self::map(file, count)
    }

    fn seal(&self, seals: libc::c_int) -> io::Result<()> {
        // SAFETY: fcntl on a descriptor of ours with a number.
        check(unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
    }

    /// The words that another process made and passed on as `descriptor`.
    ///
    /// # Errors
    /// InvalidData where the file is no such memory: not sealed against shrinking, or not a
    /// positive whole number of words.
    pub fn open(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let (file, words) = sealed_file(descriptor, libc::F_SEAL_SHRINK)?;
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

/// Words that another process writes, and this one can only read ([`SharedWords::create_for_readers`]).
#[derive(Debug)]
pub struct ReadWords {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping lives as long as the value and is only reached through loads of atomics.
unsafe impl Send for ReadWords {}
// SAFETY: as above.
unsafe impl Sync for ReadWords {}

impl ReadWords {
    /// The words that another process made and passed on as `descriptor`.
    ///
    /// # Errors
    /// InvalidData where the file is no such memory: not sealed against shrinking and further writers, or not a positive
    /// whole number of words.
    pub fn open(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let (file, count) = sealed_file(descriptor, libc::F_SEAL_SHRINK | READERS_ONLY)?;
        let base = map_to_read(&file, byte_length(count)?)?;
        Ok(Self { base, count })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of them; `None` beyond the last.
    pub fn load(&self, place: usize, order: Ordering) -> Option<u64> {
        // SAFETY: the mapping holds `count` aligned words, lives as long as `self`, and every bit pattern is a valid
        // AtomicU64. Only loads are made, which memory that is read-only permits for this size.
        let words = unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) };
        words.get(place).map(|word| word.load(order))
    }
}

impl Drop for ReadWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length and nobody borrows it any more.
        let _cannot_fail = unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * 8) };
    }
}

/// The seal that lets nobody map the file to write any more.
const READERS_ONLY: libc::c_int = libc::F_SEAL_FUTURE_WRITE;

/// A file with these seals, and the number of its words.
fn sealed_file(descriptor: BorrowedFd<'_>, needed: libc::c_int) -> io::Result<(File, usize)> {
    let file = File::from(descriptor.try_clone_to_owned()?);
    // SAFETY: fcntl on a descriptor of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let length = file.metadata()?.len();
    let words = usize::try_from(length / 8).unwrap_or(0);
    if seals < 0 || seals & needed != needed || length % 8 != 0 || words == 0 {
        let against = match needed & READERS_ONLY {
            0 => "shrinking",
            _ => "shrinking and further writers",
        };
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "not a memory file of shared words: it must be sealed against {against}, and hold a whole number of \
                 8-byte words"
            ),
        ));
    }
    Ok((file, words))
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

    #[test]
    fn two_mappings_see_the_same_words() {
        let mine = SharedWords::create(16).expect("create");
        let theirs = SharedWords::open(mine.as_fd()).expect("open");
        mine.words()[3].store(42, Ordering::Release);
        assert_eq!(theirs.words().len(), 16);
        assert_eq!(theirs.words()[3].load(Ordering::Acquire), 42);
    }

    /// The kernel refuses every way to write, to root as well.
    #[test]
    fn readers_cannot_write() {
        let mine = SharedWords::create_for_readers(4).expect("create");
        let theirs = ReadWords::open(mine.as_fd()).expect("open");
        mine.words()[2].store(9, Ordering::Release);
        assert_eq!(theirs.load(2, Ordering::Acquire), Some(9));
        let writer = SharedWords::open(mine.as_fd()).expect_err("another writer");
        assert_eq!(writer.raw_os_error(), Some(libc::EPERM));
        let file = File::from(mine.as_fd().try_clone_to_owned().expect("a descriptor"));
        let written = std::os::unix::fs::FileExt::write_at(&file, b"x", 0).expect_err("write");
        assert_eq!(written.raw_os_error(), Some(libc::EPERM));
        let again = std::fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .and_then(|file| file.set_len(0));
        assert!(again.is_err(), "emptied");
        // What anybody with the descriptor may write is no port.
        let anybody = SharedWords::create(4).expect("create");
        assert!(ReadWords::open(anybody.as_fd()).is_err());
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
