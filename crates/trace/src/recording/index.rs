//! The chunks of a file, found and checked, whatever they hold.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::DeserializeOwned;

use super::chunk::{
    ChunkHeader, ChunkKind, HEADER_BYTES, LONGEST_CONTENT, MAGIC, PREAMBLE_BYTES, VERSION,
};
use super::error::KernelRecordingError;

/// Bytes that are looked through at once for the next chunk behind a garbled one.
const SEARCHED_BYTES: usize = 1 << 16;

/// Bytes that can be read at any place.
pub trait PositionedBytes {
    /// Reads at most as much as `buffer` holds from a place on; 0 at the end.
    ///
    /// # Errors
    /// What the source says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl PositionedBytes for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl PositionedBytes for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

impl<B: PositionedBytes + ?Sized> PositionedBytes for &B {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

/// A chunk's place in the file.
#[derive(Clone, Copy, Debug)]
pub struct ChunkPlace {
    pub(crate) kind: ChunkKind,
    pub(crate) cpu: u16,
    pub(crate) offset: u64,
    length: usize,
    content_sum: u32,
}

impl ChunkPlace {
    /// The byte of the file at which the chunk begins.
    pub fn start(self) -> u64 {
        self.offset
    }

    /// The byte behind the chunk.
    pub fn end(self) -> u64 {
        self.offset + (HEADER_BYTES + self.length) as u64
    }
}

/// The chunks of a file. Memory holds 32 bytes for each.
#[derive(Debug)]
pub struct ChunkIndex<B> {
    bytes: B,
    pub(crate) places: Vec<ChunkPlace>,
    remarks: Vec<String>,
}

impl<B: PositionedBytes> ChunkIndex<B> {
    /// Looks through a file, and leaves chunks out whose checksum does not hold. Those of `long` kinds are checked when
    /// they are read.
    ///
    /// # Errors
    /// No recording, another version, or what the source says.
    pub fn open(bytes: B, long: &[ChunkKind]) -> Result<Self, KernelRecordingError> {
        check_preamble(&bytes)?;
        let mut remarks = Vec::new();
        let places = index(&bytes, &mut remarks)?;
        let mut chunks = Self {
            bytes,
            places,
            remarks,
        };
        chunks.leave_garbled_out(long)?;
        Ok(chunks)
    }

    fn leave_garbled_out(&mut self, long: &[ChunkKind]) -> Result<(), KernelRecordingError> {
        for place in self.places.clone() {
            if long.contains(&place.kind) || self.content(place)?.is_some() {
                continue;
            }
            self.places.retain(|other| other.offset != place.offset);
            self.remarks.push(format!(
                "byte {}: {} cannot be read and were left out",
                place.offset,
                place.kind.content_name()
            ));
        }
        Ok(())
    }

    /// Faults of the file that were read around.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Adds a fault of what the chunks hold.
    pub fn remark(&mut self, what: impl Into<String>) {
        self.remarks.push(what.into());
    }

    /// The chunks of a kind, and of a CPU.
    pub fn places_of(&self, kind: ChunkKind, cpu: Option<u16>) -> impl Iterator<Item = ChunkPlace> {
        let places = self.places.iter().copied();
        places.filter(move |place| place.kind == kind && cpu.is_none_or(|cpu| place.cpu == cpu))
    }

    /// The content of a chunk; `None` if it is garbled.
    ///
    /// # Errors
    /// What the source says.
    pub fn content(&self, place: ChunkPlace) -> Result<Option<Vec<u8>>, KernelRecordingError> {
        let mut content = vec![0; place.length];
        let there = read_full(
            &self.bytes,
            &mut content,
            place.offset + HEADER_BYTES as u64,
        )?;
        let sound = there == place.length && crc32fast::hash(&content) == place.content_sum;
        Ok(sound.then_some(content))
    }

    /// The first chunk of a kind of JSON, if there is one.
    ///
    /// # Errors
    /// As [`Self::json`].
    pub fn first_json<T: DeserializeOwned>(
        &self,
        kind: ChunkKind,
    ) -> Result<Option<T>, KernelRecordingError> {
        let place = self.places_of(kind, None).next();
        place.map(|place| self.json(place)).transpose()
    }

    /// A chunk of JSON.
    ///
    /// # Errors
    /// A chunk that is garbled, or is not what its kind says; what the source says.
    pub fn json<T: DeserializeOwned>(&self, place: ChunkPlace) -> Result<T, KernelRecordingError> {
        let fault = |what: String| KernelRecordingError::Content {
            offset: place.offset,
            what,
        };
        let content = self.content(place)?;
        let content = content.ok_or_else(|| fault("the chunk's checksum does not hold".into()))?;
        serde_json::from_slice(&content).map_err(|cause| fault(cause.to_string()))
    }
}

fn check_preamble(bytes: &impl PositionedBytes) -> Result<(), KernelRecordingError> {
    let mut preamble = [0; PREAMBLE_BYTES];
    let there = read_full(bytes, &mut preamble, 0)?;
    let (text, version) = preamble.split_at(MAGIC.len());
    if there < PREAMBLE_BYTES || text != MAGIC.as_bytes() {
        let expected = MAGIC.trim_end();
        return Err(KernelRecordingError::NotARecording { expected });
    }
    let version = version.try_into().map_or(0, u32::from_le_bytes);
    match version == VERSION {
        true => Ok(()),
        false => Err(KernelRecordingError::Version {
            version,
            ours: VERSION,
        }),
    }
}

/// Finds every chunk; a chunk whose header is garbled is passed over up to the next sound one.
fn index(
    bytes: &impl PositionedBytes,
    remarks: &mut Vec<String>,
) -> Result<Vec<ChunkPlace>, KernelRecordingError> {
    let mut places = Vec::new();
    let mut offset = PREAMBLE_BYTES as u64;
    loop {
        let mut header = [0; HEADER_BYTES];
        let there = read_full(bytes, &mut header, offset)?;
        if there == 0 {
            return Ok(places);
        }
        let Some(header) = ChunkHeader::read(&header[..there]) else {
            let next = search(bytes, offset + 1)?;
            let skipped = next.map_or("the rest".into(), |next| format!("{} bytes", next - offset));
            remarks.push(format!(
                "byte {offset}: {skipped} cannot be read and was passed over"
            ));
            match next {
                Some(next) => offset = next,
                None => return Ok(places),
            }
            continue;
        };
        if let Some(kind) = header.kind {
            places.push(ChunkPlace {
                kind,
                cpu: header.cpu,
                offset,
                length: header.length,
                content_sum: header.content_sum,
            });
        }
        offset = offset.saturating_add((HEADER_BYTES + header.length) as u64);
    }
}

/// The place of the next sound header.
fn search(bytes: &impl PositionedBytes, from: u64) -> io::Result<Option<u64>> {
    let mut window = vec![0; SEARCHED_BYTES];
    let mut offset = from;
    loop {
        let there = read_full(bytes, &mut window, offset)?;
        let candidates = there.saturating_sub(HEADER_BYTES - 1);
        let sound = (0..candidates).find(|at| ChunkHeader::read(&window[*at..there]).is_some());
        match sound {
            Some(at) => return Ok(Some(offset + at as u64)),
            None if there < window.len() => return Ok(None),
            None => offset += candidates as u64,
        }
    }
}

/// Reads until the buffer is full or the source ends; how much was read.
fn read_full(bytes: &impl PositionedBytes, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut there = 0;
    while there < buffer.len() {
        match bytes.read_at(&mut buffer[there..], offset + there as u64) {
            Ok(0) => break,
            Ok(count) => there += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}

const _: () = assert!(LONGEST_CONTENT <= u32::MAX as usize);
