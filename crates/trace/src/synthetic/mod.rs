//! Recordings of invented events, for tests, benchmarks and fuzzing: real pages in real chunks, without a kernel.

mod formats;
mod pages;

use std::collections::BTreeMap;

use tailbound_time::Instant;

use crate::kernel::{KernelEvent, KernelEventKind};
use crate::recording::{
    ChunkKind, ChunkWriter, RecordedLoad, RecordingEnd, RecordingHeader, RequestRow, SamplerDelay,
    SocketSnapshot,
};
use pages::PageWriter;

/// Bytes of pages in a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Requests in a chunk.
const ROWS_PER_CHUNK: usize = 1000;

/// A recording of given events, loads, sockets and delays of samplers.
#[derive(Clone, Debug)]
pub struct SyntheticRecording {
    /// The header; its formats are those of the events.
    pub header: RecordingHeader,
    /// The events, in order of time on each CPU. A [`KernelEventKind::Lost`] becomes the mark of the page that begins
    /// with the event behind it.
    pub events: Vec<KernelEvent>,
    /// The snapshots of sockets.
    pub sockets: Vec<SocketSnapshot>,
    /// The late looks of samplers, in order of time on each CPU.
    pub delays: Vec<SamplerDelay>,
    /// The loads, with their requests in the order of their intended times.
    pub loads: Vec<(RecordedLoad, Vec<RequestRow>)>,
    /// The end; `None` for a recording whose recorder was killed.
    pub end: Option<RecordingEnd>,
}

impl SyntheticRecording {
    /// A recording of so many CPUs in which nothing happens.
    pub fn new(cpus: u32) -> Self {
        let header = RecordingHeader {
            started_at: "2026-01-01T00:00:00Z".into(),
            cpus: (0..cpus).collect(),
            formats: formats::format_texts(),
            ..RecordingHeader::default()
        };
        Self {
            header,
            events: Vec::new(),
            sockets: Vec::new(),
            delays: Vec::new(),
            loads: Vec::new(),
            end: Some(RecordingEnd::default()),
        }
    }

    /// Adds an event at a number of nanoseconds, on a CPU, while a thread runs there.
    pub fn push(&mut self, at: u64, cpu: u32, thread: u32, kind: KernelEventKind) {
        let at = Instant::from_nanos(at);
        self.events.push(KernelEvent {
            at,
            cpu,
            thread,
            kind,
        });
    }

    /// The bytes of the recording's file. System calls are in buffers of their own, as a recorder has them.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing into memory fails only for chunks that are longer than those below.
        self.write().unwrap_or_default()
    }

    fn write(&self) -> std::io::Result<Vec<u8>> {
        let mut out = ChunkWriter::new(Vec::new())?;
        out.write_json(ChunkKind::Header, &self.header)?;
        for sockets in &self.sockets {
            out.write_json(ChunkKind::Sockets, sockets)?;
        }
        for ((kind, cpu), pages) in self.pages() {
            for chunk in whole_pages(&pages) {
                out.write(kind, cpu as u16, chunk)?;
            }
        }
        let mut delays: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for delay in &self.delays {
            delays
                .entry(delay.cpu)
                .or_default()
                .extend(delay.to_bytes());
        }
        for (cpu, rows) in delays {
            out.write(ChunkKind::SamplerDelays, cpu as u16, &rows)?;
        }
        for (load, requests) in &self.loads {
            out.write_json(ChunkKind::Load, load)?;
            for rows in requests.chunks(ROWS_PER_CHUNK) {
                let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
                out.write(ChunkKind::Requests, 0, &rows)?;
            }
        }
        if let Some(end) = &self.end {
            out.write_json(ChunkKind::End, end)?;
        }
        Ok(out.into_inner())
    }

    /// The pages of each buffer of each CPU.
    fn pages(&self) -> BTreeMap<(ChunkKind, u32), Vec<u8>> {
        let mut writers: BTreeMap<(ChunkKind, u32), PageWriter> = BTreeMap::new();
        for event in &self.events {
            let kind = match event.kind {
                KernelEventKind::CallEntry { .. } | KernelEventKind::CallExit { .. } => {
                    ChunkKind::CallPages
                }
                _ => ChunkKind::SchedulerPages,
            };
            let writer = writers.entry((kind, event.cpu)).or_default();
            match (&event.kind, formats::encode(event.thread, &event.kind)) {
                (_, Some(bytes)) => writer.push(event.at.as_nanos(), &bytes),
                (KernelEventKind::Lost { count }, None) => writer.lose(*count),
                _ => {}
            }
        }
        let pages = writers.into_iter();
        pages
            .map(|(place, writer)| (place, writer.finish()))
            .collect()
    }
}

/// Pages cut into chunks, none in its middle.
fn whole_pages(pages: &[u8]) -> Vec<&[u8]> {
    let (mut chunks, mut start, mut end) = (Vec::new(), 0, 0);
    while let Ok(length @ 1..) = crate::kernel::page_bytes(&pages[end..]) {
        end += length;
        if end - start >= CHUNK_BYTES {
            chunks.push(&pages[start..end]);
            start = end;
        }
    }
    if start < end {
        chunks.push(&pages[start..end]);
    }
    chunks
}

#[cfg(test)]
pub(crate) mod tests;
