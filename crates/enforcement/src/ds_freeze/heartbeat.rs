//! How another process can tell that a manager is alive.
//!
//! Each manager has a row of words in memory shared between processes. Before it sleeps it writes
//! down until when it promises to be back; a watchdog that finds a promise broken knows that the
//! manager is stuck or dead, and thaws the domains itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_linux::memory::SharedWords;
use tailbound_time::{Duration, Instant};

/// "tbheart" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"tbheart\x01");
/// A row fills a cache line, so that managers do not disturb each other.
const ROW_WORDS: usize = 8;

const STATE: usize = 0;
const CPU: usize = 1;
const PROCESS: usize = 2;
const THREAD: usize = 3;
const PROMISE: usize = 4;
const BEATS: usize = 5;

const UNUSED: u64 = 0;
const RUNNING: u64 = 1;
const STOPPED: u64 = 2;

/// Shared memory with a row for every manager of this process; hand [`AsFd::as_fd`] to the
/// watchdog process.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    words: Arc<SharedWords>,
}

impl Heartbeat {
    /// Memory for `managers` managers (one per served CPU).
    ///
    /// # Errors
    /// What the kernel says to memfd_create and mmap.
    pub fn create(managers: usize) -> io::Result<Self> {
        let words = SharedWords::create((managers + 1) * ROW_WORDS)?;
        if let Some(first) = words.words().first() {
            first.store(MAGIC, Ordering::Release);
        }
        Ok(Self {
            words: Arc::new(words),
        })
    }

    /// The row of manager number `index`, from 0; `None` where there is no such row.
    pub fn row(&self, index: usize) -> Option<HeartbeatRow> {
        row_of(&self.words, index)?;
        Some(HeartbeatRow {
            words: Arc::clone(&self.words),
            index,
        })
    }
}

impl AsFd for Heartbeat {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }
}

/// The row that one manager writes.
#[derive(Debug)]
pub struct HeartbeatRow {
    words: Arc<SharedWords>,
    index: usize,
}

impl HeartbeatRow {
    /// Who serves which CPU shows itself from here on, and will be back before `until`.
    pub fn begin(&self, cpu: u32, process: u32, thread: u32, until: Instant) {
        self.set(CPU, cpu.into());
        self.set(PROCESS, process.into());
        self.set(THREAD, thread.into());
        self.set(PROMISE, until.as_nanos());
        self.set(STATE, RUNNING);
    }

    /// The manager will be back before `until` of CLOCK_MONOTONIC.
    pub fn promise(&self, until: Instant) {
        self.set(PROMISE, until.as_nanos());
        if let Some(beats) = self.word(BEATS) {
            beats.store(beats.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    pub(super) fn end(&self) {
        self.set(STATE, STOPPED);
    }

    fn set(&self, place: usize, value: u64) {
        if let Some(word) = self.word(place) {
            word.store(value, Ordering::Release);
        }
    }

    fn word(&self, place: usize) -> Option<&AtomicU64> {
        row_of(&self.words, self.index)?.get(place)
    }
}

/// Whether a manager keeps its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// No manager has used this row yet.
    Unused,
    /// It promises to be back before this instant (CLOCK_MONOTONIC), which is still to come.
    Alive {
        /// When to look again.
        until: Instant,
    },
    /// It is stuck or dead: thaw what it serves.
    Overdue {
        /// How long its promise has been broken.
        by: Duration,
    },
    /// It ended in good order and left everything thawed.
    Stopped,
}

/// What the row of a manager says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerPulse {
    /// Whether it keeps its promises.
    pub liveness: Liveness,
    /// The CPU that it serves.
    pub cpu: u32,
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// How often it has promised.
    pub beats: u64,
}

/// The watchdog's view of the managers of another process.
#[derive(Debug)]
pub struct WatchdogView {
    words: SharedWords,
}

impl WatchdogView {
    /// Looks into the memory that the process of the managers passed on.
    ///
    /// # Errors
    /// InvalidData where `descriptor` is no heartbeat memory of this version.
    pub fn open(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let words = SharedWords::open(descriptor)?;
        let magic = words
            .words()
            .first()
            .map(|word| word.load(Ordering::Acquire));
        if magic != Some(MAGIC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory is no heartbeat of this version of Tailbound; watchdog and managers \
                 have to come from the same build",
            ));
        }
        Ok(Self { words })
    }

    /// How many managers there is room for.
    pub fn rows(&self) -> usize {
        (self.words.words().len() / ROW_WORDS).saturating_sub(1)
    }

    /// How manager number `index` is at `now` of CLOCK_MONOTONIC; `None` where there is no such
    /// row.
    pub fn pulse(&self, index: usize, now: Instant) -> Option<ManagerPulse> {
        let row = row_of(&self.words, index)?;
        let read = |place: usize| row.get(place).map_or(0, |w| w.load(Ordering::Acquire));
        let state = read(STATE);
        let until = Instant::from_nanos(read(PROMISE));
        let liveness = match state {
            UNUSED => Liveness::Unused,
            STOPPED => Liveness::Stopped,
            // Anything else is a running manager, or one that scribbled over its own row: both
            // are judged by the promise.
            _ => match now.checked_since(until) {
                Some(by) => Liveness::Overdue { by },
                None => Liveness::Alive { until },
            },
        };
        Some(ManagerPulse {
            liveness,
            cpu: u32::try_from(read(CPU)).unwrap_or(u32::MAX),
            process: u32::try_from(read(PROCESS)).unwrap_or(0),
            thread: u32::try_from(read(THREAD)).unwrap_or(0),
            beats: read(BEATS),
        })
    }
}

fn row_of(words: &SharedWords, index: usize) -> Option<&[AtomicU64]> {
    let start = index.checked_add(1)?.checked_mul(ROW_WORDS)?;
    words.words().get(start..start.checked_add(ROW_WORDS)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn a_broken_promise_is_seen_from_the_other_mapping() {
        let heartbeat = Heartbeat::create(2).expect("memory");
        let view = WatchdogView::open(heartbeat.as_fd()).expect("view");
        assert_eq!(view.rows(), 2);
        assert_eq!(
            view.pulse(1, at(0)).map(|p| p.liveness),
            Some(Liveness::Unused)
        );
        let row = heartbeat.row(1).expect("row");
        row.begin(7, 10, 11, at(50));
        row.promise(at(100));
        let pulse = view.pulse(1, at(99)).expect("row");
        assert_eq!(pulse.liveness, Liveness::Alive { until: at(100) });
        assert_eq!(
            (pulse.cpu, pulse.process, pulse.thread, pulse.beats),
            (7, 10, 11, 1)
        );
        let liveness = |row, now| view.pulse(row, now).map(|pulse| pulse.liveness);
        let by = Duration::from_millis(3);
        assert_eq!(liveness(1, at(103)), Some(Liveness::Overdue { by }));
        assert_eq!(liveness(0, at(103)), Some(Liveness::Unused));
        row.end();
        assert_eq!(liveness(1, at(1000)), Some(Liveness::Stopped));
    }

    #[test]
    fn there_are_no_rows_beyond_the_last() {
        let heartbeat = Heartbeat::create(1).expect("memory");
        assert!(heartbeat.row(1).is_none());
        assert!(heartbeat.row(usize::MAX).is_none());
        let view = WatchdogView::open(heartbeat.as_fd()).expect("view");
        assert!(view.pulse(1, at(0)).is_none());
    }

    #[test]
    fn other_memory_is_refused() {
        let other = SharedWords::create(16).expect("memory");
        assert!(WatchdogView::open(other.as_fd()).is_err());
    }

    proptest! {
        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u64>(), 24), now in any::<u64>()) {
            let heartbeat = Heartbeat::create(2).expect("memory");
            for (word, value) in heartbeat.words.words().iter().zip(&content).skip(1) {
                word.store(*value, Ordering::Relaxed);
            }
            let view = WatchdogView::open(heartbeat.as_fd()).expect("view");
            for row in 0..3 {
                let _any = view.pulse(row, Instant::from_nanos(now));
            }
        }
    }
}
