//! A program that uses all the CPU it gets, and notes when it got it.

use std::fmt::Write as _;

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};

/// A stretch of running without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When it began (CLOCK_MONOTONIC).
    pub start: Instant,
    /// When it was last seen running.
    pub end: Instant,
}

/// Spins until `end`; a stretch without running that is longer than `gap` ends a burst.
pub fn spin(end: Instant, gap: Duration) -> Vec<Burst> {
    let mut bursts = Vec::with_capacity(1 << 16);
    let start = Monotonic.now();
    let mut burst = Burst { start, end: start };
    loop {
        let now = Monotonic.now();
        if now.saturating_since(burst.end) > gap {
            bursts.push(burst);
            burst.start = now;
        }
        burst.end = now;
        if now >= end {
            bursts.push(burst);
            return bursts;
        }
    }
}

/// One line per burst: start and end in nanoseconds.
pub fn to_text(bursts: &[Burst]) -> String {
    let mut text = String::new();
    for burst in bursts {
        let (start, end) = (burst.start.as_nanos(), burst.end.as_nanos());
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{start} {end}");
    }
    text
}

/// Reads what [`to_text`] wrote; other lines are passed over.
pub fn from_text(text: &str) -> Vec<Burst> {
    let burst = |line: &str| {
        let (start, end) = line.split_once(' ')?;
        Some(Burst {
            start: Instant::from_nanos(start.parse().ok()?),
            end: Instant::from_nanos(end.parse().ok()?),
        })
    };
    text.lines().filter_map(burst).collect()
}

/// The bursts that lie whole between two instants.
pub fn within(bursts: &[Burst], from: Instant, to: Instant) -> Vec<Burst> {
    let inside = bursts.iter().filter(|b| b.start >= from && b.end <= to);
    inside.copied().collect()
}
