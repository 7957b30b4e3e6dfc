//! Taking the pages of the kernel's buffers into the file.

use std::fs::File;
use std::io;

use tailbound_trace::kernel::LONGEST_PAGE;
use tailbound_trace::recording::{ChunkKind, ChunkWriter};

use crate::clock_check::read_page;

/// Bytes of pages that are gathered before they are written as one chunk.
const CHUNK_BYTES: usize = 256 << 10;

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

    /// Takes every page that is there, and writes full chunks.
    ///
    /// # Errors
    /// The buffer cannot be read, or the file not be written.
    pub(crate) fn drain(&mut self, out: &mut ChunkWriter<impl io::Write>) -> io::Result<()> {
        loop {
            let start = self.gathered.len();
            self.gathered.resize(start + LONGEST_PAGE, 0);
            let page = read_page(&mut self.pages, &mut self.gathered[start..]);
            let length = page.as_ref().ok().copied().flatten();
            self.gathered.truncate(start + length.unwrap_or(0));
            if page?.is_none() {
                return Ok(());
            }
            if self.gathered.len() >= CHUNK_BYTES {
                self.write(out)?;
            }
        }
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
