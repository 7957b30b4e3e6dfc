//! The decoded events of one ring buffer of one CPU.

use std::collections::VecDeque;

use super::chunk::ChunkKind;
use super::error::RecordingError;
use super::file::{ChunkPlace, PositionedBytes, Recording};
use crate::kernel::{Decoder, KernelEvent, KernelEventKind, PageEvents, page_bytes};
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
            lost: self.lost + other.lost,
            uncounted: self.uncounted + other.uncounted,
            unreadable: self.unreadable + other.unreadable,
            backwards: self.backwards + other.backwards,
        }
    }
}

/// The decoded events of one ring buffer of one CPU, in order.
#[derive(Debug)]
pub struct EventStream<'a, B> {
    recording: &'a Recording<B>,
    decoder: &'a Decoder,
    cpu: u32,
    places: VecDeque<ChunkPlace>,
    content: Vec<u8>,
    /// Where the next page begins in the content.
    page: usize,
    ready: VecDeque<KernelEvent>,
    latest: Instant,
    loss: StreamLoss,
}

impl<'a, B: PositionedBytes> EventStream<'a, B> {
    /// The events of a CPU in chunks of a kind.
    pub(crate) fn new(
        recording: &'a Recording<B>,
        decoder: &'a Decoder,
        kind: ChunkKind,
        cpu: u32,
    ) -> Self {
        let place = u16::try_from(cpu).unwrap_or(u16::MAX);
        Self {
            recording,
            decoder,
            cpu,
            places: recording.places_of(kind, Some(place)).collect(),
            content: Vec::new(),
            page: 0,
            ready: VecDeque::new(),
            latest: Instant::ORIGIN,
            loss: StreamLoss::default(),
        }
    }

    /// The CPU.
    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// What was lost so far.
    pub fn loss(&self) -> StreamLoss {
        self.loss
    }

    /// The time of the next event.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn peek(&mut self) -> Result<Option<Instant>, RecordingError> {
        while self.ready.is_empty() {
            if self.page >= self.content.len() {
                let Some(place) = self.places.pop_front() else {
                    return Ok(None);
                };
                self.page = 0;
                self.content = self.recording.content(place)?.unwrap_or_default();
                self.loss.unreadable += u64::from(self.content.is_empty());
                continue;
            }
            self.read_page();
        }
        Ok(self.ready.front().map(|event| event.at))
    }

    /// The next event.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn next_event(&mut self) -> Result<Option<KernelEvent>, RecordingError> {
        self.peek()?;
        Ok(self.ready.pop_front())
    }

    fn read_page(&mut self) {
        let content = std::mem::take(&mut self.content);
        let rest = &content[self.page..];
        match page_bytes(rest).and_then(|length| Ok((length, PageEvents::of(&rest[..length])?))) {
            Ok((length, events)) => {
                self.page += length;
                self.read_events(events);
            }
            Err(_) => {
                self.page = content.len();
                self.loss.unreadable += 1;
            }
        }
        self.content = content;
    }

    fn read_events(&mut self, mut events: PageEvents<'_>) {
        if let Some((at, count)) = events.lost() {
            self.loss.lost += count.unwrap_or(0);
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
