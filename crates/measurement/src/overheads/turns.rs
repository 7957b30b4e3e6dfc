//! Samples of several kinds, taken in turns and with pauses.

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_time::{Clock, Duration, Instant};

use super::series::Series;
use crate::MeasurementError;

/// Samples of one kind before the next kind's turn.
const BLOCK: usize = 32;
/// The kernel lets FIFO threads run 95% of a second; stretches with pauses stay well below.
pub(super) const STRETCH: Duration = Duration::from_millis(80);
/// A pause is this part of the stretch before it, however long that became: a fifth of both.
const PAUSE_PART: u64 = 4;

/// The pause that is due after a stretch, rounded up.
pub(super) fn pause_after(stretch: Duration) -> Duration {
    Duration::from_nanos(stretch.as_nanos().div_ceil(PAUSE_PART))
}

/// A clock that one can sleep by.
pub(super) trait Rest: Clock {
    /// Sleeps until `until`.
    fn rest(&self, until: Instant);
}

impl Rest for Monotonic {
    fn rest(&self, until: Instant) {
        let _no_pause_at_worst = sleep_until(until);
    }
}

/// Something that is measured once per call.
pub(super) trait SampleSource {
    /// Before a block of samples.
    fn begin(&mut self) {}
    /// One sample.
    fn sample(&mut self) -> Result<Duration, MeasurementError>;
    /// After a block.
    fn end(&mut self) {}
}

impl<F: FnMut() -> Result<Duration, MeasurementError>> SampleSource for F {
    fn sample(&mut self) -> Result<Duration, MeasurementError> {
        self()
    }
}

/// Takes blocks of samples of all `kinds` in turns until they took `length`, pauses left out, so that
/// what the machine does at the time happens to all of them alike. The first round does not count:
/// it warms up.
pub(super) fn in_turns<const KINDS: usize>(
    length: Duration,
    mut kinds: [&mut dyn SampleSource; KINDS],
) -> Result<[Series; KINDS], MeasurementError> {
    let mut series: [Series; KINDS] = std::array::from_fn(|_| Series::default());
    let mut pace = StretchPace::begin(Monotonic);
    let mut round = 0_u64;
    // One round of each half at least.
    while round < 3 || pace.busy() < length {
        for (kind, series) in kinds.iter_mut().zip(&mut series) {
            let half = match round {
                0 => &mut Vec::new(),
                _ if round.is_multiple_of(2) => &mut series.even,
                _ => &mut series.odd,
            };
            kind.begin();
            let outcome: Result<(), MeasurementError> = (0..BLOCK).try_for_each(|_| {
                half.push(kind.sample()?);
                Ok(())
            });
            kind.end();
            outcome?;
        }
        round += 1;
        pace.rest_if_due();
    }
    // What is measured next begins a stretch of its own.
    pace.rest();
    Ok(series)
}

/// Work in stretches with pauses.
struct StretchPace<C> {
    clock: C,
    since: Instant,
    before: Duration,
}

impl<C: Rest> StretchPace<C> {
    fn begin(clock: C) -> Self {
        Self {
            since: clock.now(),
            clock,
            before: Duration::ZERO,
        }
    }

    /// How long the work took so far.
    fn busy(&self) -> Duration {
        self.before.saturating_add(self.stretch())
    }

    fn stretch(&self) -> Duration {
        self.clock.now().saturating_since(self.since)
    }

    /// Pauses after a stretch that is long enough.
    fn rest_if_due(&mut self) {
        if self.stretch() >= STRETCH {
            self.rest();
        }
    }

    /// Pauses in proportion to the stretch that really passed.
    fn rest(&mut self) {
        let end = self.clock.now();
        let stretch = end.saturating_since(self.since);
        self.before = self.before.saturating_add(stretch);
        self.clock.rest(end.saturating_add(pause_after(stretch)));
        self.since = self.clock.now();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_time::VirtualClock;

    use super::*;

    #[test]
    fn kinds_take_turns_and_the_first_round_does_not_count() {
        let mut calls = 0_u64;
        let mut counted = || {
            calls += 1;
            Ok(Duration::from_nanos(calls))
        };
        let mut constant = || Ok(Duration::from_nanos(7));
        let [first, second] = in_turns(Duration::ZERO, [&mut counted, &mut constant]).unwrap();
        let block = BLOCK as u64;
        assert_eq!(first.odd.first(), Some(&Duration::from_nanos(block + 1)));
        assert_eq!(first.even.last(), Some(&Duration::from_nanos(3 * block)));
        assert_eq!(second.even.len() + second.odd.len(), 2 * BLOCK);
        assert_eq!(second.floor(), Duration::ZERO);
    }

    impl Rest for VirtualClock {
        fn rest(&self, until: Instant) {
            self.set(until);
        }
    }

    proptest! {
        /// However long rounds are, as where each has hundreds of slow migrations: after every rest, a
        /// fifth of the time or more was rested.
        #[test]
        fn a_fifth_of_the_time_is_left_to_others(
            rounds_ns in proptest::collection::vec(1_u64..900_000_000, 1..50),
        ) {
            let mut pace = StretchPace::begin(VirtualClock::default());
            let mut worked_ns = 0;
            let rested_ns = |clock: &VirtualClock, worked_ns| clock.now().as_nanos() - worked_ns;
            for round_ns in &rounds_ns {
                pace.clock.advance(Duration::from_nanos(*round_ns));
                worked_ns += round_ns;
                let due = pace.stretch() >= STRETCH;
                pace.rest_if_due();
                prop_assert_eq!(pace.busy().as_nanos(), worked_ns);
                if due {
                    prop_assert!(4 * rested_ns(&pace.clock, worked_ns) >= worked_ns);
                }
            }
            pace.rest();
            let rested_ns = rested_ns(&pace.clock, worked_ns);
            let rounding_ns = 1 + rounds_ns.len() as u64;
            prop_assert!((worked_ns..=worked_ns + 4 * rounding_ns).contains(&(4 * rested_ns)));
        }
    }
}
