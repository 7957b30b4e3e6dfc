//! Stalls: stretches in which a CPU was silent although its sampler was due.

use std::collections::VecDeque;

use crate::recording::{MergedEvents, PositionedBytes, RecordingError, SamplerDelay};

/// A gap between a sampler's due time and the next event of its CPU that is shorter is no stall: the kernel was slow.
const SHORTEST: u64 = 100_000;

/// The delays of all samplers, in order of when they were due.
#[derive(Clone, Debug)]
pub(crate) struct Stalls {
    delays: VecDeque<SamplerDelay>,
}

/// A CPU that was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) cpu: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Stalls {
    pub(crate) fn new(mut delays: Vec<SamplerDelay>) -> Self {
        delays.sort_by_key(|delay| delay.due);
        Self {
            delays: delays.into(),
        }
    }

    /// The next stall that begins at `until` or before. A CPU with events between the due time and the wake-up was
    /// busy with them; the silence before the first of them is the stall. It began up to a sampler's period
    /// before it was due: that much is not counted.
    pub(crate) fn next<B: PositionedBytes>(
        &mut self,
        until: u64,
        events: &mut MergedEvents<'_, B>,
    ) -> Result<Option<Stall>, RecordingError> {
        while self
            .delays
            .front()
            .is_some_and(|delay| delay.due.as_nanos() <= until)
        {
            let Some(delay) = self.delays.pop_front() else {
                break;
            };
            let (start, woke) = (delay.due.as_nanos(), delay.woke.as_nanos());
            let next = events
                .next_on(delay.cpu)?
                .map_or(woke, |next| next.as_nanos());
            let end = next.min(woke);
            if end.saturating_sub(start) >= SHORTEST {
                let cpu = delay.cpu;
                return Ok(Some(Stall { cpu, start, end }));
            }
        }
        Ok(None)
    }
}
