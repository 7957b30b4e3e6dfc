//! The memory of a port: a header that says what it is, and the words behind it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_linux::memory::{ReadWords, SharedWords};
use tailbound_shared_memory::ReadableWords;

use crate::{PortError, PortSize};

/// "TBPORT" and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"TBPORT\x01\x00");
/// Magic, kind, longest message, number of messages.
const HEADER_WORDS: usize = 4;
/// Limits, so that sizes from another process cannot overflow.
const LONGEST: usize = 16 << 20;
const MOST_MESSAGES: usize = 1 << 16;

/// What a memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortKind {
    /// Slots of a sampling port, by its writer.
    Sampling = 1,
    /// Slots of a queuing port, by its sender.
    Queue = 2,
    /// The count of a queuing port, by its receiver.
    Receipts = 3,
}

impl PortKind {
    fn name(self) -> &'static str {
        match self {
            Self::Sampling => "sampling port",
            Self::Queue => "sender's side of a queuing port",
            Self::Receipts => "receiver's side of a queuing port",
        }
    }

    fn least_messages(self) -> usize {
        match self {
            Self::Sampling => 2,
            Self::Queue | Self::Receipts => 1,
        }
    }
}

/// A size within the limits.
pub(crate) fn checked(size: PortSize, kind: PortKind) -> Result<PortSize, PortError> {
    let PortSize { longest, messages } = size;
    let fits = (1..=LONGEST).contains(&longest)
        && (kind.least_messages()..=MOST_MESSAGES).contains(&messages);
    fits.then_some(size)
        .ok_or(PortError::Size { longest, messages })
}

/// The memory that this side writes.
#[derive(Debug)]
pub(crate) struct OwnMemory(SharedWords);

impl OwnMemory {
    /// A memory of so many words behind the header.
    pub(crate) fn create(kind: PortKind, size: PortSize, words: usize) -> Result<Self, PortError> {
        let memory = |cause: io::Error| PortError::Memory { cause };
        let shared = SharedWords::create_for_readers(HEADER_WORDS + words).map_err(memory)?;
        let header = [
            MAGIC,
            kind as u64,
            size.longest as u64,
            size.messages as u64,
        ];
        for (word, value) in shared.words().iter().zip(header) {
            word.store(value, Ordering::Relaxed);
        }
        Ok(Self(shared))
    }

    /// The words behind the header.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0.words()[HEADER_WORDS..]
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

/// The memory that the other side writes.
#[derive(Debug)]
pub(crate) struct TheirMemory(ReadWords);

impl TheirMemory {
    /// A memory of this kind, with the size that stands in it. `words` says how many words a size takes.
    pub(crate) fn open(
        descriptor: BorrowedFd<'_>,
        kind: PortKind,
        words: impl Fn(PortSize) -> usize,
    ) -> Result<(Self, PortSize), PortError> {
        let no_port = |what| PortError::NoPort {
            expected: kind.name(),
            what,
        };
        let shared = ReadWords::open(descriptor)
            .map_err(|_| no_port("it is no memory that its maker alone can write"))?;
        let word = |place| shared.load(place, Ordering::Relaxed).unwrap_or(0);
        if word(0) != MAGIC {
            return Err(no_port("its first bytes are others"));
        }
        if word(1) != kind as u64 {
            return Err(no_port("it is another side, or another kind of port"));
        }
        let number = |place| usize::try_from(word(place)).unwrap_or(usize::MAX);
        let size = PortSize {
            longest: number(2),
            messages: number(3),
        };
        checked(size, kind)?;
        if shared.count() < HEADER_WORDS + words(size) {
            return Err(no_port("it is shorter than its size says"));
        }
        Ok((Self(shared), size))
    }
}

impl ReadableWords for TheirMemory {
    fn count(&self) -> usize {
        self.0.count().saturating_sub(HEADER_WORDS)
    }

    fn load(&self, place: usize, order: Ordering) -> u64 {
        self.0.load(HEADER_WORDS + place, order).unwrap_or(0)
    }
}
