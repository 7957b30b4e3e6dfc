//! Pages of the kernel's ring buffers, as `trace_pipe_raw` gives them.
//!
//! A page begins with a time stamp of 8 bytes and a commit of 8 bytes: the length of the data, and two
//! flags for lost events. Each event has a header of 4 bytes, 5 bits of type or length and 27 bits of
//! time since the event before (Documentation/trace/ring-buffer-map.rst, `header_event` of tracefs).
//! Only little-endian machines with 64 bits are read.

use tailbound_time::Instant;

/// Bytes before a page's data.
pub const PAGE_HEADER_BYTES: usize = 16;
/// Bytes of the longest page that is read; the kernel's are of 4 KiB where nobody made them longer.
pub const LONGEST_PAGE: usize = 1 << 16;
/// Commit: events were lost before this page.
const MISSED: u64 = 1 << 31;
/// Commit: behind the data stands how many.
const MISSED_COUNTED: u64 = 1 << 30;
/// Commit: the bits of the length.
const LENGTH: u64 = (1 << 27) - 1;

/// Types of events' headers; 1 to 28 are lengths in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits that an absolute time stamp has; higher ones are those of the stamp before.
const ABSOLUTE_BITS: u32 = 59;

/// Bytes that are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The header, or the data that it announces, ends early.
    #[error("a page of the ring buffer ends early: {there} bytes where {needed} are announced")]
    Truncated {
        /// Bytes that are there.
        there: usize,
        /// Bytes that are announced.
        needed: usize,
    },
    /// The length that is announced is none of a page.
    #[error("a page of {bytes} bytes; the longest has {LONGEST_PAGE}")]
    TooLong {
        /// Bytes that are announced.
        bytes: usize,
    },
    /// An event reaches over the end of its page.
    #[error("an event at byte {offset} of its page reaches over the page's end")]
    Overlong {
        /// Where it begins.
        offset: usize,
    },
}

/// One event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// When.
    pub at: Instant,
    /// Its bytes, from the common fields on.
    pub bytes: &'a [u8],
}

/// The events of a page, in order.
#[derive(Clone, Debug)]
pub struct PageEvents<'a> {
    data: &'a [u8],
    offset: usize,
    time_ns: u64,
    /// Events lost before the page, `Some(None)` where the kernel did not count them.
    lost: Option<Option<u64>>,
}

/// The bytes of a page that carry something: header, data, and the count of lost events.
///
/// # Errors
/// A page that ends early, or that is longer than [`LONGEST_PAGE`].
pub fn page_bytes(page: &[u8]) -> Result<usize, PageError> {
    let needed = PAGE_HEADER_BYTES;
    let there = page.len();
    let word = page.get(8..16).and_then(|bytes| bytes.try_into().ok());
    let Some(word) = word else {
        return Err(PageError::Truncated { there, needed });
    };
    let commit = u64::from_le_bytes(word);
    let mut needed = PAGE_HEADER_BYTES + (commit & LENGTH) as usize;
    if commit & MISSED != 0 && commit & MISSED_COUNTED != 0 {
        needed += 8;
    }
    match needed <= there {
        _ if needed > LONGEST_PAGE => Err(PageError::TooLong { bytes: needed }),
        true => Ok(needed),
        false => Err(PageError::Truncated { there, needed }),
    }
}

impl<'a> PageEvents<'a> {
    /// The events of a page.
    ///
    /// # Errors
    /// A page that ends early.
    pub fn of(page: &'a [u8]) -> Result<Self, PageError> {
        page_bytes(page)?;
        let number = |at: usize| {
            let bytes = page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes)
        };
        let (time_ns, commit) = (number(0).unwrap_or(0), number(8).unwrap_or(0));
        let end = PAGE_HEADER_BYTES + (commit & LENGTH) as usize;
        let lost = (commit & MISSED != 0).then(|| match commit & MISSED_COUNTED != 0 {
            true => number(end),
            false => None,
        });
        Ok(Self {
            data: &page[PAGE_HEADER_BYTES..end],
            offset: 0,
            time_ns,
            lost,
        })
    }

    /// The loss that the page announces, and the page's time.
    pub fn lost(&self) -> Option<(Instant, Option<u64>)> {
        self.lost
            .map(|count| (Instant::from_nanos(self.time_ns), count))
    }

    /// The next event.
    ///
    /// # Errors
    /// An event that reaches over the page's end; the rest of the page cannot be read.
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'a>>, PageError> {
        loop {
            let Some(header) = self.word(self.offset) else {
                return match self.offset == self.data.len() {
                    true => Ok(None),
                    false => self.overlong(),
                };
            };
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            let first = self.word(self.offset + 4);
            match (kind, first) {
                (PADDING, _) if delta == 0 => return Ok(None),
                (PADDING, Some(length)) => {
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    self.offset = self.offset.saturating_add(4 + length as usize);
                    if self.offset > self.data.len() {
                        return self.overlong();
                    }
                }
                (TIME_EXTEND, Some(high)) => {
                    self.time_ns = self.time_ns.wrapping_add(delta + (u64::from(high) << 27));
                    self.offset += 8;
                }
                (TIME_STAMP, Some(high)) => {
                    self.set_absolute(delta + (u64::from(high) << 27));
                    self.offset += 8;
                }
                (PADDING | TIME_EXTEND | TIME_STAMP, None) => return self.overlong(),
                _ => return self.data_event(kind, delta, first).map(Some),
            }
        }
    }

    fn data_event(
        &mut self,
        kind: u32,
        delta: u64,
        first: Option<u32>,
    ) -> Result<RawEvent<'a>, PageError> {
        let (start, length) = match (kind, first) {
            // The word counts itself.
            (0, Some(length)) if length >= 4 => (self.offset + 8, length as usize - 4),
            (0, _) => return self.overlong(),
            _ => (self.offset + 4, kind as usize * 4),
        };
        let end = start.saturating_add(length);
        let Some(bytes) = self.data.get(start..end) else {
            return self.overlong();
        };
        self.time_ns = self.time_ns.wrapping_add(delta);
        self.offset = start + length.next_multiple_of(4);
        self.offset = self.offset.min(self.data.len());
        Ok(RawEvent {
            at: Instant::from_nanos(self.time_ns),
            bytes,
        })
    }

    fn set_absolute(&mut self, stamp: u64) {
        let high = self.time_ns >> ABSOLUTE_BITS << ABSOLUTE_BITS;
        self.time_ns = high | (stamp & ((1 << ABSOLUTE_BITS) - 1));
    }

    fn word(&self, offset: usize) -> Option<u32> {
        let bytes = self.data.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn overlong<T>(&mut self) -> Result<T, PageError> {
        let offset = self.offset;
        self.offset = self.data.len();
        Err(PageError::Overlong { offset })
    }
}
