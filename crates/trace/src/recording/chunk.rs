//! Chunks: the pieces of a recording's file.
//!
//! | bytes | a chunk's header, little-endian |
//! | --- | --- |
//! | 0..4 | the marker |
//! | 4..6 | the kind |
//! | 6..8 | the CPU, where the kind has one |
//! | 8..12 | bytes of content |
//! | 12..16 | CRC-32 of the content |
//! | 16..20 | CRC-32 of bytes 0 to 16 |

use std::io::{self, Write};

use serde::Serialize;

/// The beginning of a file.
pub(crate) const MAGIC: &str = "tailbound trace\n";
/// The version of the format.
pub(crate) const VERSION: u32 = 1;
/// Bytes before the first chunk: the text and the version.
pub(crate) const PREAMBLE_BYTES: usize = MAGIC.len() + 4;
/// The beginning of a chunk.
const MARKER: [u8; 4] = [0xf5, b't', b'b', 0xc1];
/// Bytes of a chunk's header.
pub(crate) const HEADER_BYTES: usize = 20;
/// The most that a chunk holds; a length above is garbled.
pub(crate) const LONGEST_CONTENT: usize = 64 << 20;

/// The kind of a chunk's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum ChunkKind {
    /// [`RecordingHeader`](super::RecordingHeader), JSON.
    Header = 1,
    /// Pages of the ring buffer of a CPU with the events of all threads.
    SchedulerPages = 2,
    /// Pages of the ring buffer of a CPU with the system calls of chosen processes.
    CallPages = 3,
    /// [`SamplerDelay`](super::SamplerDelay)s of a CPU.
    SamplerDelays = 4,
    /// [`SocketSnapshot`](super::SocketSnapshot), JSON.
    Sockets = 5,
    /// [`RecordedLoad`](super::RecordedLoad), JSON.
    Load = 6,
    /// [`RequestRow`](super::RequestRow)s of the load before.
    Requests = 7,
    /// [`RecordingEnd`](super::RecordingEnd), JSON.
    End = 8,
    /// The command whose locks were recorded, JSON.
    LockHeader = 9,
    /// Events of locks of a program.
    LockEvents = 10,
    /// The mappings of a process whose locks were recorded, JSON.
    LockMappings = 11,
    /// The sums at the end of a recording of locks, JSON.
    LockEnd = 12,
}

impl ChunkKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 12] = [
        Self::Header,
        Self::SchedulerPages,
        Self::CallPages,
        Self::SamplerDelays,
        Self::Sockets,
        Self::Load,
        Self::Requests,
        Self::End,
        Self::LockHeader,
        Self::LockEvents,
        Self::LockMappings,
        Self::LockEnd,
    ];

    /// The content in a sentence about several things.
    pub(crate) fn content_name(self) -> &'static str {
        match self {
            Self::Header => "the description of what was recorded and its processes",
            Self::SchedulerPages | Self::CallPages => "events of the kernel",
            Self::SamplerDelays => "late looks of a sampler of stalls",
            Self::Sockets => "the sockets of processes",
            Self::Load => "the names of a load and its requests",
            Self::Requests => "requests of a load",
            Self::End | Self::LockEnd => "the sums at the end of the recording",
            Self::LockHeader => "the words of the command whose locks were recorded",
            Self::LockEvents => "events of locks",
            Self::LockMappings => "the mappings of a process",
        }
    }

    fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// The kind; `None` for one of a later version.
    pub(crate) kind: Option<ChunkKind>,
    /// The CPU.
    pub(crate) cpu: u16,
    /// Bytes of content.
    pub(crate) length: usize,
    /// CRC-32 of the content.
    pub(crate) content_sum: u32,
}

impl ChunkHeader {
    fn write(kind: ChunkKind, cpu: u16, content: &[u8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MARKER);
        bytes[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&cpu.to_le_bytes());
        bytes[8..12].copy_from_slice(&(content.len() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
        let sum = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header that `bytes` begin with; `None` if they begin with none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let sound = bytes[..4] == MARKER && word(16) == crc32fast::hash(&bytes[..16]);
        let length = word(8) as usize;
        (sound && length <= LONGEST_CONTENT).then(|| Self {
            kind: ChunkKind::of_number(half(4)),
            cpu: half(6),
            length,
            content_sum: word(12),
        })
    }
}

/// Writes chunks, one after the other; what was written stays readable wherever the writer ends.
#[derive(Debug)]
pub struct ChunkWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> ChunkWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC.as_bytes())?;
        out.write_all(&VERSION.to_le_bytes())?;
        let bytes = PREAMBLE_BYTES as u64;
        Ok(Self { out, bytes })
    }

    /// Writes a chunk of bytes.
    ///
    /// # Errors
    /// What `out` says, such as a full disk; content of more than 64 MiB.
    pub fn write(&mut self, kind: ChunkKind, cpu: u16, content: &[u8]) -> io::Result<()> {
        if content.len() > LONGEST_CONTENT {
            let what = format!(
                "a chunk of {} bytes; at most {LONGEST_CONTENT}",
                content.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.out
            .write_all(&ChunkHeader::write(kind, cpu, content))?;
        self.out.write_all(content)?;
        self.bytes += (HEADER_BYTES + content.len()) as u64;
        Ok(())
    }

    /// Writes a chunk of JSON.
    ///
    /// # Errors
    /// As [`ChunkWriter::write`].
    pub fn write_json(&mut self, kind: ChunkKind, content: &impl Serialize) -> io::Result<()> {
        self.write(kind, 0, &serde_json::to_vec(content)?)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands what is buffered to the operating system.
    ///
    /// # Errors
    /// What `out` says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The destination.
    pub fn into_inner(self) -> W {
        self.out
    }
}
