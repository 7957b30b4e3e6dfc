//! Why agents and strangers were refused, for the host's log. Whoever talks nonsense again and again must
//! not fill it: of each, and of all together, so much is told, and how much was left out.

use std::collections::{BTreeMap, VecDeque};

use tailbound_time::{Duration, Instant};

/// So many times at once, and once more after each pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstLimit {
    pub(super) at_once: u32,
    pub(super) pause: Duration,
}

/// Of one source.
const OF_ONE: BurstLimit = BurstLimit {
    at_once: 8,
    pause: Duration::from_secs(10),
};
/// Of all sources together.
const OF_ALL: BurstLimit = BurstLimit {
    at_once: 32,
    pause: Duration::from_secs(1),
};
/// So many sources are told apart; more of them count as one.
const MOST_SOURCES: usize = 64;
const OTHERS: &str = "others";
/// So many reasons wait until somebody takes them.
const MOST_WAITING: usize = 64;

/// What is left of a pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstAllowance {
    pace: BurstLimit,
    left: u32,
    since: Instant,
}

impl BurstAllowance {
    pub(super) fn new(pace: BurstLimit, now: Instant) -> Self {
        Self {
            pace,
            left: pace.at_once,
            since: now,
        }
    }

    fn regain(&mut self, now: Instant) {
        let pause_ns = self.pace.pause.as_nanos();
        let pauses = now.saturating_since(self.since).as_nanos() / pause_ns;
        let gained = u32::try_from(pauses).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(gained).min(self.pace.at_once);
        let spent = Duration::from_nanos(pauses * pause_ns);
        self.since = self.since.saturating_add(spent);
    }

    fn is_whole(&mut self, now: Instant) -> bool {
        self.regain(now);
        self.left == self.pace.at_once
    }

    /// Whether it may happen once more now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.regain(now);
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

#[derive(Debug)]
struct RefusalSource {
    allowance: BurstAllowance,
    left_out: u64,
    /// Of what was left out.
    last: String,
}

/// What was refused.
#[derive(Debug)]
pub(super) struct Refusals {
    pub(super) count: u64,
    of_all: BurstAllowance,
    sources: BTreeMap<String, RefusalSource>,
    waiting: VecDeque<String>,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            count: 0,
            of_all: BurstAllowance::new(OF_ALL, now),
            sources: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes note of a refusal.
    pub(super) fn add(&mut self, source: String, reason: String, now: Instant) {
        self.count += 1;
        let sources = self.sources.len();
        let is_known = self.sources.contains_key(&source);
        let key = match is_known || sources < MOST_SOURCES {
            true => source,
            false => OTHERS.to_owned(),
        };
        let of_one = self.sources.entry(key).or_insert_with(|| RefusalSource {
            allowance: BurstAllowance::new(OF_ONE, now),
            left_out: 0,
            last: String::new(),
        });
        let has_room = self.waiting.len() < MOST_WAITING;
        if has_room && of_one.allowance.take(now) && self.of_all.take(now) {
            self.waiting.push_back(reason);
        } else {
            of_one.left_out += 1;
            of_one.last = reason;
        }
    }

    /// What is to be told now.
    pub(super) fn take(&mut self, now: Instant) -> Vec<String> {
        let mut reasons: Vec<String> = self.waiting.drain(..).collect();
        for one in self.sources.values_mut().filter(|one| one.left_out > 0) {
            if one.allowance.take(now) && self.of_all.take(now) {
                let last = std::mem::take(&mut one.last);
                reasons.push(match std::mem::take(&mut one.left_out) {
                    1 => last,
                    more => format!("{last} (the last of {more} such that were left out here)"),
                });
            }
        }
        self.sources
            .retain(|_, one| one.left_out > 0 || !one.allowance.is_whole(now));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_flood_of_one_is_told_by_its_number() {
        let mut refusals = Refusals::new(at(0));
        let mut lines = 0;
        for second in 0..100 {
            for number in 0..1_000 {
                let reason = format!("nonsense {second}.{number}");
                refusals.add("user 1000".into(), reason, at(second));
            }
            lines += refusals.take(at(second)).len();
        }
        // 8 at once, and one each 10 s.
        assert_eq!(lines, 8 + 9);
        assert_eq!(refusals.count, 100_000);
        assert!(refusals.take(at(100)).len() == 1);
        refusals.add("user 1000".into(), "more".into(), at(100));
        refusals.add("user 1000".into(), "yet more".into(), at(100));
        assert!(refusals.take(at(109)).is_empty());
        let reasons = refusals.take(at(110));
        let expected = "yet more (the last of 2 such that were left out here)";
        assert_eq!(reasons, [expected]);
        assert!(refusals.take(at(1_000)).is_empty());
        assert!(refusals.sources.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn others_are_heard_beside_a_flood() {
        let mut refusals = Refusals::new(at(0));
        for _ in 0..1_000 {
            refusals.add("user 1000".into(), "nonsense".into(), at(0));
        }
        refusals.add("guest 5".into(), "no domain".into(), at(0));
        assert!(refusals.take(at(0)).contains(&"no domain".to_owned()));
    }

    #[test]
    fn many_sources_take_no_more_than_all_may() {
        let mut refusals = Refusals::new(at(0));
        let mut lines = 0;
        for second in 0..60 {
            for number in 0..1_000 {
                let source = format!("source {second}.{number}");
                refusals.add(source, "nonsense".into(), at(second));
            }
            assert!(refusals.sources.len() <= MOST_SOURCES + 1);
            lines += refusals.take(at(second)).len();
        }
        assert!(lines <= 32 + 60, "{lines}");
    }
}
