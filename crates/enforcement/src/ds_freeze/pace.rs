//! Whether a domain keeps its CPU busy.

use tailbound_time::{Duration, Instant};

/// Shorter stretches say nothing: waking up takes as long.
const SHORTEST_STRETCH: Duration = Duration::from_micros(50);

/// A domain that uses at least this many hundredths of the time is busy.
const BUSY_PER_CENT: u64 = 75;

/// How a domain uses the time that it may run, judged from one look to the next.
///
/// The earliest moment at which a budget can be used up is known from the clock. A busy domain
/// uses it up about then, and the clock is the more exact way to learn it: an alarm that counts
/// CPU time makes every switch to the domain and from it dearer, and comes later. For a domain that
/// mostly waits, the clock would mean many looks in vain.
#[derive(Debug, Default)]
pub(super) struct Pace {
    since: Option<(Instant, Duration)>,
    busy: bool,
}

impl Pace {
    /// At `now` the domain has used `used` in total.
    pub(super) fn look(&mut self, now: Instant, used: Duration) {
        let Some((at, before)) = self.since else {
            return;
        };
        let passed = now.saturating_since(at);
        if passed >= SHORTEST_STRETCH {
            let least = passed.scaled_down(BUSY_PER_CENT, 100);
            self.busy = used.saturating_sub(before) >= least;
        }
        self.since = Some((now, used));
    }

    /// From `now` on the domain may run.
    pub(super) fn may_run(&mut self, now: Instant, used: Duration) {
        self.since = Some((now, used));
    }

    /// The domain is stopped: what it would do says nothing.
    pub(super) fn stopped(&mut self) {
        self.since = None;
    }

    /// Whether it was busy when last judged.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn busy_is_who_uses_three_quarters_of_the_time_it_may_run() {
        let mut pace = Pace::default();
        assert!(!pace.is_busy());
        pace.may_run(at(0), us(0));
        pace.look(at(1_000), us(750));
        assert!(pace.is_busy());
        pace.look(at(2_000), us(1_400));
        assert!(!pace.is_busy());
    }

    #[test]
    fn what_happens_while_it_is_stopped_or_in_no_time_changes_nothing() {
        let mut pace = Pace::default();
        pace.may_run(at(0), us(0));
        pace.look(at(400), us(390));
        pace.stopped();
        pace.look(at(1_000), us(390));
        assert!(pace.is_busy());
        pace.may_run(at(1_000), us(390));
        pace.look(at(1_020), us(390));
        assert!(pace.is_busy());
    }
}
