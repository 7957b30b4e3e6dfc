//! The form of a recording: one file of memory with a header, a table of names, and rings.
//!
//! | From byte | Content |
//! | --- | --- |
//! | 0 | the header: magic, version, sizes, the clock, and a pair of readings of it and CLOCK_MONOTONIC |
//! | 4096 | the table of names, 64 bytes each: the length plus one (0: none), then up to 56 bytes |
//! | behind it | the rings, each a multiple of 64 bytes: counters (128 bytes), then slots |
//!
//! A slot is a marker (state, number of arguments, trigger, thread), the instant, and the arguments, 8 bytes each.
//! Ring 0 is for all threads; each other one for a thread at a time. Numbers have the byte order of the machine.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::{ClockPair, EventClock};
use crate::mapped_file::MappedFile;
use crate::ring_buffer::{Ring, RingHeader, SLOT_HEADER_WORDS};

/// The most arguments of a trigger.
pub const ARGUMENTS: usize = 8;
/// The longest name of a trigger in bytes.
pub const NAME_BYTES: usize = 56;
/// The first bytes of a recording.
const MAGIC: u64 = u64::from_ne_bytes(*b"TBevents");
/// The version of this form.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 4096;
const NAME_WORDS: usize = 1 + NAME_BYTES / 8;
/// More than any recording has, so that sizes stay far from overflow.
const RINGS_MAX: u32 = 1 << 12;
const SLOTS_MAX: u32 = 1 << 24;
/// Numbers of triggers have 16 bits.
const NAMES_MAX: u32 = u16::MAX as u32;

/// The header, as it lies in the file.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    arguments: AtomicU32,
    slots: AtomicU32,
    rings: AtomicU32,
    names: AtomicU32,
    clock: AtomicU32,
    pair: [AtomicU64; 3],
}

/// The sizes of a recording, and its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingLayout {
    /// Arguments that a slot has room for, from 1 to 8; further ones are cut off.
    pub arguments: u32,
    /// Slots of each ring: a power of two, 2^24 at most.
    pub slots: u32,
    /// Rings: one for all threads, and so many less one for threads of their own; 4096 at most.
    pub rings: u32,
    /// Names that the table has room for, 65,535 at most.
    pub names: u32,
    /// The clock of the events.
    pub clock: EventClock,
}

impl Default for RecordingLayout {
    /// Room for 64 threads with 16,384 events each between two looks of the reader. Memory is used as it is written.
    fn default() -> Self {
        Self {
            arguments: ARGUMENTS as u32,
            slots: 1 << 14,
            rings: 64,
            names: 1 << 10,
            clock: EventClock::of_this_machine(),
        }
    }
}

/// The reason why memory is no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingFault {
    /// Memory that does not begin as recordings do.
    NoRecording,
    /// A form of another version.
    Version(u32),
    /// A size of the header outside of its limits.
    Size,
    /// Memory that ends before the last ring.
    Truncated,
}

impl std::fmt::Display for RecordingFault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRecording => write!(out, "not a recording of triggers"),
            Self::Version(version) => write!(
                out,
                "a recording of triggers of version {version}; this program reads version {VERSION}"
            ),
            Self::Size => write!(
                out,
                "a recording of triggers with impossible sizes in its header"
            ),
            Self::Truncated => write!(
                out,
                "a recording of triggers that ends before its last buffer"
            ),
        }
    }
}

impl std::error::Error for RecordingFault {}

impl From<RecordingFault> for io::Error {
    fn from(error: RecordingFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl RecordingLayout {
    fn is_possible(&self) -> bool {
        (1..=ARGUMENTS as u32).contains(&self.arguments)
            && self.slots.is_power_of_two()
            && self.slots <= SLOTS_MAX
            && (1..=RINGS_MAX).contains(&self.rings)
            && self.names <= NAMES_MAX
    }

    fn slot_words(&self) -> usize {
        SLOT_HEADER_WORDS + self.arguments as usize
    }

    fn ring_bytes(&self) -> usize {
        let slots = self.slots as usize * self.slot_words() * size_of::<u64>();
        (size_of::<RingHeader>() + slots).next_multiple_of(64)
    }

    fn ring_offset(&self, ring: u32) -> usize {
        let names = self.names as usize * NAME_WORDS * size_of::<u64>();
        HEADER_BYTES + names + ring as usize * self.ring_bytes()
    }

    /// The length of the file in bytes.
    pub fn bytes(&self) -> usize {
        self.ring_offset(self.rings)
    }

    /// Makes `file`, an empty one, an empty recording of these sizes.
    ///
    /// # Errors
    /// `InvalidInput` for impossible sizes, otherwise what the kernel says.
    pub fn prepare(&self, file: &File) -> io::Result<()> {
        if !self.is_possible() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                RecordingFault::Size,
            ));
        }
        file.set_len(self.bytes() as u64)?;
        let memory = MappedFile::of_file(file)?;
        // SAFETY: the file was just made so long, and headers are atomics, for which any bytes are valid.
        let header = unsafe { memory.base().cast::<Header>().as_ref() };
        let pair = ClockPair::sample(self.clock);
        let readings = [pair.event, pair.monotonic_ns, pair.width_ns];
        for (word, reading) in header.pair.iter().zip(readings) {
            word.store(reading, Ordering::Relaxed);
        }
        for (word, number) in [
            (&header.version, VERSION),
            (&header.arguments, self.arguments),
            (&header.slots, self.slots),
            (&header.rings, self.rings),
            (&header.names, self.names),
            (&header.clock, self.clock.number()),
        ] {
            word.store(number, Ordering::Relaxed);
        }
        let free = self.slots.to_ne_bytes();
        for ring in 0..self.rings {
            let place = self.ring_offset(ring) + RingHeader::FREE_OFFSET;
            file.write_all_at(&free, place as u64)?;
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// An empty recording in memory without a name, which cannot be shortened: who maps it can rely on every byte.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn anonymous_file(&self) -> io::Result<File> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a constant string.
        let raw = unsafe { libc::memfd_create(c"tailbound-events".as_ptr(), flags) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(raw) };
        self.prepare(&file)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open.
        match unsafe { libc::fcntl(raw, libc::F_ADD_SEALS, seals) } {
            0 => Ok(file),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The memory of a recording, whose header was checked against its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordingMemory<'a> {
    base: NonNull<u8>,
    layout: RecordingLayout,
    lifetime: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: the memory is reached through atomics only.
unsafe impl Send for RecordingMemory<'_> {}
// SAFETY: as above.
unsafe impl Sync for RecordingMemory<'_> {}

impl<'a> RecordingMemory<'a> {
    /// Checks the header of `bytes` bytes from `base`.
    ///
    /// # Safety
    /// The bytes are mapped, writable, aligned to 64 and reached through atomics only for `'a`.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Result<Self, RecordingFault> {
        if bytes < HEADER_BYTES {
            return Err(RecordingFault::NoRecording);
        }
        // SAFETY: long enough and aligned by the contract; for atomics any bytes are valid.
        let header = unsafe { base.cast::<Header>().as_ref() };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(RecordingFault::NoRecording);
        }
        let number = |word: &AtomicU32| word.load(Ordering::Relaxed);
        if number(&header.version) != VERSION {
            return Err(RecordingFault::Version(number(&header.version)));
        }
        let layout = RecordingLayout {
            arguments: number(&header.arguments),
            slots: number(&header.slots),
            rings: number(&header.rings),
            names: number(&header.names),
            clock: EventClock::from_number(number(&header.clock)).ok_or(RecordingFault::Size)?,
        };
        if !layout.is_possible() {
            return Err(RecordingFault::Size);
        }
        if bytes < layout.bytes() {
            return Err(RecordingFault::Truncated);
        }
        Ok(Self {
            base,
            layout,
            lifetime: PhantomData,
        })
    }

    /// The sizes, as they were checked; later changes of the header have no effect.
    pub fn layout(&self) -> RecordingLayout {
        self.layout
    }

    /// The readings of both clocks at the beginning.
    pub fn first_pair(&self) -> ClockPair {
        // SAFETY: checked in `new`.
        let header = unsafe { self.base.cast::<Header>().as_ref() };
        let [event, monotonic_ns, width_ns] =
            [0, 1, 2].map(|at| header.pair[at].load(Ordering::Relaxed));
        ClockPair {
            event,
            monotonic_ns,
            width_ns,
        }
    }

    fn words(&self, offset: usize, count: usize) -> &'a [AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset + count * 8 <= self.layout.bytes());
        // SAFETY: within the checked length, aligned, and for atomics any bytes are valid.
        unsafe { slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// A ring; `None` for a number that there is not.
    pub fn ring(&self, number: u32) -> Option<Ring<'a>> {
        if number >= self.layout.rings {
            return None;
        }
        let offset = self.layout.ring_offset(number);
        // SAFETY: within the checked length, aligned to 64, and for atomics any bytes are valid.
        let header = unsafe { &*self.base.as_ptr().add(offset).cast::<RingHeader>() };
        let count = self.layout.slots as usize * self.layout.slot_words();
        let words = self.words(offset + size_of::<RingHeader>(), count);
        Ring::new(header, words, self.layout.slot_words(), number == 0)
    }

    /// Enters the name of the trigger of this number, from 1; a number above the table's room has no name.
    pub fn enter_name(&self, number: u32, name: &str) {
        let Some(entry) = self.name_entry(number) else {
            return;
        };
        let bytes = &name.as_bytes()[..name.len().min(NAME_BYTES)];
        for (word, part) in entry[1..].iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        entry[0].store(bytes.len() as u64 + 1, Ordering::Release);
    }

    /// The name of the trigger of this number.
    pub fn name(&self, number: u32) -> Option<String> {
        let entry = self.name_entry(number)?;
        let length = entry[0].load(Ordering::Acquire).checked_sub(1)?;
        let words = entry[1..].iter().map(|word| word.load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let name = bytes.get(..usize::try_from(length).ok()?)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn name_entry(&self, number: u32) -> Option<&'a [AtomicU64]> {
        let place = number.checked_sub(1).filter(|it| *it < self.layout.names)?;
        let offset = HEADER_BYTES + place as usize * NAME_WORDS * size_of::<u64>();
        Some(self.words(offset, NAME_WORDS))
    }
}

const _: () = assert!(offset_of!(Header, pair) == 32 && size_of::<RingHeader>() == 128);
