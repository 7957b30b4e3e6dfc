//! The buffer of events: slots of equal size, any number of writers or one of its own, one reader, and no waiting.
//!
//! The algorithm is that of Brandenburg and Anderson (Feather-Trace, OSPERT 2007, figure 3). A writer first takes one
//! of the free slots off their count and then draws the index of its slot, so that no writer waits for another one and
//! none retries. A full buffer loses the event and counts the loss. The count of free slots falls below zero while
//! writers that found the buffer full have not yet given back what they took; it is signed for that reason.
//!
//! A slot is free, busy or ready. The reader takes slots in the order of their indices and stops before a busy one,
//! although later ones may be ready: the order is kept, and a writer that was interrupted delays the reader, but no
//! other writer. After a crash [`Ring::salvage`] passes over busy slots and counts them.
//!
//! The number of slots is a power of two and so divides 2^32: indices may overflow. Every access is through an atomic,
//! so that a garbled buffer yields garbled events and nothing worse. Steps are bounded where the processor adds
//! atomically in one instruction, as x86-64 and ARM since version 8.1 do.

#[cfg(loom)]
use loom::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The words of a slot before its arguments: the marker and the instant.
pub const SLOT_HEADER_WORDS: usize = 2;
const BUSY: u64 = 1;
const READY: u64 = 2;
const STATE: u64 = 0xff;

/// The counters of a ring, those of the writers apart from those of the reader.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingHeader {
    /// Free slots; below zero for moments. Unused by a ring with one writer.
    free: AtomicI32,
    /// Slots drawn since the beginning, modulo 2^32.
    written: AtomicU32,
    /// Events lost to a full ring, modulo 2^32.
    lost: AtomicU32,
    /// The thread that alone writes, or 0.
    owner: AtomicU32,
    /// The losses that an event has been marked with.
    noted_loss: AtomicU32,
    writers_line: [std::sync::atomic::AtomicU32; 11],
    /// Slots read since the beginning, modulo 2^32.
    read: AtomicU32,
    reader_line: [std::sync::atomic::AtomicU32; 15],
}

impl RingHeader {
    /// Where in the header the number of free slots lies; the rest of an empty ring is zero.
    #[cfg(not(loom))]
    pub(crate) const FREE_OFFSET: usize = std::mem::offset_of!(RingHeader, free);

    /// The header of an empty ring with `slots` free slots.
    pub fn new(slots: u32) -> Self {
        Self {
            free: AtomicI32::new(slots.cast_signed()),
            written: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            noted_loss: AtomicU32::new(0),
            writers_line: Default::default(),
            read: AtomicU32::new(0),
            reader_line: Default::default(),
        }
    }
}

/// The content of a slot but its instant and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLabel {
    /// The trigger, by its place in the table of names, from 1.
    pub site: u16,
    /// The thread that wrote, as the kernel numbers it.
    pub thread: u32,
    /// Whether the ring has lost events between the one before and this one; writers set it themselves.
    pub follows_loss: bool,
    /// The number of arguments that the trigger gave; a slot may have room for fewer.
    pub arguments: u8,
}

/// In the number of arguments: the ring lost events before this one. In a ring for all threads, any of them lost them.
const FOLLOWS_LOSS: u8 = 0x80;

impl SlotLabel {
    fn packed(self, state: u64) -> u64 {
        let shape = self.arguments | if self.follows_loss { FOLLOWS_LOSS } else { 0 };
        state | u64::from(shape) << 8 | u64::from(self.site) << 16 | u64::from(self.thread) << 32
    }

    fn unpacked(marker: u64) -> Self {
        Self {
            follows_loss: (marker >> 8) as u8 & FOLLOWS_LOSS != 0,
            arguments: (marker >> 8) as u8 & !FOLLOWS_LOSS,
            site: (marker >> 16) as u16,
            thread: (marker >> 32) as u32,
        }
    }
}

/// A ring: its counters and its slots, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    header: &'a RingHeader,
    words: &'a [AtomicU64],
    slot_words: usize,
    mask: u32,
    /// Whether many threads write.
    is_shared: bool,
}

impl<'a> Ring<'a> {
    /// A ring of slots of `slot_words` words each; `None` unless `words` is a power of two of such slots, 2^30 at most.
    pub fn new(
        header: &'a RingHeader,
        words: &'a [AtomicU64],
        slot_words: usize,
        is_shared: bool,
    ) -> Option<Self> {
        let is_whole = slot_words > SLOT_HEADER_WORDS && words.len().is_multiple_of(slot_words);
        let slots = u32::try_from(words.len().checked_div(slot_words)?).ok()?;
        let is_ring = is_whole && slots.is_power_of_two() && slots <= 1 << 30;
        is_ring.then_some(Self {
            header,
            words,
            slot_words,
            mask: slots - 1,
            is_shared,
        })
    }

    /// Makes the calling thread the only writer; fails if another thread is. For rings that are not shared.
    pub fn claim(&self, thread: u32) -> bool {
        let owner = &self.header.owner;
        owner.load(Ordering::Relaxed) == 0
            && owner
                .compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Leaves the ring to the next thread that claims it; for its only writer.
    pub fn release(&self) {
        self.header.owner.store(0, Ordering::Release);
    }

    /// Writes an event, or counts it as lost if no slot is free; tells which.
    pub fn write(&self, label: SlotLabel, instant: u64, arguments: &[u64]) -> bool {
        let Some(index) = self.reserve() else {
            return false;
        };
        let slot = self.slot(index);
        slot[0].store(BUSY, Ordering::Relaxed);
        slot[1].store(instant, Ordering::Relaxed);
        for (word, argument) in slot[SLOT_HEADER_WORDS..].iter().zip(arguments) {
            word.store(*argument, Ordering::Relaxed);
        }
        let follows_loss = label.follows_loss || self.notes_loss();
        let label = SlotLabel {
            follows_loss,
            ..label
        };
        slot[0].store(label.packed(READY), Ordering::Release);
        true
    }

    fn reserve(&self) -> Option<u32> {
        let header = self.header;
        if !self.is_shared {
            let written = header.written.load(Ordering::Relaxed);
            // Acquires the slots that the reader has freed.
            let read = header.read.load(Ordering::Acquire);
            if written.wrapping_sub(read) > self.mask {
                let lost = header.lost.load(Ordering::Relaxed);
                header.lost.store(lost.wrapping_add(1), Ordering::Relaxed);
                return None;
            }
            // Before the slot is written, so that a crash in between shows.
            header
                .written
                .store(written.wrapping_add(1), Ordering::Relaxed);
            return Some(written);
        }
        // Acquires the slots that the reader has freed: every change of the count is a read-modify-write, so that the
        // reader's release carries over those of other writers.
        if header.free.fetch_sub(1, Ordering::Acquire) <= 0 {
            header.free.fetch_add(1, Ordering::Relaxed);
            header.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // Acquires and releases: the slot may have been freed for a writer that reserved later and drew earlier.
        Some(header.written.fetch_add(1, Ordering::AcqRel))
    }

    fn slot(&self, index: u32) -> &'a [AtomicU64] {
        let first = (index & self.mask) as usize * self.slot_words;
        &self.words[first..first + self.slot_words]
    }

    /// Whether the ring has lost events since the last time that this was asked.
    fn notes_loss(&self) -> bool {
        let lost = self.header.lost.load(Ordering::Relaxed);
        let is_new = self.header.noted_loss.load(Ordering::Relaxed) != lost;
        if is_new {
            self.header.noted_loss.store(lost, Ordering::Relaxed);
        }
        is_new
    }

    /// Reads the oldest event if it is ready; for one reader at a time. The arguments go to the front of `arguments`.
    pub fn read(&self, arguments: &mut [u64]) -> Option<(SlotLabel, u64)> {
        let read = self.header.read.load(Ordering::Relaxed);
        let event = self.ready(read, arguments)?;
        self.slot(read)[0].store(0, Ordering::Relaxed);
        self.header
            .read
            .store(read.wrapping_add(1), Ordering::Release);
        if self.is_shared {
            self.header.free.fetch_add(1, Ordering::Release);
        }
        Some(event)
    }

    fn ready(&self, index: u32, arguments: &mut [u64]) -> Option<(SlotLabel, u64)> {
        let slot = self.slot(index);
        let marker = slot[0].load(Ordering::Acquire);
        if marker & STATE != READY {
            return None;
        }
        for (argument, word) in arguments.iter_mut().zip(&slot[SLOT_HEADER_WORDS..]) {
            *argument = word.load(Ordering::Relaxed);
        }
        Some((SlotLabel::unpacked(marker), slot[1].load(Ordering::Relaxed)))
    }

    /// Visits every event of a ring without living writers, those behind slots that were being written too; returns
    /// the number of events that were being written. Changes nothing.
    pub fn salvage(
        &self,
        arguments: &mut [u64],
        mut visit: impl FnMut(SlotLabel, u64, &[u64]),
    ) -> u32 {
        let read = self.header.read.load(Ordering::Relaxed);
        let written = self.header.written.load(Ordering::Relaxed);
        // A garbled count is cut to the slots that there are.
        let drawn = written.wrapping_sub(read).min(self.mask + 1);
        let mut unfinished = 0;
        if self.is_shared {
            // Slots that writers took off the count, and of which they drew no index any more.
            let free = self.header.free.load(Ordering::Relaxed);
            let beyond = i64::from(self.mask + 1 - drawn);
            // A garbled count is cut to the slots behind those that were drawn.
            unfinished += (beyond - i64::from(free)).clamp(0, beyond) as u32;
        }
        for offset in 0..drawn {
            match self.ready(read.wrapping_add(offset), arguments) {
                Some((label, instant)) => visit(label, instant, arguments),
                None => unfinished += 1,
            }
        }
        unfinished
    }

    /// The number of events lost to a full ring.
    pub fn lost(&self) -> u32 {
        self.header.lost.load(Ordering::Relaxed)
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.mask + 1
    }
}
