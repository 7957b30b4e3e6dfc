//! How much of its CPU the generator may keep awake.
//!
//! The kernel takes the CPU from FIFO threads that use more than 95% of a second, for 50 ms (real-
//! time throttling, the fair server). A generator that spins between dense releases would run into
//! it and send 50 ms late; so it sleeps earlier, at the price of some microseconds of lateness.

use tailbound_time::{Duration, Instant};

/// The stretch over which the share is kept.
const WINDOW: Duration = Duration::from_millis(50);
/// Awake so long in one window, it spins no more in it.
const SPIN_LIMIT: Duration = Duration::from_millis(42);

/// Keeps account of one thread's spinning.
#[derive(Debug)]
pub(super) struct SpinAllowance {
    limited: bool,
    window_start: Instant,
    slept: Duration,
}

impl SpinAllowance {
    /// An account that begins at `now`; without `limited` it allows everything.
    pub(super) fn new(limited: bool, now: Instant) -> Self {
        Self {
            limited,
            window_start: now,
            slept: Duration::ZERO,
        }
    }

    /// Notes that the thread slept for `length`.
    pub(super) fn note_sleep(&mut self, length: Duration) {
        self.slept = self.slept.saturating_add(length);
    }

    /// Whether the thread may spin at `now`.
    pub(super) fn may_spin(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_since(self.window_start);
        if elapsed >= WINDOW {
            self.window_start = now;
            self.slept = Duration::ZERO;
            return true;
        }
        !self.limited || elapsed.saturating_sub(self.slept) < SPIN_LIMIT
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(milliseconds)
    }

    #[test]
    fn spinning_ends_before_throttling_would_begin_and_comes_back() {
        let mut allowance = SpinAllowance::new(true, at(0));
        assert!(allowance.may_spin(at(41)));
        assert!(!allowance.may_spin(at(43)));
        assert!(!allowance.may_spin(at(49)));
        assert!(allowance.may_spin(at(50)));
        assert!(allowance.may_spin(at(91)));
        assert!(!allowance.may_spin(at(93)));
    }

    #[test]
    fn sleep_does_not_count() {
        let mut allowance = SpinAllowance::new(true, at(0));
        allowance.note_sleep(Duration::from_millis(20));
        assert!(allowance.may_spin(at(49)));
    }

    #[test]
    fn a_thread_that_is_not_fifo_may_always_spin() {
        let mut allowance = SpinAllowance::new(false, at(0));
        assert!(allowance.may_spin(at(49)));
    }
}
