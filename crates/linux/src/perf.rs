//! Software performance events: an alarm after a cgroup has used an amount of CPU time.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_time::{Duration, Instant};

use crate::system_call::{check, descriptor, map_shared};

/// The kernel's shortest period of a CPU clock event (kernel/events/core.c).
pub const SHORTEST_ALARM: Duration = Duration::from_micros(10);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const PERF_EVENT_IOC_PERIOD: libc::c_ulong = 0x4008_2404;
/// Where `data_head` and `data_tail` lie in the first page of the ring (linux/perf_event.h).
const DATA_HEAD_WORD: usize = 1024 / 8;
const DATA_TAIL_WORD: usize = DATA_HEAD_WORD + 1;

const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_RECORD_SAMPLE: u32 = 9;
/// The bit of the flags by which `clockid` counts.
const USE_CLOCK_ID: u64 = 1 << 25;

/// Why there is no alarm for a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    /// The kernel does not let us.
    #[error(
        "no permission to watch the CPU time of a cgroup; it takes root or CAP_PERFMON \
         (perf_event_paranoid alone does not allow it)"
    )]
    NotPermitted,
    /// The kernel cannot.
    #[error(
        "the kernel cannot watch the CPU time of cgroup {cgroup}: perf events for cgroups are \
         missing (CONFIG_CGROUP_PERF), or perf_event is mounted as a v1 hierarchy"
    )]
    NotSupported {
        /// The cgroup's directory.
        cgroup: PathBuf,
    },
    /// Anything else.
    #[error("cannot {attempt} for cgroup {cgroup}: {cause}")]
    System {
        /// What was tried.
        attempt: &'static str,
        /// The cgroup's directory.
        cgroup: PathBuf,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

/// The first 96 bytes of perf_event_attr, which every kernel since 4.1 takes
/// (PERF_ATTR_SIZE_VER3, and `clockid` in what was its reserve).
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

/// An alarm that went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// When (CLOCK_MONOTONIC), if the kernel said so: what passed since is how long the reader
    /// was held up.
    pub at: Option<Instant>,
}

/// Counts the CPU time that a cgroup v2 uses on one CPU, and becomes readable to poll once it has
/// used as much as it was armed for.
///
/// The event is the kernel's software CPU clock (nanoseconds): it is on only while a task of the
/// cgroup runs on that CPU, so its timer measures use and not the wall clock. Arming and reading
/// are exact when done on the same CPU, where the cgroup cannot be running at that moment.
#[derive(Debug)]
pub struct CgroupAlarm {
    event: File,
    ring: NonNull<AtomicU64>,
    ring_bytes: usize,
}

// SAFETY: the mapping lives as long as the value and is only reached through atomics.
unsafe impl Send for CgroupAlarm {}
// SAFETY: as above.
unsafe impl Sync for CgroupAlarm {}

impl CgroupAlarm {
    /// Watches `cgroup` (an absolute cgroup v2 directory) on `cpu`, armed for `first`.
    ///
    /// # Errors
    /// See [`AlarmError`].
    pub fn open(cgroup: &Path, cpu: u32, first: Duration) -> Result<Self, AlarmError> {
        let system = |attempt, cause| AlarmError::System {
            attempt,
            cgroup: cgroup.into(),
            cause,
        };
        let directory = File::open(cgroup).map_err(|cause| system("open the directory", cause))?;
        let event =
            open_event(&directory, cpu, first).map_err(|cause| match cause.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => AlarmError::NotPermitted,
                Some(libc::EINVAL | libc::EBADF | libc::ENOSYS | libc::EOPNOTSUPP) => {
                    AlarmError::NotSupported {
                        cgroup: cgroup.into(),
                    }
                }
                _ => system("open a performance event", cause),
            })?;
        let (ring, ring_bytes) =
            map_ring(&event).map_err(|cause| system("map the ring of an event", cause))?;
        Ok(Self {
            event,
            ring,
            ring_bytes,
        })
    }

    /// Asks to be readable once the cgroup has used `length` more from here on; an alarm that was
    /// pending is forgotten. Shorter than [`SHORTEST_ALARM`] is as short as that.
    ///
    /// # Errors
    /// What the ioctl reports; not expected once opened.
    pub fn arm(&self, length: Duration) -> io::Result<()> {
        let period_ns: u64 = length.max(SHORTEST_ALARM).as_nanos();
        self.take();
        // SAFETY: the ioctl reads one u64 through the pointer.
        let armed =
            unsafe { libc::ioctl(self.event.as_raw_fd(), PERF_EVENT_IOC_PERIOD, &period_ns) };
        check(armed).map(drop)
    }

    /// Whether it has gone off since it was last asked, and when first.
    pub fn take(&self) -> Option<Overflow> {
        let head = self.word(DATA_HEAD_WORD).load(Ordering::Acquire);
        let tail_word = self.word(DATA_TAIL_WORD);
        // Only this side writes the tail.
        let tail = tail_word.load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        // A record is a header (kind in the low half) and the time: two words, never broken
        // across the end of the ring. Others than ours are not looked into.
        let page = self.ring_bytes / 2;
        let place = (page + tail as usize % page) / 8;
        let header = self.word(place).load(Ordering::Relaxed);
        let at = (header as u32 == PERF_RECORD_SAMPLE && place + 1 < self.ring_bytes / 8)
            .then(|| Instant::from_nanos(self.word(place + 1).load(Ordering::Relaxed)));
        tail_word.store(head, Ordering::Release);
        Some(Overflow { at })
    }

    /// CPU time that the cgroup has used on this CPU since the event was opened.
    ///
    /// # Errors
    /// What the read reports; UnexpectedEof where the event died with its cgroup.
    pub fn used(&self) -> io::Result<Duration> {
        let mut bytes = [0; 8];
        (&self.event).read_exact(&mut bytes)?;
        Ok(Duration::from_nanos(u64::from_ne_bytes(bytes)))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        let index = index.min(self.ring_bytes / 8 - 1);
        // SAFETY: the mapping holds this word, aligned; it lives as long as `self`.
        unsafe { self.ring.add(index).as_ref() }
    }
}

impl AsFd for CgroupAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for CgroupAlarm {
    fn drop(&mut self) {
        // SAFETY: mapped by `map_ring` with this length; nobody borrows it any more.
        let _cannot_fail = unsafe { libc::munmap(self.ring.as_ptr().cast(), self.ring_bytes) };
    }
}

fn open_event(cgroup: &File, cpu: u32, first: Duration) -> io::Result<File> {
    let attributes = EventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<EventAttributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: first.max(SHORTEST_ALARM).as_nanos(),
        sample_type: PERF_SAMPLE_TIME,
        flags: USE_CLOCK_ID,
        wakeup_events: 1,
        clockid: libc::CLOCK_MONOTONIC,
        ..EventAttributes::default()
    };
    // SAFETY: the attributes are valid and as long as they say; the kernel reads them only, and makes a
    // descriptor.
    let event = unsafe {
        descriptor(libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            cgroup.as_raw_fd(),
            cpu as libc::c_int,
            -1 as libc::c_int,
            PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC,
        ) as libc::c_int)
    };
    event.map(File::from)
}

/// Maps the head page and one page of records: without a ring, poll never waits on an event.
fn map_ring(event: &File) -> io::Result<(NonNull<AtomicU64>, usize)> {
    // SAFETY: sysconf takes a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let bytes = 2 * page;
    Ok((map_shared(event, bytes, 0)?, bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn attributes_have_the_size_that_every_kernel_takes() {
        assert_eq!(size_of::<EventAttributes>(), 96);
    }

    #[test]
    fn a_directory_that_is_no_cgroup_is_refused() {
        let error =
            CgroupAlarm::open(Path::new("/"), 0, Duration::from_millis(1)).expect_err("no cgroup");
        assert!(
            matches!(
                error,
                AlarmError::NotSupported { .. } | AlarmError::NotPermitted
            ),
            "{error}"
        );
    }
}
