//! What system calls return, and the calls that several modules make.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use tailbound_time::Duration;

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

/// Waits for one of the descriptors, or until `timeout` has passed; `None` waits without end. How many are ready.
///
/// # Errors
/// `Interrupted` by a signal; else what the kernel says.
pub(crate) fn ppoll(
    polled: &mut [libc::pollfd],
    timeout: Option<Duration>,
) -> io::Result<libc::c_int> {
    let limit = timeout.map(|length| timespec(length.as_nanos()));
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the entries are as many as counted, both pointers live through the call, and the signal mask is
    // left alone.
    check(unsafe { libc::ppoll(polled.as_mut_ptr(), count, limit, ptr::null()) })
}

/// Maps the first `bytes` of a file, to be shared with others; unmapped by whoever asks for it.
pub(crate) fn map_shared<T>(
    file: &File,
    bytes: usize,
    flags: libc::c_int,
) -> io::Result<NonNull<T>> {
    map_with(libc::PROT_READ | libc::PROT_WRITE, file, bytes, flags)
}

/// The same for reading alone.
pub(crate) fn map_to_read<T>(file: &File, bytes: usize) -> io::Result<NonNull<T>> {
    map_with(libc::PROT_READ, file, bytes, libc::MAP_POPULATE)
}

fn map_with<T>(
    access: libc::c_int,
    file: &File,
    bytes: usize,
    flags: libc::c_int,
) -> io::Result<NonNull<T>> {
    let flags = libc::MAP_SHARED | flags;
    // SAFETY: a fresh mapping at a place that the kernel chooses takes nothing from anybody.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?)
}
