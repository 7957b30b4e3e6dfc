//! Points of time at equal distances.

use tailbound_time::{Duration, Instant};

/// The grid of a reservation's replenishments: its next point, and the distance between points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplenishmentGrid {
    /// The next point, in nanoseconds.
    pub(crate) next: u64,
    pub(crate) period_ns: u64,
}

impl ReplenishmentGrid {
    /// The grid of this next point and this distance, which is above zero.
    pub fn new(next: Instant, period: Duration) -> Self {
        Self {
            next: next.as_nanos(),
            period_ns: period.as_nanos(),
        }
    }

    /// The next point.
    #[inline]
    pub fn next(&self) -> Instant {
        Instant::from_nanos(self.next)
    }

    /// The first of the points from the next one on that is not before an instant.
    pub fn first_from(&self, instant: Instant) -> Instant {
        let wait = instant.as_nanos().saturating_sub(self.next);
        let periods = wait.div_ceil(self.period_ns);
        Instant::from_nanos(
            self.next
                .saturating_add(periods.saturating_mul(self.period_ns)),
        )
    }

    /// The last point that has come by `now`, and how many came between it and the one that was next;
    /// nothing, if none has come.
    #[inline]
    pub(crate) fn latest(&self, now: u64) -> Option<(u64, u64)> {
        let skipped = now.checked_sub(self.next)? / self.period_ns;
        let passed = skipped.saturating_mul(self.period_ns);
        Some((self.next.saturating_add(passed), skipped))
    }

    /// Goes on to the first point after `now`; returns whether one has come.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64) -> bool {
        let latest = self.latest(now);
        if let Some((point, _)) = latest {
            self.next = point.saturating_add(self.period_ns);
        }
        latest.is_some()
    }
}
