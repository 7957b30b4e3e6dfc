//! Pages of a ring buffer, as a kernel would have written them.

use crate::kernel::PAGE_HEADER_BYTES;

/// Bytes of a page's data.
const DATA_BYTES: usize = 4096 - PAGE_HEADER_BYTES;
/// The longest time between two events that an event's header holds, in nanoseconds.
const LONGEST_DELTA: u64 = (1 << 27) - 1;
/// The longest event whose length is in its header, in words.
const LONGEST_SHORT: usize = 28;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const MISSED: u64 = 1 << 31;
const MISSED_COUNTED: u64 = 1 << 30;

/// Writes events into pages, without the unused end of each.
#[derive(Debug, Default)]
pub(super) struct PageWriter {
    pages: Vec<u8>,
    data: Vec<u8>,
    began: u64,
    latest: u64,
    lost: Option<Option<u64>>,
}

impl PageWriter {
    /// An event; one with an earlier time than the event before has an absolute time stamp.
    pub(super) fn push(&mut self, at: u64, event: &[u8]) {
        let words = event.len().div_ceil(4);
        if self.data.len() + 16 + words * 4 > DATA_BYTES {
            self.end_page();
        }
        if self.data.is_empty() {
            (self.began, self.latest) = (at, at);
        }
        let mut delta = 0;
        match at.checked_sub(self.latest) {
            Some(later) if later <= LONGEST_DELTA => delta = later,
            Some(later) => self.time(TIME_EXTEND, later),
            None => self.time(TIME_STAMP, at),
        }
        self.latest = at;
        let header = (delta as u32) << 5;
        match words <= LONGEST_SHORT {
            true => self.word(header | words as u32),
            false => {
                self.word(header);
                self.word(words as u32 * 4 + 4);
            }
        }
        self.data.extend(event);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
    }

    /// The loss of events before the next one.
    pub(super) fn lose(&mut self, count: Option<u64>) {
        self.end_page();
        self.lost = Some(count);
    }

    /// The pages.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end_page();
        self.pages
    }

    fn end_page(&mut self) {
        if self.data.is_empty() {
            return;
        }
        let flags = match self.lost {
            None => 0,
            Some(None) => MISSED,
            Some(Some(_)) => MISSED | MISSED_COUNTED,
        };
        let commit = self.data.len() as u64 | flags;
        self.pages.extend(self.began.to_le_bytes());
        self.pages.extend(commit.to_le_bytes());
        self.pages.append(&mut self.data);
        if let Some(Some(count)) = self.lost.take() {
            self.pages.extend(count.to_le_bytes());
        }
    }

    fn time(&mut self, kind: u32, nanos: u64) {
        self.word(((nanos & LONGEST_DELTA) as u32) << 5 | kind);
        self.word((nanos >> 27) as u32);
    }

    fn word(&mut self, word: u32) {
        self.data.extend(word.to_le_bytes());
    }
}
