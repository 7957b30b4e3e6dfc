//! What system calls return, and how they take lengths of time.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The number that a system call returned; the error that it left if that is negative.
pub(crate) fn check<N: Default + PartialOrd>(returned: N) -> io::Result<N> {
    match returned < N::default() {
        true => Err(io::Error::last_os_error()),
        false => Ok(returned),
    }
}

/// The descriptor that a system call returned.
///
/// # Safety
/// The call makes descriptors: `returned` is negative, or a descriptor that nobody else owns.
pub(crate) unsafe fn descriptor(returned: libc::c_int) -> io::Result<OwnedFd> {
    let number = check(returned)?;
    // SAFETY: by the contract above the descriptor is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `nanoseconds` in the kernel's form.
pub(crate) fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}
