//! How long agents may still be boosted.
//!
//! What a boost takes comes from no budget of its domain. Admission reserves it once per domain in every
//! least gap between changes, so a domain must not have more than that, however often a change asks for it:
//! to stop tasks, to start others, to fall back, to take all back. What a boost has taken can be taken
//! again when that gap has passed since it began, as with a sporadic server, so that no interval of that
//! length has more than was reserved for it.

use std::collections::{BTreeMap, VecDeque};

use tailbound_time::{Duration, Instant};

/// The boosts of all domains.
#[derive(Debug, Default)]
pub(super) struct Boosts {
    by_domain: BTreeMap<String, Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    /// When boosts began that count still, and how long they were.
    past: VecDeque<(Instant, Duration)>,
    /// When the present one began, and how long it may be.
    present: Option<(Instant, Duration)>,
}

impl Spent {
    /// Counts the present boost; whether there was one.
    fn end(&mut self, now: Instant) -> bool {
        let Some((began, at_most)) = self.present.take() else {
            return false;
        };
        // It ends by itself if nobody ends it.
        let lasted = now.saturating_since(began).min(at_most);
        self.past.push_back((began, lasted));
        true
    }
}

impl Boosts {
    /// A boost begins: how long it may be, with `longest` in every interval of length `gap`. `None` if
    /// nothing is left.
    pub(super) fn begin(
        &mut self,
        domain: &str,
        now: Instant,
        (longest, gap): (Duration, Duration),
    ) -> Option<Duration> {
        let spent = self.by_domain.entry(domain.to_owned()).or_default();
        spent.end(now);
        let counts = |began: Instant| began.saturating_add(gap) > now;
        while spent.past.front().is_some_and(|(began, _)| !counts(*began)) {
            spent.past.pop_front();
        }
        let past = spent.past.iter();
        let left = past.fold(longest, |left, (_, lasted)| left.saturating_sub(*lasted));
        if left.is_zero() {
            return None;
        }
        assert!(left <= longest, "a boost is no longer than was reserved");
        spent.present = Some((now, left));
        Some(left)
    }

    /// A boost is to end; whether one was under way.
    pub(super) fn end(&mut self, domain: &str, now: Instant) -> bool {
        let spent = self.by_domain.get_mut(domain);
        spent.is_some_and(|spent| spent.end(now))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const LONGEST_US: u64 = 500;
    const GAP_US: u64 = 10_000;

    fn us(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    fn at(count_us: u64) -> Instant {
        Instant::from_nanos(count_us * 1_000)
    }

    fn begin(boosts: &mut Boosts, now_us: u64) -> Option<Duration> {
        boosts.begin("a", at(now_us), (us(LONGEST_US), us(GAP_US)))
    }

    #[test]
    fn boosts_share_what_is_reserved_for_them() {
        let mut boosts = Boosts::default();
        assert!(!boosts.end("a", at(0)));
        assert_eq!(begin(&mut boosts, 100), Some(us(500)));
        assert!(boosts.end("a", at(300)));
        assert_eq!(begin(&mut boosts, 1_000), Some(us(300)));
        // It has ended by itself.
        assert!(boosts.end("a", at(5_000)));
        assert_eq!(begin(&mut boosts, 6_000), None);
        assert!(!boosts.end("a", at(6_100)));
        // Another domain has its own.
        assert!(boosts.begin("b", at(6_000), (us(1), us(1))).is_some());
        // What the first one took, a gap after it began.
        assert_eq!(begin(&mut boosts, 10_099), None);
        assert_eq!(begin(&mut boosts, 10_100), Some(us(200)));
    }

    proptest! {
        #[test]
        fn no_interval_has_more_than_is_reserved(
            asked in prop::collection::vec((0..4_000_u64, 0..900_u64), 1..60),
        ) {
            let mut boosts = Boosts::default();
            let mut now = 0;
            let mut had: Vec<(u64, u64)> = Vec::new();
            for (pause, wanted) in asked {
                now += pause;
                let left = begin(&mut boosts, now).map_or(0, |left| left.as_nanos() / 1_000);
                had.push((now, now + wanted.min(left)));
                now += wanted;
                boosts.end("a", at(now));
            }
            // The most is had by an interval that begins with a boost, or ends with one.
            let begins = had.iter().flat_map(|(from, to)| [*from, to.saturating_sub(GAP_US)]);
            for from in begins {
                let until = from + GAP_US;
                let within = |one: &(u64, u64)| one.1.min(until).saturating_sub(one.0.max(from));
                let sum: u64 = had.iter().map(within).sum();
                prop_assert!(sum <= LONGEST_US, "{sum} us from {from} us on: {had:?}");
            }
        }
    }
}
