//! Taking the pages of the kernel's buffers into the file.

use std::fs::File;
use std::io;

use tailbound_trace::kernel::LONGEST_PAGE;
use tailbound_trace::recording::{ChunkKind, ChunkWriter};

use crate::clock_check::read_page;

/// Bytes of pages that are gathered before they are written as one chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// Pages that are taken in one turn. On a slow machine taking a page brings about more than a page of events: without
/// an end of the turn the recorder would not hear that it shall stop.
const PAGES_PER_TURN: usize = 4096;

/// The buffer of one CPU in one instance.
#[derive(Debug)]
pub(crate) struct PageSource {
    kind: ChunkKind,
    cpu: u32,
    pages: File,
    gathered: Vec<u8>,
}

impl PageSource {
    /// A source whose chunks have a kind.
    pub(crate) fn new(kind: ChunkKind, cpu: u32, pages: File) -> Self {
        Self {
            kind,
            cpu,
            pages,
            gathered: Vec::with_capacity(CHUNK_BYTES + LONGEST_PAGE),
        }
    }

    /// Takes the pages that are there, at most those of a turn, and writes full chunks. Returns whether none is left.
    ///
    /// # Errors
    /// The buffer cannot be read, or the file not be written.
    pub(crate) fn drain(&mut self, out: &mut ChunkWriter<impl io::Write>) -> io::Result<bool> {
        for _ in 0..PAGES_PER_TURN {
            let start = self.gathered.len();
            self.gathered.resize(start + LONGEST_PAGE, 0);
            let page = read_page(&mut self.pages, &mut self.gathered[start..]);
            let length = page.as_ref().ok().copied().flatten();
            self.gathered.truncate(start + length.unwrap_or(0));
            if page?.is_none() {
                return Ok(true);
            }
            if self.gathered.len() >= CHUNK_BYTES {
                self.write(out)?;
            }
        }
        Ok(false)
    }

    /// Writes what is gathered.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&mut self, out: &mut ChunkWriter<impl io::Write>) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let cpu = u16::try_from(self.cpu).unwrap_or(u16::MAX);
        let written = out.write(self.kind, cpu, &self.gathered);
        self.gathered.clear();
        written
    }
}
