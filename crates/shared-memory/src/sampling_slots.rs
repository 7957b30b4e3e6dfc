//! The newest message of one writer, for any number of readers that cannot write: the memory of a sampling port.
//!
//! The writer puts messages into slots in turns and then says which is the newest, so that a reader that copies the newest
//! message is disturbed only if the writer comes round to the same slot meanwhile: after as many messages as there are
//! slots. Each slot is a sequence lock with the number of its message (Boehm, MSPC 2012, has the orders of memory). A reader
//! makes [`ATTEMPTS`] attempts and then says that it was overtaken: the steps of both sides are bounded, whatever the other
//! side does, and the reader needs no right to write.
//!
//! Readers trust nothing: a garbled memory yields a refusal or garbled bytes, and nothing worse.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::{ReadableWords, copy_bytes, put_bytes};

/// The words before the first slot: the number of the newest message.
const HEADER_WORDS: usize = 1;
/// The words of a slot before its bytes: the number of its message, the writer's stamp, and the length.
const SLOT_HEADER_WORDS: usize = 3;
/// How often a reader begins anew before it gives up.
const ATTEMPTS: u32 = 3;

/// How the memory of a sampling port is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    /// The longest message, in bytes.
    pub longest: usize,
    /// The number of slots; two at least.
    pub slots: usize,
}

impl SlotLayout {
    fn slot_words(self) -> usize {
        SLOT_HEADER_WORDS + self.longest.div_ceil(8)
    }

    /// The number of words that it takes.
    pub fn words(self) -> usize {
        HEADER_WORDS + self.slots * self.slot_words()
    }

    /// Where the slot of a message begins.
    fn slot(self, number: u64) -> usize {
        let place = (number % self.slots as u64) as usize;
        HEADER_WORDS + place * self.slot_words()
    }
}

/// A message that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSample {
    /// Its number, from 1.
    pub number: u64,
    /// The writer's stamp.
    pub stamp: u64,
    /// Its length in bytes.
    pub length: usize,
}

/// Why nothing was read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// The memory is smaller than the layout says, or what stands in it cannot be.
    Garbled,
    /// The writer came round to the slot in every attempt.
    Overtaken,
    /// The message is longer than a slot, or than the reader's room.
    TooLong,
}

/// The side that writes; there is one.
#[derive(Debug)]
pub struct SampleWriter<'a> {
    words: &'a [AtomicU64],
    layout: SlotLayout,
    number: u64,
}

impl<'a> SampleWriter<'a> {
    /// Goes on where the memory stands, which is zero at first.
    ///
    /// # Errors
    /// [`SlotError::Garbled`] for a memory of another size.
    pub fn new(words: &'a [AtomicU64], layout: SlotLayout) -> Result<Self, SlotError> {
        if words.len() < layout.words() || layout.slots < 2 {
            return Err(SlotError::Garbled);
        }
        let number = words[0].load(Ordering::Relaxed);
        Ok(Self {
            words,
            layout,
            number,
        })
    }

    /// Makes a message the newest one; its number.
    ///
    /// # Errors
    /// [`SlotError::TooLong`]; the message before stays the newest.
    pub fn write(&mut self, stamp: u64, message: &[u8]) -> Result<u64, SlotError> {
        if message.len() > self.layout.longest {
            return Err(SlotError::TooLong);
        }
        let number = self.number + 1;
        let begin = self.layout.slot(number);
        let slot = &self.words[begin..begin + self.layout.slot_words()];
        let [lock, at, length, body @ ..] = slot else {
            return Err(SlotError::Garbled);
        };
        lock.store(0, Ordering::Relaxed);
        // Who reads a word of the new message finds the lock changed after that.
        fence(Ordering::Release);
        at.store(stamp, Ordering::Relaxed);
        length.store(message.len() as u64, Ordering::Relaxed);
        put_bytes(body, message);
        lock.store(number, Ordering::Release);
        self.words[0].store(number, Ordering::Release);
        self.number = number;
        Ok(number)
    }
}

/// Copies the newest message to the begin of `room`; `None` before the first one.
///
/// # Errors
/// See [`SlotError`].
pub fn read_sample<W: ReadableWords + ?Sized>(
    words: &W,
    layout: SlotLayout,
    room: &mut [u8],
) -> Result<Option<ReadSample>, SlotError> {
    if words.count() < layout.words() || layout.slots < 2 {
        return Err(SlotError::Garbled);
    }
    for _ in 0..ATTEMPTS {
        let number = words.load(0, Ordering::Acquire);
        if number == 0 {
            return Ok(None);
        }
        let lock = layout.slot(number);
        if words.load(lock, Ordering::Acquire) != number {
            continue;
        }
        let stamp = words.load(lock + 1, Ordering::Relaxed);
        let length = words.load(lock + 2, Ordering::Relaxed);
        let copied = copy(words, (lock + SLOT_HEADER_WORDS, length), layout, room);
        fence(Ordering::Acquire);
        if words.load(lock, Ordering::Relaxed) != number {
            continue;
        }
        let length = copied?;
        return Ok(Some(ReadSample {
            number,
            stamp,
            length,
        }));
    }
    Err(SlotError::Overtaken)
}

/// Copies so many bytes from the word at `begin` on; how many.
fn copy<W: ReadableWords + ?Sized>(
    words: &W,
    (begin, length): (usize, u64),
    layout: SlotLayout,
    room: &mut [u8],
) -> Result<usize, SlotError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > layout.longest {
        return Err(SlotError::Garbled);
    }
    let room = room.get_mut(..length).ok_or(SlotError::TooLong)?;
    copy_bytes(words, begin, room);
    Ok(length)
}
