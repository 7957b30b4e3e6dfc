//! Queuing ports: messages in order.

use std::os::fd::{AsFd, BorrowedFd};

use tailbound_linux::clock::Monotonic;
use tailbound_shared_memory::{RingError, RingLayout, RingReceiver, RingSender};
use tailbound_time::{Clock, Duration, Instant};

use crate::memory::{OwnMemory, PortKind, TheirMemory, checked};
use crate::{PortError, PortSize, age_of};

fn layout(size: PortSize) -> RingLayout {
    RingLayout {
        longest: size.longest,
        slots: size.messages,
    }
}

/// The side that sends. [`AsFd`] is for the receiver, whose own descriptor comes back to [`QueuingSender::connect`].
#[derive(Debug)]
pub struct QueuingSender {
    pub(crate) own: OwnMemory,
    receiver: Option<TheirMemory>,
    size: PortSize,
}

impl QueuingSender {
    /// A port without a receiver, which takes no message yet.
    ///
    /// # Errors
    /// [`PortError::Size`], [`PortError::Memory`].
    pub fn create(size: PortSize) -> Result<Self, PortError> {
        let size = checked(size, PortKind::Queue)?;
        let own = OwnMemory::create(PortKind::Queue, size, layout(size).sender_words())?;
        Ok(Self {
            own,
            receiver: None,
            size,
        })
    }

    /// Takes the receiver's side.
    ///
    /// # Errors
    /// [`PortError::NoPort`], also for a receiver of a port of another size.
    pub fn connect(&mut self, receiver: BorrowedFd<'_>) -> Result<(), PortError> {
        let words = |_| RingLayout::RECEIVER_WORDS;
        let (memory, size) = TheirMemory::open(receiver, PortKind::Receipts, words)?;
        if size != self.size {
            return Err(PortError::NoPort {
                expected: "receiver's side of this queuing port",
                what: "it is of a port of another size",
            });
        }
        self.receiver = Some(memory);
        Ok(())
    }

    /// Sends a message, written now (CLOCK_MONOTONIC); its number, from 1.
    ///
    /// # Errors
    /// [`PortError::Full`], also without a receiver, [`PortError::TooLong`], [`PortError::Garbled`]; nothing is sent then.
    pub fn send(&mut self, message: &[u8]) -> Result<u64, PortError> {
        self.send_at(Monotonic.now(), message)
    }

    /// The same of a message whose data are of an earlier instant.
    ///
    /// # Errors
    /// As of [`QueuingSender::send`].
    pub fn send_at(&mut self, written: Instant, message: &[u8]) -> Result<u64, PortError> {
        let Some(receiver) = &self.receiver else {
            return Err(PortError::Full { messages: 0 });
        };
        let sender = RingSender::new(self.own.words(), receiver, layout(self.size));
        let sent = sender.and_then(|mut sender| sender.send(written.as_nanos(), message));
        sent.map_err(|error| match error {
            RingError::Full => PortError::Full {
                messages: self.size.messages,
            },
            RingError::TooLong => PortError::TooLong {
                length: message.len(),
                room: self.size.longest,
            },
            RingError::Garbled => PortError::Garbled,
        })
    }
}

impl AsFd for QueuingSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.descriptor()
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Its number, from 1, without gaps.
    pub number: u64,
    /// Its length in bytes.
    pub length: usize,
    /// When it was sent (CLOCK_MONOTONIC, by the sender).
    pub written: Instant,
    /// How long ago that was.
    pub age: Duration,
    /// How many wait behind it.
    pub waiting: u64,
}

/// The side that receives. [`AsFd`] is for the sender.
#[derive(Debug)]
pub struct QueuingReceiver {
    own: OwnMemory,
    sender: TheirMemory,
    size: PortSize,
}

impl QueuingReceiver {
    /// The port of a sender's descriptor.
    ///
    /// # Errors
    /// [`PortError::NoPort`], [`PortError::Size`], [`PortError::Memory`].
    pub fn open(sender: BorrowedFd<'_>) -> Result<Self, PortError> {
        let words = |size| layout(size).sender_words();
        let (memory, size) = TheirMemory::open(sender, PortKind::Queue, words)?;
        let own = OwnMemory::create(PortKind::Receipts, size, RingLayout::RECEIVER_WORDS)?;
        Ok(Self {
            own,
            sender: memory,
            size,
        })
    }

    /// The size of the port.
    pub fn size(&self) -> PortSize {
        self.size
    }

    /// Copies the next message to the begin of `room` and takes it out; `None` from an empty port.
    ///
    /// # Errors
    /// [`PortError::TooLong`] for a room below the message's length, and then it stays the next one;
    /// [`PortError::Garbled`].
    pub fn receive(&mut self, room: &mut [u8]) -> Result<Option<QueuedMessage>, PortError> {
        let available = room.len();
        let receiver = RingReceiver::new(self.own.words(), &self.sender, layout(self.size));
        let received = receiver.and_then(|mut receiver| receiver.receive(room));
        let received = received.map_err(|error| match error {
            RingError::TooLong => PortError::TooLong {
                length: self.size.longest,
                room: available,
            },
            RingError::Full | RingError::Garbled => PortError::Garbled,
        })?;
        let now = Monotonic.now();
        Ok(received.map(|message| QueuedMessage {
            number: message.number,
            length: message.length,
            written: Instant::from_nanos(message.stamp),
            age: age_of(message.stamp, now.as_nanos()),
            waiting: message.waiting,
        }))
    }
}

impl AsFd for QueuingReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.descriptor()
    }
}
