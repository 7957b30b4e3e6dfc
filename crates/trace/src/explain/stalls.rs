//! Stalls: stretches in which a CPU was silent although its sampler was due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_time::{Duration, Instant};

use crate::recording::{KernelRecordingError, MergedEvents, PositionedBytes, SamplerDelay};

/// A gap between a sampler's due time and the next event of its CPU that is shorter is no stall: the kernel was slow.
const SHORTEST: u64 = 100_000;

/// A delay that may be a stall, with when the stall would have begun.
type Candidate = Reverse<(u64, u64, u64, u32)>;

/// The delays of all samplers, in order of when their stalls would have begun.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    candidates: BinaryHeap<Candidate>,
}

/// A CPU that was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuStall {
    /// The CPU.
    pub cpu: u32,
    /// When it was, in nanoseconds.
    pub start: u64,
    /// Until when, in nanoseconds.
    pub end: u64,
}

impl Stalls {
    /// The delays of samplers whose looks are so far apart.
    pub fn new(delays: &[SamplerDelay], looks_apart: Duration) -> Self {
        // A stall began at some time since the look before: half of the distance is the mean of what nobody saw.
        let before = looks_apart.scaled_down(1, 2);
        let candidate = |delay: &SamplerDelay| {
            let start = delay.due.saturating_sub(before).as_nanos();
            Reverse((
                start,
                delay.due.as_nanos(),
                delay.woke.as_nanos(),
                delay.cpu,
            ))
        };
        Self {
            candidates: delays.iter().map(candidate).collect(),
        }
    }

    /// The next stall that begins at `until` or before. A CPU with events was not away: a stall begins behind the last
    /// event before its look was due, and ends with the first after it.
    ///
    /// # Errors
    /// What the source says.
    pub fn next<B: PositionedBytes>(
        &mut self,
        until: Instant,
        events: &mut MergedEvents<'_, B>,
    ) -> Result<Option<CpuStall>, KernelRecordingError> {
        while let Some(Reverse((start, due, woke, cpu))) = self.candidates.peek().copied() {
            if start > until.as_nanos() {
                break;
            }
            self.candidates.pop();
            let next = events.next_on(cpu)?.map_or(woke, |next| next.as_nanos());
            if next < due {
                self.candidates
                    .push(Reverse((next.max(start + 1), due, woke, cpu)));
                if next > until.as_nanos() || next <= start {
                    break;
                }
                continue;
            }
            let end = next.min(woke);
            if end.saturating_sub(due) >= SHORTEST {
                return Ok(Some(CpuStall { cpu, start, end }));
            }
        }
        Ok(None)
    }
}
