//! The calling thread: where it runs, before whom, what it waits for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tailbound_shared_memory::Doorbell;
use tailbound_time::Duration;

use crate::process::own_thread;
use crate::scheduling::{SchedulingSetting, set_affinity, set_scheduling};
use crate::system_call::{descriptor, ppoll};

/// Why a thread could not be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The kernel refused a real-time priority.
    #[error(
        "no permission for SCHED_FIFO priority {priority}; it takes root, CAP_SYS_NICE or an \
         RLIMIT_RTPRIO of at least {priority}, and on kernels with CONFIG_RT_GROUP_SCHED a cpu \
         cgroup that has real-time bandwidth (the root one has)"
    )]
    FifoNotPermitted {
        /// What was asked for.
        priority: u8,
    },
    /// SCHED_FIFO priorities are 1 to 99.
    #[error("SCHED_FIFO priority {0} does not exist; use 1 to 99")]
    FifoOutOfRange(u8),
    /// None of the CPUs may be used.
    #[error(
        "cannot run on CPU {0}: it does not exist, is offline, or the cpuset of this process \
         excludes it"
    )]
    NoSuchCpu(u32),
    /// Anything else.
    #[error("cannot {attempt}: {cause}")]
    System {
        /// What was tried.
        attempt: &'static str,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

/// The CPU that the calling thread runs on now.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: sched_getcpu takes nothing; -1 means unknown.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Pins the calling thread to `cpu`; it runs there when this returns.
///
/// # Errors
/// [`ThreadError::NoSuchCpu`] where the kernel will not have it there.
pub fn pin_current_thread(cpu: u32) -> Result<(), ThreadError> {
    set_affinity(own_thread(), &[cpu].into()).map_err(|cause| match cause.kind() {
        io::ErrorKind::InvalidInput => ThreadError::NoSuchCpu(cpu),
        _ => ThreadError::System {
            attempt: "set the CPU affinity of a thread",
            cause,
        },
    })
}

/// Makes the calling thread SCHED_FIFO at `priority` (1 to 99); its children start as
/// SCHED_OTHER.
///
/// # Errors
/// [`ThreadError::FifoNotPermitted`] without the privilege, [`ThreadError::FifoOutOfRange`].
pub fn make_current_thread_fifo(priority: u8) -> Result<(), ThreadError> {
    if !(1..=99).contains(&priority) {
        return Err(ThreadError::FifoOutOfRange(priority));
    }
    let fifo = SchedulingSetting::Fifo {
        priority,
        reset_on_fork: true,
    };
    set_scheduling(own_thread(), fifo).map_err(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied => ThreadError::FifoNotPermitted { priority },
        _ => ThreadError::System {
            attempt: "make a thread SCHED_FIFO",
            cause,
        },
    })
}

/// A counter that wakes whoever polls it (eventfd); safe to share between threads.
#[derive(Debug)]
pub struct WakeUp(File);

impl WakeUp {
    /// A fresh one, quiet.
    ///
    /// # Errors
    /// What `eventfd` reports, such as too many open files.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers, and makes a descriptor.
        let made = unsafe { descriptor(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) };
        Ok(Self(File::from(made?)))
    }

    /// Wakes whoever waits; never blocks.
    pub fn signal(&self) {
        // The only failure left is a counter at 2^64 - 2, and then the waiter is awake anyhow.
        let _full = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Quietens it; whether it had been signalled.
    pub fn take(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl Doorbell for WakeUp {
    fn ring(&self) {
        self.signal();
    }

    fn silence(&self) {
        self.take();
    }
}

impl AsFd for WakeUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a poll said of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorState {
    /// Nothing happened.
    Quiet,
    /// There is something to read.
    Readable,
    /// It hung up, failed or was closed: polling it again would return at once for ever.
    Gone,
}

/// A fixed set of descriptors to wait for; waiting allocates nothing.
///
/// It does not own them: one that is closed early is reported as [`DescriptorState::Gone`].
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// An empty set with room for `capacity` descriptors.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
        }
    }

    /// Forgets all descriptors, keeps the room.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor and tells its place; `None` keeps a place that is always quiet.
    pub fn push(&mut self, descriptor: Option<BorrowedFd<'_>>) -> usize {
        let fd: RawFd = descriptor.map_or(-1, |d| d.as_raw_fd());
        self.entries.push(libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        self.entries.len() - 1
    }

    /// Stops waiting for the descriptor at `place`.
    pub fn silence(&mut self, place: usize) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.fd = -1;
            entry.revents = 0;
        }
    }

    /// Waits until a descriptor is readable or `at_most` has passed; a signal ends the wait too.
    ///
    /// # Errors
    /// What `ppoll` reports other than EINTR.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        let Err(cause) = ppoll(&mut self.entries, Some(at_most)) else {
            return Ok(());
        };
        for entry in &mut self.entries {
            entry.revents = 0;
        }
        match cause.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(cause),
        }
    }

    /// What the last wait said of the descriptor at `place`.
    pub fn readiness(&self, place: usize) -> DescriptorState {
        let broken = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        match self.entries.get(place).map_or(0, |entry| entry.revents) {
            seen if seen & broken != 0 => DescriptorState::Gone,
            seen if seen & libc::POLLIN != 0 => DescriptorState::Readable,
            _ => DescriptorState::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_wake_up_is_seen_once() {
        let wake = WakeUp::new().expect("eventfd");
        let mut set = PollSet::with_capacity(2);
        let quiet = set.push(None);
        let place = set.push(Some(wake.as_fd()));
        set.wait(Duration::ZERO).expect("poll");
        assert_eq!(set.readiness(place), DescriptorState::Quiet);
        wake.signal();
        wake.signal();
        set.wait(Duration::from_secs(5)).expect("poll");
        assert_eq!(set.readiness(place), DescriptorState::Readable);
        assert_eq!(set.readiness(quiet), DescriptorState::Quiet);
        assert!(wake.take());
        assert!(!wake.take());
    }

    #[test]
    fn a_descriptor_that_is_gone_is_told_and_can_be_silenced() {
        let wake = WakeUp::new().expect("eventfd");
        let mut set = PollSet::with_capacity(1);
        let place = set.push(Some(wake.as_fd()));
        drop(wake);
        set.wait(Duration::ZERO).expect("poll");
        assert_eq!(set.readiness(place), DescriptorState::Gone);
        set.silence(place);
        set.wait(Duration::ZERO).expect("poll");
        assert_eq!(set.readiness(place), DescriptorState::Quiet);
    }

    #[test]
    fn impossible_settings_are_told_apart() {
        assert!(matches!(
            make_current_thread_fifo(0),
            Err(ThreadError::FifoOutOfRange(0))
        ));
        assert!(matches!(
            pin_current_thread(1_000_000),
            Err(ThreadError::NoSuchCpu(1_000_000))
        ));
        assert!(matches!(
            pin_current_thread(1_000),
            Err(ThreadError::NoSuchCpu(1_000))
        ));
    }

    #[test]
    fn pinning_puts_the_thread_there() {
        std::thread::spawn(|| {
            let cpu = current_cpu().expect("a CPU");
            pin_current_thread(cpu).expect("pin to the CPU that it is on");
            assert_eq!(current_cpu(), Some(cpu));
        })
        .join()
        .expect("thread");
    }
}
