//! A sequence lock: numbers of one writer that readers see together or not at all, without a lock.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Three numbers that one thread writes and others read together.
#[derive(Debug, Default)]
pub(crate) struct Seqlock {
    /// Odd during a write; twice the count of writes otherwise.
    version: AtomicU64,
    numbers: [AtomicU64; 3],
}

impl Seqlock {
    /// Writes all numbers; for the only writer.
    pub(crate) fn write(&self, numbers: [u64; 3]) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version.is_multiple_of(2), "a second writer");
        self.version.store(version + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for (place, number) in self.numbers.iter().zip(numbers) {
            place.store(number, Ordering::SeqCst);
        }
        self.version.store(version + 2, Ordering::SeqCst);
    }

    /// Reads all numbers; `None` before the first write. All accesses are sequentially consistent, so of two
    /// threads that each write one lock and then read the lock of the other, at least one sees the write of
    /// the other, or meets it.
    pub(crate) fn read(&self) -> Result<Option<[u64; 3]>, BeingWritten> {
        let before = self.version.load(Ordering::SeqCst);
        let numbers = [0, 1, 2].map(|place: usize| self.numbers[place].load(Ordering::SeqCst));
        fence(Ordering::SeqCst);
        let after = self.version.load(Ordering::SeqCst);
        if before != after || !before.is_multiple_of(2) {
            return Err(BeingWritten);
        }
        Ok((before > 0).then_some(numbers))
    }
}

/// A reader met the writer at its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeingWritten;
