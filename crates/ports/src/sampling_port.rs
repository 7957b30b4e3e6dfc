//! Sampling ports: the newest message.

use std::os::fd::{AsFd, BorrowedFd};

use tailbound_linux::clock::Monotonic;
use tailbound_shared_memory::{SampleWriter, SlotError, SlotLayout, read_sample};
use tailbound_time::{Clock, Duration, Instant};

use crate::memory::{OwnMemory, PortKind, TheirMemory, checked};
use crate::{PortError, PortSize, age_of};

fn layout(size: PortSize) -> SlotLayout {
    SlotLayout {
        longest: size.longest,
        slots: size.messages,
    }
}

/// The side that writes; [`AsFd`] is for the readers.
#[derive(Debug)]
pub struct SamplingWriter {
    pub(crate) memory: OwnMemory,
    size: PortSize,
}

impl SamplingWriter {
    /// A port without a message.
    ///
    /// # Errors
    /// [`PortError::Size`], [`PortError::Memory`].
    pub fn create(size: PortSize) -> Result<Self, PortError> {
        let size = checked(size, PortKind::Sampling)?;
        let memory = OwnMemory::create(PortKind::Sampling, size, layout(size).words())?;
        Ok(Self { memory, size })
    }

    /// Makes a message the newest one, written now (CLOCK_MONOTONIC); its number, from 1.
    ///
    /// # Errors
    /// [`PortError::TooLong`]; the message before stays the newest.
    pub fn write(&mut self, message: &[u8]) -> Result<u64, PortError> {
        self.write_at(Monotonic.now(), message)
    }

    /// The same of a message whose data are of an earlier instant, such as those that a router passes on.
    ///
    /// # Errors
    /// As of [`SamplingWriter::write`].
    pub fn write_at(&mut self, written: Instant, message: &[u8]) -> Result<u64, PortError> {
        let mut writer = SampleWriter::new(self.memory.words(), layout(self.size))
            .map_err(|_| PortError::Garbled)?;
        let number = writer.write(written.as_nanos(), message);
        number.map_err(|_| PortError::TooLong {
            length: message.len(),
            room: self.size.longest,
        })
    }
}

impl AsFd for SamplingWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.descriptor()
    }
}

/// A message that a reader found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its number, from 1: a reader that finds the same number twice has the same message.
    pub number: u64,
    /// Its length in bytes.
    pub length: usize,
    /// When it was written (CLOCK_MONOTONIC, by the writer).
    pub written: Instant,
    /// How long ago that was.
    pub age: Duration,
    /// Whether it is no older than the reader's limit.
    pub valid: bool,
}

/// A side that reads; there may be many.
#[derive(Debug)]
pub struct SamplingReader {
    memory: TheirMemory,
    size: PortSize,
    valid_for: Duration,
}

impl SamplingReader {
    /// The port of a descriptor, whose messages are valid for so long after they were written.
    ///
    /// # Errors
    /// [`PortError::NoPort`], [`PortError::Size`].
    pub fn open(descriptor: BorrowedFd<'_>, valid_for: Duration) -> Result<Self, PortError> {
        let words = |size| layout(size).words();
        let (memory, size) = TheirMemory::open(descriptor, PortKind::Sampling, words)?;
        Ok(Self {
            memory,
            size,
            valid_for,
        })
    }

    /// The size of the port.
    pub fn size(&self) -> PortSize {
        self.size
    }

    /// Copies the newest message to the begin of `room`; `None` before the first one.
    ///
    /// # Errors
    /// [`PortError::TooLong`] for a room below the message's length, [`PortError::Overtaken`], [`PortError::Garbled`].
    pub fn read(&self, room: &mut [u8]) -> Result<Option<Sample>, PortError> {
        self.read_at(Monotonic.now(), room)
    }

    /// The same as seen at an instant.
    ///
    /// # Errors
    /// As of [`SamplingReader::read`].
    pub fn read_at(&self, now: Instant, room: &mut [u8]) -> Result<Option<Sample>, PortError> {
        let available = room.len();
        let read = read_sample(&self.memory, layout(self.size), room);
        let read = read.map_err(|error| match error {
            SlotError::Garbled => PortError::Garbled,
            SlotError::Overtaken => PortError::Overtaken,
            SlotError::TooLong => PortError::TooLong {
                length: self.size.longest,
                room: available,
            },
        })?;
        Ok(read.map(|sample| {
            let age = age_of(sample.stamp, now.as_nanos());
            Sample {
                number: sample.number,
                length: sample.length,
                written: Instant::from_nanos(sample.stamp),
                age,
                valid: age <= self.valid_for,
            }
        }))
    }
}
