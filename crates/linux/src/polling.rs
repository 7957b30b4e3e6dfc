//! Readiness of file descriptors with nanosecond timeouts.
//!
//! Load generators and the synthetic service wait for replies and for the next release at once;
//! a millisecond timeout would make the one wait for the other.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_time::Duration;

use crate::system_call::{check, descriptor, ppoll};

/// What a registered descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The number that it was registered with.
    pub token: u64,
    /// There is something to read, or the peer is gone.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The connection broke, or the peer will send no more.
    pub hung_up: bool,
}

/// What a descriptor is watched for; reading always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadWrite,
}

impl Interest {
    fn mask(self) -> u32 {
        let read = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
        match self {
            Self::Read => read,
            Self::ReadWrite => read | libc::EPOLLOUT as u32,
        }
    }
}

/// How many descriptors one wait reports at most; the others come with the next one.
const EVENTS_PER_WAIT: usize = 64;

/// Watches descriptors, level-triggered.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Readiness>,
}

impl Poller {
    /// A poller that watches nothing.
    ///
    /// # Errors
    /// What the kernel says, such as too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            // SAFETY: no pointer is passed, and a descriptor is made.
            epoll: unsafe { descriptor(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?,
            ready: Vec::with_capacity(EVENTS_PER_WAIT),
        })
    }

    /// Watches `descriptor`; what is reported of it carries `token`.
    ///
    /// # Errors
    /// What the kernel says, such as that it is watched already.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor.as_fd(), token, interest)
    }

    /// Changes what `descriptor` is watched for.
    ///
    /// # Errors
    /// What the kernel says, such as that it is not watched.
    pub fn change(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor.as_fd(), token, interest)
    }

    /// Watches `descriptor` no more; closing it has the same effect.
    ///
    /// # Errors
    /// What the kernel says, such as that it is not watched.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, descriptor.as_fd(), 0, Interest::Read)
    }

    fn control(
        &self,
        operation: libc::c_int,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.mask(),
            u64: token,
        };
        // SAFETY: both descriptors are open for the length of the call, and `event` is ours.
        let outcome = unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                operation,
                descriptor.as_raw_fd(),
                &raw mut event,
            )
        };
        check(outcome).map(drop)
    }

    /// Waits until something is ready, or `timeout` passed (`None`: for ever; zero: not at all).
    /// An interruption, by a signal or by a thaw of our cgroup, reports nothing.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<&[Readiness]> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_PER_WAIT];
        let count = wait_once(self.epoll.as_fd(), &mut events, timeout);
        self.ready.clear();
        match count {
            Ok(count) => self.ready.extend(events.iter().take(count).map(decoded)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(&self.ready)
    }
}

fn decoded(event: &libc::epoll_event) -> Readiness {
    let (mask, token) = (event.events, event.u64);
    let has = |bits: libc::c_int| mask & bits as u32 != 0;
    let hung_up = has(libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP);
    Readiness {
        token,
        readable: has(libc::EPOLLIN) || hung_up,
        writable: has(libc::EPOLLOUT),
        hung_up,
    }
}

/// Whether this kernel was found to lack epoll_pwait2 (it came with Linux 5.11).
static WITHOUT_PWAIT2: AtomicBool = AtomicBool::new(false);

fn wait_once(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    if timeout == Some(Duration::ZERO) {
        return epoll_wait_ms(epoll, events, 0);
    }
    if WITHOUT_PWAIT2.load(Ordering::Relaxed) {
        return ppoll_then_epoll(epoll, events, timeout);
    }
    match epoll_pwait2(epoll, events, timeout) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            WITHOUT_PWAIT2.store(true, Ordering::Relaxed);
            ppoll_then_epoll(epoll, events, timeout)
        }
        outcome => outcome,
    }
}

fn epoll_pwait2(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    // The kernel's own timespec: both fields have 64 bits on every architecture.
    let limit = timeout.map(|length| {
        let nanoseconds = length.as_nanos();
        [
            (nanoseconds / 1_000_000_000) as i64,
            (nanoseconds % 1_000_000_000) as i64,
        ]
    });
    let limit_pointer = limit
        .as_ref()
        .map_or(std::ptr::null(), |fields| fields.as_ptr());
    // SAFETY: `events` has room for the count passed, `limit` lives across the call, the null
    // signal mask is allowed, and the raw call does not write elsewhere.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            limit_pointer,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// An epoll descriptor is itself pollable, and ppoll has had nanoseconds for ever.
fn ppoll_then_epoll(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let mut watched = libc::pollfd {
        fd: epoll.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    match ppoll(std::slice::from_mut(&mut watched), timeout)? {
        0 => Ok(0),
        _ => epoll_wait_ms(epoll, events, 0),
    }
}

fn epoll_wait_ms(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout_ms: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: `events` has room for the count passed.
    let count = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            timeout_ms,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Opens a device for reading and writing, such that neither ever blocks.
///
/// # Errors
/// What the kernel says, such as that somebody else has it.
pub fn open_non_blocking(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

/// Lets timed waits of the calling thread end on time: ordinary threads have 50 us of slack, with
/// which the kernel bundles wake-ups; FIFO threads have none.
///
/// # Errors
/// What the kernel says.
pub fn wake_current_thread_on_time() -> io::Result<()> {
    // SAFETY: this option takes a number and touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) }).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn reports_what_is_ready_and_only_that() {
        let mut poller = Poller::new().unwrap();
        let (mut left, mut right) = UnixStream::pair().unwrap();
        poller.add(&left, 7, Interest::Read).unwrap();
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
        right.write_all(b"x").unwrap();
        let ready = poller.wait(Some(Duration::from_secs(5))).unwrap().to_vec();
        assert_eq!(ready.len(), 1);
        assert_eq!((ready[0].token, ready[0].readable), (7, true));
        assert!(!ready[0].hung_up && !ready[0].writable);
        left.read_exact(&mut [0; 1]).unwrap();
        assert!(
            poller
                .wait(Some(Duration::from_nanos(1)))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn reports_room_to_write_when_asked_and_a_peer_that_left() {
        let mut poller = Poller::new().unwrap();
        let (left, right) = UnixStream::pair().unwrap();
        poller.add(&left, 1, Interest::ReadWrite).unwrap();
        assert!(poller.wait(None).unwrap()[0].writable);
        poller.change(&left, 1, Interest::Read).unwrap();
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
        drop(right);
        let gone = poller.wait(None).unwrap()[0];
        assert!(gone.hung_up && gone.readable);
        poller.remove(&left).unwrap();
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
        assert!(poller.remove(&left).is_err());
    }

    #[test]
    fn the_way_of_older_kernels_sees_the_same() {
        let poller = Poller::new().unwrap();
        let (left, mut right) = UnixStream::pair().unwrap();
        poller.add(&left, 3, Interest::Read).unwrap();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        let wait = |events: &mut [libc::epoll_event], timeout| {
            ppoll_then_epoll(poller.epoll.as_fd(), events, timeout).unwrap()
        };
        assert_eq!(wait(&mut events, Some(Duration::from_nanos(1))), 0);
        right.write_all(b"x").unwrap();
        assert_eq!(wait(&mut events, None), 1);
        assert_eq!(decoded(&events[0]).token, 3);
    }
}
