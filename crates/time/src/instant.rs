//! A point on a named clock.

use std::cell::Cell;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::Duration;

/// A point in time: nanoseconds since the origin of the clock that it was read from.
///
/// Two instants are comparable only if they come from the same clock; results name theirs by
/// [`ClockId`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);

    /// The point `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The length from `earlier` to here, or zero where `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The length from `earlier` to here, or `None` where `earlier` is later.
    pub const fn checked_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
            None => None,
        }
    }

    /// The point `length` later, or the last one there is.
    pub const fn saturating_add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.as_nanos()))
    }

    /// The point `length` earlier, or the origin.
    pub const fn saturating_sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length.as_nanos()))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        Self(self.0 + length.as_nanos())
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, length: Duration) -> Self {
        Self(self.0 - length.as_nanos())
    }
}

/// Which clock an instant was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockId {
    /// CLOCK_MONOTONIC: slewed by NTP; what timers and sleeps of the kernel use.
    Monotonic,
    /// CLOCK_MONOTONIC_RAW: the hardware's own rate.
    MonotonicRaw,
    /// CLOCK_REALTIME: the time of day, which hosts can synchronise, and which may be stepped.
    Realtime,
    /// Simulated time.
    Virtual,
}

/// Something that tells the time; injected, so that logic runs in virtual time under test.
pub trait Clock {
    /// Which clock this is.
    fn id(&self) -> ClockId;
    /// The time now.
    fn now(&self) -> Instant;
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Cell<Instant>,
}

impl VirtualClock {
    /// Moves the clock to `instant`.
    pub fn set(&self, instant: Instant) {
        self.now.set(instant);
    }

    /// Moves the clock forward by `length`.
    pub fn advance(&self, length: Duration) {
        self.now.set(self.now.get() + length);
    }
}

impl Clock for VirtualClock {
    fn id(&self) -> ClockId {
        ClockId::Virtual
    }

    fn now(&self) -> Instant {
        self.now.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_never_go_below_zero() {
        let (early, late) = (Instant::from_nanos(3), Instant::from_nanos(10));
        assert_eq!(late.saturating_since(early), Duration::from_nanos(7));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert_eq!(early.checked_since(late), None);
    }

    #[test]
    fn virtual_clock_moves_only_when_told() {
        let clock = VirtualClock::default();
        assert_eq!(clock.now(), Instant::ORIGIN);
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now(), Instant::from_nanos(5_000_000));
    }
}
