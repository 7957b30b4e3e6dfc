//! The gaps of a thread that does nothing but read the clock.

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};

use super::series::Spread;
use super::tick::{Gap, Stretch};
use super::turns::{Rest, STRETCH, pause_after};

/// A gap is longer than this many usual readings of the clock.
const USUAL_READINGS: u64 = 4;
/// The most gaps of a stretch; a host with more has other troubles.
const MOST_GAPS: usize = 100_000;
/// Readings from which the usual one is told.
const FIRST_READINGS: usize = 10_000;

/// What was seen in a while.
pub(super) struct ClockGaps {
    /// What one reading of the clock usually takes.
    pub reading: Duration,
    /// The stretches, with their gaps.
    pub stretches: Vec<Stretch>,
}

/// Reads the clock for `length`, pauses left out.
pub(super) fn look(length: Duration) -> ClockGaps {
    let readings: Vec<Instant> = (0..FIRST_READINGS).map(|_| Monotonic.now()).collect();
    let usual = readings
        .windows(2)
        .map(|pair| pair[1].saturating_since(pair[0]));
    let reading = Spread::of(usual.collect()).map_or(Duration::ZERO, |spread| spread.median);
    let threshold = reading.scaled_down(USUAL_READINGS, 1);
    let mut stretches = Vec::new();
    let mut looked = Duration::ZERO;
    while looked < length {
        let stretch = stretch(&Monotonic, STRETCH.min(length), threshold);
        let passed = stretch.end.saturating_since(stretch.begin);
        looked = looked.saturating_add(passed);
        stretches.push(stretch);
        Monotonic.rest(Monotonic.now().saturating_add(pause_after(passed)));
    }
    ClockGaps { reading, stretches }
}

fn stretch(clock: &impl Clock, length: Duration, threshold: Duration) -> Stretch {
    let mut gaps = Vec::with_capacity(MOST_GAPS);
    let begin = clock.now();
    let until = begin.saturating_add(length);
    let mut last = begin;
    while last < until && gaps.len() < MOST_GAPS {
        let now = clock.now();
        let gap = now.saturating_since(last);
        if gap > threshold {
            gaps.push(Gap {
                begin: last,
                length: gap,
            });
        }
        last = now;
    }
    Stretch {
        begin,
        end: last,
        gaps,
    }
}
