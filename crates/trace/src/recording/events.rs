//! The decoded events of one ring buffer of one CPU.

use std::collections::VecDeque;

use super::chunk::ChunkKind;
use super::error::KernelRecordingError;
use super::file::KernelRecording;
use super::index::PositionedBytes;
use super::pages::PageStream;
use crate::kernel::{EventDecoder, KernelEvent, KernelEventKind, PageEvents};
use tailbound_time::Instant;

/// What was lost or cannot be read of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLoss {
    /// Events that the kernel lost.
    pub lost: u64,
    /// Places with losses that the kernel did not count.
    pub uncounted: u64,
    /// Chunks and pages that cannot be read.
    pub unreadable: u64,
    /// Events whose time lies before that of the event before.
    pub backwards: u64,
}

impl StreamLoss {
    /// The sum of two.
    pub fn plus(self, other: Self) -> Self {
        Self {
            lost: self.lost.saturating_add(other.lost),
            uncounted: self.uncounted + other.uncounted,
            unreadable: self.unreadable + other.unreadable,
            backwards: self.backwards + other.backwards,
        }
    }
}

/// The decoded events of one ring buffer of one CPU, in order.
#[derive(Debug)]
pub struct EventStream<'a, B> {
    pages: PageStream<'a, B>,
    decoded: DecodedEvents<'a>,
}

/// Events that were decoded, and not taken yet.
#[derive(Debug)]
struct DecodedEvents<'a> {
    decoder: &'a EventDecoder,
    cpu: u32,
    ready: VecDeque<KernelEvent>,
    latest: Instant,
    loss: StreamLoss,
}

impl<'a, B: PositionedBytes> EventStream<'a, B> {
    /// The events of a CPU in chunks of a kind.
    pub(crate) fn new(
        recording: &'a KernelRecording<B>,
        decoder: &'a EventDecoder,
        kind: ChunkKind,
        cpu: u32,
    ) -> Self {
        Self {
            pages: PageStream::new(recording, kind, cpu),
            decoded: DecodedEvents {
                decoder,
                cpu,
                ready: VecDeque::new(),
                latest: Instant::ORIGIN,
                loss: StreamLoss::default(),
            },
        }
    }

    /// The CPU.
    pub(crate) fn cpu(&self) -> u32 {
        self.decoded.cpu
    }

    /// What was lost so far.
    pub fn loss(&self) -> StreamLoss {
        let mut loss = self.decoded.loss;
        loss.unreadable += self.pages.unreadable();
        loss
    }

    /// The time of the next event.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn peek(&mut self) -> Result<Option<Instant>, KernelRecordingError> {
        while self.decoded.ready.is_empty() {
            match self.pages.next_page()? {
                Some(page) => self.decoded.read_page(page),
                None => return Ok(None),
            }
        }
        Ok(self.decoded.ready.front().map(|event| event.at))
    }

    /// The next event.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn next_event(&mut self) -> Result<Option<KernelEvent>, KernelRecordingError> {
        self.peek()?;
        Ok(self.decoded.ready.pop_front())
    }
}

impl DecodedEvents<'_> {
    fn read_page(&mut self, page: &[u8]) {
        let Ok(mut events) = PageEvents::of(page) else {
            self.loss.unreadable += 1;
            return;
        };
        if let Some((at, count)) = events.lost() {
            self.loss.lost = self.loss.lost.saturating_add(count.unwrap_or(0));
            self.loss.uncounted += u64::from(count.is_none());
            self.push(at, 0, KernelEventKind::Lost { count });
        }
        loop {
            match events.next_event() {
                Ok(None) => return,
                Ok(Some(event)) => {
                    if let Some((thread, kind)) = self.decoder.decode(event.bytes) {
                        self.push(event.at, thread, kind);
                    }
                }
                Err(_) => {
                    self.loss.unreadable += 1;
                    return;
                }
            }
        }
    }

    /// Keeps time from running backwards: an event that claims to is put at the time of the one before.
    fn push(&mut self, at: Instant, thread: u32, kind: KernelEventKind) {
        self.loss.backwards += u64::from(at < self.latest);
        self.latest = self.latest.max(at);
        self.ready.push_back(KernelEvent {
            at: self.latest,
            cpu: self.cpu,
            thread,
            kind,
        });
    }
}
