//! The pages of one ring buffer of one CPU, as the recording holds them.

use std::collections::VecDeque;

use super::chunk::ChunkKind;
use super::error::KernelRecordingError;
use super::file::KernelRecording;
use super::index::{ChunkPlace, PositionedBytes};
use crate::kernel::page_bytes;

/// The pages of one ring buffer of one CPU, in order, each without its unused end.
#[derive(Debug)]
pub(crate) struct PageStream<'a, B> {
    recording: &'a KernelRecording<B>,
    places: VecDeque<ChunkPlace>,
    content: Vec<u8>,
    /// Where the next page begins in the content.
    next: usize,
    unreadable: u64,
}

impl<'a, B: PositionedBytes> PageStream<'a, B> {
    /// The pages of a CPU in chunks of a kind.
    pub(crate) fn new(recording: &'a KernelRecording<B>, kind: ChunkKind, cpu: u32) -> Self {
        let place = u16::try_from(cpu).unwrap_or(u16::MAX);
        Self {
            recording,
            places: recording.places_of(kind, Some(place)).collect(),
            content: Vec::new(),
            next: 0,
            unreadable: 0,
        }
    }

    /// Chunks and pages that cannot be read, so far.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The next page.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn next_page(&mut self) -> Result<Option<&[u8]>, KernelRecordingError> {
        loop {
            if self.next >= self.content.len() {
                let Some(place) = self.places.pop_front() else {
                    return Ok(None);
                };
                self.next = 0;
                self.content = self.recording.content(place)?.unwrap_or_default();
                self.unreadable += u64::from(self.content.is_empty());
                continue;
            }
            let start = self.next;
            match page_bytes(&self.content[start..]) {
                Ok(length) => {
                    self.next += length;
                    return Ok(Some(&self.content[start..self.next]));
                }
                Err(_) => {
                    self.next = self.content.len();
                    self.unreadable += 1;
                }
            }
        }
    }
}
