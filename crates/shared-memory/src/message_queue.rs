//! Messages from one sender to one receiver, in order, none lost unheard: the memory of a queuing port.
//!
//! The slots and the count of sent messages are the sender's memory, the count of received ones is the receiver's. Each
//! side writes only its own and needs no right to write the other's. A full ring refuses a message, an empty one has none:
//! neither side waits. Both counts only grow (Lamport 1977 shows that one writer a count is enough).
//!
//! Neither side trusts the other: a count that cannot be is [`RingError::Garbled`], and the slots of a garbled sender
//! yield garbled bytes at worst.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{ReadableWords, copy_bytes, put_bytes};

/// The words before the first slot: the count of sent messages.
const HEADER_WORDS: usize = 1;
/// The words of a slot before its bytes: the sender's stamp, and the length.
const SLOT_HEADER_WORDS: usize = 2;

/// How the memory of a queuing port is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// The longest message, in bytes.
    pub longest: usize,
    /// The number of messages that may wait; one at least.
    pub slots: usize,
}

impl RingLayout {
    /// The words of the receiver's memory: the count of received messages.
    pub const RECEIVER_WORDS: usize = 1;

    fn slot_words(self) -> usize {
        SLOT_HEADER_WORDS + self.longest.div_ceil(8)
    }

    /// The number of words of the sender's memory.
    pub fn sender_words(self) -> usize {
        HEADER_WORDS + self.slots * self.slot_words()
    }

    fn fits(self, sender: usize, receiver: usize) -> Result<(), RingError> {
        let fits =
            sender >= self.sender_words() && receiver >= Self::RECEIVER_WORDS && self.slots > 0;
        fits.then_some(()).ok_or(RingError::Garbled)
    }

    /// Where the slot of a message begins, by how many were sent before it.
    fn slot(self, before: u64) -> usize {
        let place = (before % self.slots as u64) as usize;
        HEADER_WORDS + place * self.slot_words()
    }

    /// How many messages wait.
    fn waiting(self, sent: u64, received: u64) -> Result<u64, RingError> {
        let waiting = sent.checked_sub(received);
        let waiting = waiting.filter(|waiting| *waiting <= self.slots as u64);
        waiting.ok_or(RingError::Garbled)
    }
}

/// Why a message was not sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// As many messages wait as the ring holds.
    Full,
    /// The message is longer than a slot, or than the receiver's room.
    TooLong,
    /// A memory is smaller than the layout says, or a count stands in it that cannot be.
    Garbled,
}

/// The side that sends; there is one.
#[derive(Debug)]
pub struct RingSender<'a, W: ReadableWords + ?Sized> {
    own: &'a [AtomicU64],
    receiver: &'a W,
    layout: RingLayout,
    sent: u64,
}

impl<'a, W: ReadableWords + ?Sized> RingSender<'a, W> {
    /// Goes on where the memories stand, which are zero at first.
    ///
    /// # Errors
    /// [`RingError::Garbled`] for memories of other sizes.
    pub fn new(
        own: &'a [AtomicU64],
        receiver: &'a W,
        layout: RingLayout,
    ) -> Result<Self, RingError> {
        layout.fits(own.len(), receiver.count())?;
        Ok(Self {
            sent: own[0].load(Ordering::Relaxed),
            own,
            receiver,
            layout,
        })
    }

    /// Sends a message; its number, from 1.
    ///
    /// # Errors
    /// See [`RingError`]; nothing is sent then.
    pub fn send(&mut self, stamp: u64, message: &[u8]) -> Result<u64, RingError> {
        if message.len() > self.layout.longest {
            return Err(RingError::TooLong);
        }
        let sent = self.sent;
        // The receiver has done with the slots that it counts.
        let received = self.receiver.load(0, Ordering::Acquire);
        if self.layout.waiting(sent, received)? == self.layout.slots as u64 {
            return Err(RingError::Full);
        }
        let begin = self.layout.slot(sent);
        let slot = &self.own[begin..begin + self.layout.slot_words()];
        let [at, length, body @ ..] = slot else {
            return Err(RingError::Garbled);
        };
        at.store(stamp, Ordering::Relaxed);
        length.store(message.len() as u64, Ordering::Relaxed);
        put_bytes(body, message);
        self.own[0].store(sent + 1, Ordering::Release);
        self.sent = sent + 1;
        Ok(self.sent)
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Its number, from 1.
    pub number: u64,
    /// The sender's stamp.
    pub stamp: u64,
    /// Its length in bytes.
    pub length: usize,
    /// How many wait behind it.
    pub waiting: u64,
}

/// The side that receives; there is one.
#[derive(Debug)]
pub struct RingReceiver<'a, W: ReadableWords + ?Sized> {
    own: &'a [AtomicU64],
    sender: &'a W,
    layout: RingLayout,
    received: u64,
}

impl<'a, W: ReadableWords + ?Sized> RingReceiver<'a, W> {
    /// Goes on where the memories stand, which are zero at first.
    ///
    /// # Errors
    /// [`RingError::Garbled`] for memories of other sizes.
    pub fn new(own: &'a [AtomicU64], sender: &'a W, layout: RingLayout) -> Result<Self, RingError> {
        layout.fits(sender.count(), own.len())?;
        Ok(Self {
            received: own[0].load(Ordering::Relaxed),
            own,
            sender,
            layout,
        })
    }

    /// Copies the next message to the begin of `room` and takes it out; `None` from an empty ring.
    ///
    /// # Errors
    /// See [`RingError`]. A message that is too long for the room stays the next one.
    pub fn receive(&mut self, room: &mut [u8]) -> Result<Option<ReceivedMessage>, RingError> {
        let received = self.received;
        let sent = self.sender.load(0, Ordering::Acquire);
        let waiting = self.layout.waiting(sent, received)?;
        if waiting == 0 {
            return Ok(None);
        }
        let slot = self.layout.slot(received);
        let stamp = self.sender.load(slot, Ordering::Relaxed);
        let length = self.sender.load(slot + 1, Ordering::Relaxed);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.layout.longest {
            return Err(RingError::Garbled);
        }
        let room = room.get_mut(..length).ok_or(RingError::TooLong)?;
        copy_bytes(self.sender, slot + SLOT_HEADER_WORDS, room);
        // The sender may write the slot again from here on.
        self.received = received + 1;
        self.own[0].store(self.received, Ordering::Release);
        Ok(Some(ReceivedMessage {
            number: received + 1,
            stamp,
            length,
            waiting: waiting - 1,
        }))
    }
}
