//! What threads hand each other through memory where one of them must never wait.
//!
//! A [`NoticeBoard`] passes numbers that are read together, a [`Mailbox`] passes requests, answers and
//! notes, [`SampleWriter`] and [`read_sample`] the newest message, and [`RingSender`] and [`RingReceiver`] messages in order.
//! All are cores: clocks, descriptors and the meaning of the numbers stay with their users. Their
//! locks and atomics are loom's under `cfg(loom)`, so that `make loom` runs the tests in every order in
//! which threads can interleave and in which memory may become visible; elsewhere they are the standard
//! library's, and the same tests run on real threads.

mod mailbox;
mod message_queue;
mod notice_board;
mod sampling_slots;
mod seqlock;

#[cfg(test)]
mod interleavings;

pub use mailbox::{Doorbell, Mailbox};
pub use message_queue::{ReceivedMessage, RingError, RingLayout, RingReceiver, RingSender};
pub use notice_board::NoticeBoard;
pub use sampling_slots::{ReadSample, SampleWriter, SlotError, SlotLayout, read_sample};

/// Words that others may write while they are read.
pub trait ReadableWords {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them, which there is.
    fn load(&self, place: usize, order: Ordering) -> u64;
}

impl ReadableWords for [AtomicU64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, place: usize, order: Ordering) -> u64 {
        self[place].load(order)
    }
}

/// Copies a message out of words that hold eight bytes each, from the word at `begin` on, to the whole of `room`.
fn copy_bytes<W: ReadableWords + ?Sized>(words: &W, begin: usize, room: &mut [u8]) {
    for (place, bytes) in room.chunks_mut(8).enumerate() {
        let whole = words.load(begin + place, Ordering::Relaxed).to_le_bytes();
        bytes.copy_from_slice(&whole[..bytes.len()]);
    }
}

/// Puts a message into words.
fn put_bytes(words: &[AtomicU64], message: &[u8]) {
    for (word, bytes) in words.iter().zip(message.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

#[cfg(loom)]
use loom::{hint, sync};
#[cfg(not(loom))]
use std::{hint, sync};
use sync::atomic::{AtomicU64, Ordering};
