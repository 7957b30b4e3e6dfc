//! The clock that hosts can share.

use std::time::{SystemTime, UNIX_EPOCH};

use tailbound_time::{Clock, ClockId, Instant};

/// CLOCK_REALTIME, which NTP and PTP synchronise between hosts. CLOCK_TAI would not step at leap seconds, but its distance
/// to CLOCK_REALTIME is only set where the time service sets it, and hosts that differ in it are 37 s apart.
///
/// A step of the clock makes one message too old or too young by the step; deadlines and leases that are open then are
/// judged wrongly once.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn id(&self) -> ClockId {
        ClockId::Realtime
    }

    fn now(&self) -> Instant {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let since_epoch_ns = since_epoch.map_or(0, |length| length.as_nanos());
        Instant::from_nanos(u64::try_from(since_epoch_ns).unwrap_or(u64::MAX))
    }
}
