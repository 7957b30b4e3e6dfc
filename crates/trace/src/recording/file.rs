//! Reading a recording of the kernel's events: what its chunks hold.

use super::chunk::ChunkKind;
use super::contents::{
    RecordedLoad, RecordingEnd, RecordingHeader, RequestRow, SamplerDelay, SocketSnapshot,
};
use super::error::KernelRecordingError;
use super::index::{ChunkIndex, ChunkPlace, PositionedBytes};

/// A recording that is read. Memory holds an index of 32 bytes for each chunk, and at most one
/// chunk of each CPU.
#[derive(Debug)]
pub struct KernelRecording<B> {
    chunks: ChunkIndex<B>,
    header: RecordingHeader,
    end: Option<RecordingEnd>,
}

impl<B: PositionedBytes> KernelRecording<B> {
    /// Looks through a recording's chunks and reads its header.
    ///
    /// # Errors
    /// No recording, another version, no header, or what the source says.
    pub fn open(bytes: B) -> Result<Self, KernelRecordingError> {
        let pages = [ChunkKind::SchedulerPages, ChunkKind::CallPages];
        let mut chunks = ChunkIndex::open(bytes, &pages)?;
        let header = chunks.first_json(ChunkKind::Header)?;
        let without_header = match chunks.places_of(ChunkKind::LockHeader, None).next() {
            Some(_) => KernelRecordingError::Locks,
            None => KernelRecordingError::NoHeader,
        };
        let header = header.ok_or(without_header)?;
        let end: Option<RecordingEnd> = chunks.first_json(ChunkKind::End)?;
        if end.is_none() {
            chunks.remark(
                "the recording has no end: the recorder was killed, or the file is cut short; what is there is read",
            );
        }
        Ok(Self {
            chunks,
            header,
            end,
        })
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
        self.chunks.remarks()
    }

    /// Every snapshot of sockets.
    ///
    /// # Errors
    /// A snapshot that cannot be read.
    pub fn socket_snapshots(&self) -> Result<Vec<SocketSnapshot>, KernelRecordingError> {
        let places = self.places_of(ChunkKind::Sockets, None);
        places.map(|place| self.chunks.json(place)).collect()
    }

    /// Every load, with the place of its requests.
    ///
    /// # Errors
    /// A load that cannot be read.
    pub fn loads(&self) -> Result<Vec<(RecordedLoad, LoadPlace)>, KernelRecordingError> {
        let mut loads = Vec::new();
        for (index, place) in self.chunks.places.iter().enumerate() {
            if place.kind == ChunkKind::Load {
                let requests = LoadPlace {
                    index: index + 1,
                    offset: place.end(),
                };
                loads.push((self.chunks.json(*place)?, requests));
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
        self.chunks.places_of(kind, cpu)
    }

    /// The content of a chunk; `None` if it is garbled.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn content(
        &self,
        place: ChunkPlace,
    ) -> Result<Option<Vec<u8>>, KernelRecordingError> {
        self.chunks.content(place)
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
            let place = *self.recording.chunks.places.get(self.next.index)?;
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
