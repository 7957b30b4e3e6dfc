//! Reading a recording: an index of its chunks, and what they hold.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::DeserializeOwned;

use super::chunk::{
    ChunkHeader, ChunkKind, HEADER_BYTES, LONGEST_CONTENT, MAGIC, PREAMBLE_BYTES, VERSION,
};
use super::contents::{
    RecordedLoad, RecordingEnd, RecordingHeader, RequestRow, SamplerDelay, SocketSnapshot,
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
pub(crate) struct ChunkPlace {
    pub(crate) kind: ChunkKind,
    pub(crate) cpu: u16,
    offset: u64,
    length: usize,
    content_sum: u32,
}

impl ChunkPlace {
    /// The place behind it.
    fn end(self) -> u64 {
        self.offset + (HEADER_BYTES + self.length) as u64
    }
}

/// A recording that is read. Memory holds an index of 32 bytes for each chunk, and at most one
/// chunk of each CPU.
#[derive(Debug)]
pub struct KernelRecording<B> {
    bytes: B,
    places: Vec<ChunkPlace>,
    header: RecordingHeader,
    end: Option<RecordingEnd>,
    remarks: Vec<String>,
}

impl<B: PositionedBytes> KernelRecording<B> {
    /// Looks through a recording's chunks and reads its header.
    ///
    /// # Errors
    /// No recording, another version, no header, or what the source says.
    pub fn open(bytes: B) -> Result<Self, KernelRecordingError> {
        check_preamble(&bytes)?;
        let mut remarks = Vec::new();
        let places = index(&bytes, &mut remarks)?;
        let mut recording = Self {
            bytes,
            places,
            header: RecordingHeader::default(),
            end: None,
            remarks,
        };
        recording.leave_garbled_out()?;
        let header = recording.first_json(ChunkKind::Header)?;
        recording.header = header.ok_or(KernelRecordingError::NoHeader)?;
        recording.end = recording.first_json(ChunkKind::End)?;
        if recording.end.is_none() {
            let what = "the recording has no end: the recorder was killed, or the file is cut \
                        short; what is there is read";
            recording.remarks.push(what.into());
        }
        Ok(recording)
    }

    /// Leaves chunks out whose checksum does not hold, and says so. Pages of events are checked when they are read.
    fn leave_garbled_out(&mut self) -> Result<(), KernelRecordingError> {
        for place in self.places.clone() {
            let is_pages = matches!(place.kind, ChunkKind::SchedulerPages | ChunkKind::CallPages);
            if is_pages || self.content(place)?.is_some() {
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

    /// The recorded machine.
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// The recording's end, if it has one.
    pub fn end(&self) -> Option<&RecordingEnd> {
        self.end.as_ref()
    }

    /// Faults of the file that were read around.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Every snapshot of sockets.
    ///
    /// # Errors
    /// A snapshot that cannot be read.
    pub fn socket_snapshots(&self) -> Result<Vec<SocketSnapshot>, KernelRecordingError> {
        let places = self.places_of(ChunkKind::Sockets, None);
        places.map(|place| self.json(place)).collect()
    }

    /// Every load, with the place of its requests.
    ///
    /// # Errors
    /// A load that cannot be read.
    pub fn loads(&self) -> Result<Vec<(RecordedLoad, LoadPlace)>, KernelRecordingError> {
        let mut loads = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            if place.kind == ChunkKind::Load {
                let requests = LoadPlace {
                    index: index + 1,
                    offset: place.end(),
                };
                loads.push((self.json(*place)?, requests));
            }
        }
        Ok(loads)
    }

    /// The requests of a load, in the order of their intended times.
    pub fn requests(&self, load: &LoadPlace) -> Requests<'_, B> {
        Requests {
            recording: self,
            next: *load,
            content: Vec::new(),
            offset: 0,
        }
    }

    /// The delays of a CPU's sampler, in order.
    ///
    /// # Errors
    /// What the source says.
    pub fn sampler_delays(&self, cpu: u32) -> Result<Vec<SamplerDelay>, KernelRecordingError> {
        let mut delays = Vec::new();
        let cpu_place = u16::try_from(cpu).unwrap_or(u16::MAX);
        for place in self.places_of(ChunkKind::SamplerDelays, Some(cpu_place)) {
            let Some(content) = self.content(place)? else {
                continue;
            };
            let rows = content.chunks_exact(SamplerDelay::BYTES);
            delays.extend(rows.filter_map(|row| SamplerDelay::of_bytes(cpu, row)));
        }
        Ok(delays)
    }

    /// The chunks of a kind, and of a CPU.
    pub(crate) fn places_of(
        &self,
        kind: ChunkKind,
        cpu: Option<u16>,
    ) -> impl Iterator<Item = ChunkPlace> {
        let places = self.places.iter().copied();
        places.filter(move |place| place.kind == kind && cpu.is_none_or(|cpu| place.cpu == cpu))
    }

    /// The content of a chunk; `None` if it is garbled.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn content(
        &self,
        place: ChunkPlace,
    ) -> Result<Option<Vec<u8>>, KernelRecordingError> {
        let mut content = vec![0; place.length];
        let there = read_full(
            &self.bytes,
            &mut content,
            place.offset + HEADER_BYTES as u64,
        )?;
        let sound = there == place.length && crc32fast::hash(&content) == place.content_sum;
        Ok(sound.then_some(content))
    }

    fn first_json<T: DeserializeOwned>(
        &self,
        kind: ChunkKind,
    ) -> Result<Option<T>, KernelRecordingError> {
        let place = self.places_of(kind, None).next();
        place.map(|place| self.json(place)).transpose()
    }

    fn json<T: DeserializeOwned>(&self, place: ChunkPlace) -> Result<T, KernelRecordingError> {
        let fault = |what: String| KernelRecordingError::Content {
            offset: place.offset,
            what,
        };
        let content = self.content(place)?;
        let content = content.ok_or_else(|| fault("the chunk's checksum does not hold".into()))?;
        serde_json::from_slice(&content).map_err(|cause| fault(cause.to_string()))
    }
}

/// The place of a load's requests in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPlace {
    index: usize,
    offset: u64,
}

/// The requests of a load.
#[derive(Debug)]
pub struct Requests<'a, B> {
    recording: &'a KernelRecording<B>,
    next: LoadPlace,
    content: Vec<u8>,
    offset: usize,
}

impl<B: PositionedBytes> Iterator for Requests<'_, B> {
    type Item = Result<RequestRow, KernelRecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = self.content.get(self.offset..);
            if let Some(row) = row.and_then(RequestRow::of_bytes) {
                self.offset += RequestRow::BYTES;
                return Some(Ok(row));
            }
            let place = *self.recording.places.get(self.next.index)?;
            // Behind a gap, requests may be those of a load that was lost.
            if place.kind != ChunkKind::Requests || place.offset != self.next.offset {
                return None;
            }
            match self.recording.content(place) {
                Err(error) => return Some(Err(error)),
                Ok(content) => (self.content, self.offset) = (content.unwrap_or_default(), 0),
            }
            self.next = LoadPlace {
                index: self.next.index + 1,
                offset: place.end(),
            };
        }
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
