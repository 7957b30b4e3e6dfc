//! Room of a file: blocks that a file system gives to a file before anything is written to them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// How much is written at a time where the file system cannot give room otherwise.
const ZEROS: [u8; 4096] = [0; 4096];

/// Gives `file` room for its bytes from `from` up to `to`, so that no later write to them fails for want of
/// room (fallocate(2)). Bytes that were not written yet read as zeros. Where the file system has no such
/// call, zeros are written.
///
/// # Errors
/// What the kernel says, such as `StorageFull`; the file then ends at `from`, or where it ended before.
pub fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    if to <= from {
        return Ok(());
    }
    let before = file.metadata()?.len();
    let outcome = match fallocate(file, from, to - from) {
        Err(error) if lacks_fallocate(&error) => write_zeros(file, from.max(before), to),
        outcome => outcome,
    };
    if outcome.is_err() {
        // Some file systems keep what they had given before they failed, and others need that.
        let _best_effort = file.set_len(before.max(from).min(file.metadata()?.len()));
    }
    outcome
}

fn lacks_fallocate(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV)
    )
}

fn fallocate(file: &File, from: u64, length: u64) -> io::Result<()> {
    let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let from = libc::off_t::try_from(from).map_err(too_large)?;
    let length = libc::off_t::try_from(length).map_err(too_large)?;
    loop {
        // SAFETY: takes an open descriptor and three numbers.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, from, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let count = ZEROS
            .len()
            .min(usize::try_from(to - at).unwrap_or(usize::MAX));
        file.write_all_at(ZEROS.get(..count).unwrap_or(&ZEROS), at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::fs;

    use super::*;

    #[test]
    fn room_reads_as_zeros_and_keeps_what_was_there() {
        for give in [allocate, |file: &File, from, to| {
            write_zeros(file, from, to)
        }] {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, b"first").unwrap();
            give(&file, 5, 10_000).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 10_000);
            let mut bytes = vec![1; 10_000];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(&bytes[..5], b"first");
            assert!(bytes[5..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn room_that_there_is_not_is_refused_and_the_file_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"text").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // Larger than any file system.
        assert!(allocate(&file, 4, u64::MAX / 4).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"text");
    }
}
