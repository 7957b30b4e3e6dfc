//! All events of a recording, in the order of time.

use super::chunk::ChunkKind;
use super::error::KernelRecordingError;
use super::events::{EventStream, StreamLoss};
use super::file::KernelRecording;
use super::index::PositionedBytes;
use crate::kernel::{EventDecoder, EventLayout, KernelEvent, LayoutError};

impl<B: PositionedBytes> KernelRecording<B> {
    /// A decoder of the recording's events.
    ///
    /// # Errors
    /// A layout in the header that is none.
    pub fn decoder(&self) -> Result<EventDecoder, LayoutError> {
        let formats = self.header().formats.iter();
        let layouts = formats.map(|text| EventLayout::parse(text));
        let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
        Ok(EventDecoder::new(&layouts))
    }

    /// All events, in the order of time.
    pub fn events<'a>(&'a self, decoder: &'a EventDecoder) -> MergedEvents<'a, B> {
        let mut streams = Vec::new();
        for cpu in &self.header().cpus {
            for kind in [ChunkKind::SchedulerPages, ChunkKind::CallPages] {
                streams.push(EventStream::new(self, decoder, kind, *cpu));
            }
        }
        MergedEvents { streams }
    }
}

/// All events of a recording, in the order of time; of events at the same instant, those of
/// lower CPUs come first.
#[derive(Debug)]
pub struct MergedEvents<'a, B> {
    streams: Vec<EventStream<'a, B>>,
}

impl<B: PositionedBytes> MergedEvents<'_, B> {
    /// The next event.
    ///
    /// # Errors
    /// What the source says.
    pub fn next_event(&mut self) -> Result<Option<KernelEvent>, KernelRecordingError> {
        let mut first = None;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if let Some(at) = stream.peek()?
                && first.is_none_or(|(least, _)| at < least)
            {
                first = Some((at, index));
            }
        }
        match first {
            Some((_, index)) => self.streams[index].next_event(),
            None => Ok(None),
        }
    }

    /// The time of the next event of a CPU.
    ///
    /// # Errors
    /// What the source says.
    pub fn next_on(
        &mut self,
        cpu: u32,
    ) -> Result<Option<tailbound_time::Instant>, KernelRecordingError> {
        let mut next = None;
        for stream in self.streams.iter_mut().filter(|stream| stream.cpu() == cpu) {
            let at = stream.peek()?;
            next = [next, at].into_iter().flatten().min();
        }
        Ok(next)
    }

    /// What was lost so far.
    pub fn loss(&self) -> StreamLoss {
        let losses = self.streams.iter().map(EventStream::loss);
        losses.fold(StreamLoss::default(), StreamLoss::plus)
    }
}
