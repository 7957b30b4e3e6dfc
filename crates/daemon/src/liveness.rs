//! When a manager counts as stuck, decided from what it promised and what time it is.
//!
//! A promise can break without anybody being stuck: the whole machine may have been held up (a
//! suspended virtual machine, a stall of the host), the watchdog with it. So a manager is stuck
//! only if its promise is broken by more than a margin at several looks in a row, none of which
//! was itself late, and it made no new promise between them.

use tailbound_enforcement::ds_freeze::{Liveness, ManagerPulse};
use tailbound_time::{Duration, Instant};

/// By how much a promise may be broken: stalls of a virtual machine cost tens of milliseconds, and
/// where somebody else's real-time threads run into the kernel's throttling, Linux 6.18 has been
/// seen to keep a CPU from all real-time threads for 1.08 s.
pub const MARGIN: Duration = Duration::from_millis(1_200);
/// Between looks at a suspect.
const SPACING: Duration = Duration::from_millis(100);
/// Looks in a row at which the promise is broken.
const LOOKS: u32 = 3;
/// The same for what is of ordinary priority, and waits for a CPU for long after a stall of the machine.
const PATIENT_LOOKS: u32 = 50;
/// The longest time between two looks while managers run: a manager can start at any time.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivenessVerdict {
    /// Nothing to be done; look again at this instant.
    LookAgainAt(Instant),
    /// This manager is stuck.
    Stuck(ManagerPulse),
}

/// Remembers what it saw at the last looks.
#[derive(Debug)]
pub struct LivenessDetector {
    looks: u32,
    suspect: Option<Suspect>,
    expected_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    thread: u32,
    beats: u64,
    looks: u32,
}

impl Default for LivenessDetector {
    fn default() -> Self {
        Self {
            looks: LOOKS,
            suspect: None,
            expected_at: None,
        }
    }
}

impl LivenessDetector {
    /// A detector for a thread of ordinary priority.
    pub fn patient() -> Self {
        Self {
            looks: PATIENT_LOOKS,
            ..Self::default()
        }
    }

    /// Takes a look at the pulses of all managers at `now` of CLOCK_MONOTONIC.
    pub fn look(&mut self, now: Instant, pulses: &[ManagerPulse]) -> LivenessVerdict {
        let held_up = self
            .expected_at
            .is_some_and(|expected| now.saturating_since(expected) > SPACING);
        if held_up {
            self.suspect = None;
        }
        let broken = pulses
            .iter()
            .find(|pulse| matches!(pulse.liveness, Liveness::Overdue { by } if by > MARGIN));
        let again = match broken {
            None => {
                self.suspect = None;
                next_look(now, pulses)
            }
            Some(pulse) => {
                let looks = self.looks_at(pulse);
                if looks >= self.looks {
                    return LivenessVerdict::Stuck(*pulse);
                }
                now.saturating_add(SPACING)
            }
        };
        self.expected_at = Some(again);
        LivenessVerdict::LookAgainAt(again)
    }

    fn looks_at(&mut self, pulse: &ManagerPulse) -> u32 {
        let looks = match self.suspect {
            Some(suspect) if suspect.thread == pulse.thread && suspect.beats == pulse.beats => {
                suspect.looks + 1
            }
            _ => 1,
        };
        self.suspect = Some(Suspect {
            thread: pulse.thread,
            beats: pulse.beats,
            looks,
        });
        looks
    }
}

/// After the earliest promise has been broken by the margin, but within the bounds.
fn next_look(now: Instant, pulses: &[ManagerPulse]) -> Instant {
    let earliest = pulses
        .iter()
        .filter_map(|pulse| match pulse.liveness {
            Liveness::Alive { until } => Some(until.saturating_add(MARGIN)),
            Liveness::Overdue { .. } => Some(now),
            Liveness::Unused | Liveness::Stopped => None,
        })
        .min()
        .unwrap_or(now.saturating_add(LOOK_AT_LEAST_EVERY));
    earliest.clamp(
        now.saturating_add(SPACING),
        now.saturating_add(LOOK_AT_LEAST_EVERY),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    fn ms(milliseconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(milliseconds)
    }

    fn pulse(until: Instant, now: Instant, beats: u64) -> ManagerPulse {
        let liveness = match now.checked_since(until) {
            Some(by) => Liveness::Overdue { by },
            None => Liveness::Alive { until },
        };
        ManagerPulse {
            liveness,
            cpu: 0,
            process: 1,
            thread: 2,
            beats,
        }
    }

    /// Follows the detector's wish when to look, until it finds the manager stuck.
    fn found_stuck_at(promised: Instant, until: Instant) -> Option<Instant> {
        let mut detector = LivenessDetector::default();
        let mut now = ms(0);
        while now < until {
            match detector.look(now, &[pulse(promised, now, 1)]) {
                LivenessVerdict::LookAgainAt(again) => now = again,
                LivenessVerdict::Stuck(_) => return Some(now),
            }
        }
        None
    }

    #[test]
    fn a_manager_that_stops_is_found_within_two_seconds_of_its_promise() {
        let noticed_at = found_stuck_at(ms(20), ms(10_000)).expect("found");
        assert!(noticed_at > ms(20) + MARGIN);
        assert!(noticed_at < ms(2_020), "{noticed_at:?}");
    }

    #[test]
    fn what_is_of_ordinary_priority_has_seconds_to_come_back_after_a_stall() {
        let mut detector = LivenessDetector::patient();
        let mut now = ms(60_000);
        let mut looks = 0;
        while let LivenessVerdict::LookAgainAt(again) = detector.look(now, &[pulse(ms(10), now, 1)])
        {
            (now, looks) = (again, looks + 1);
            assert!(looks < 1_000);
        }
        assert!(
            now.saturating_since(ms(60_000)) > Duration::from_secs(4),
            "{now:?}"
        );
        assert!(
            now.saturating_since(ms(60_000)) < Duration::from_secs(6),
            "{now:?}"
        );
    }

    #[test]
    fn a_stall_of_the_whole_machine_is_forgiven() {
        let mut detector = LivenessDetector::default();
        let first = detector.look(ms(0), &[pulse(ms(10), ms(0), 1)]);
        assert!(matches!(first, LivenessVerdict::LookAgainAt(_)));
        // Everything stood still for a minute, again and again; the manager has had no chance.
        for minute in 1..10 {
            let now = ms(60_000 * minute);
            let verdict = detector.look(now, &[pulse(ms(10), now, 1)]);
            assert!(
                matches!(verdict, LivenessVerdict::LookAgainAt(_)),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn a_late_manager_that_goes_on_is_not_stuck() {
        let mut detector = LivenessDetector::default();
        let mut now = ms(10_000);
        for beats in 0..20 {
            match detector.look(now, &[pulse(ms(10), now, beats)]) {
                LivenessVerdict::LookAgainAt(again) => now = again,
                LivenessVerdict::Stuck(_) => panic!("it beats"),
            }
        }
    }

    proptest! {
        #[test]
        fn a_kept_promise_is_never_called_broken(
            period in 1_u64..2_000,
            delays in prop::collection::vec(0_u64..400, 1..50),
        ) {
            let mut detector = LivenessDetector::default();
            let mut now = ms(0);
            for (beats, delay) in delays.iter().enumerate() {
                let until = now + Duration::from_millis(period);
                let verdict = detector.look(now, &[pulse(until, now, beats as u64)]);
                let LivenessVerdict::LookAgainAt(again) = verdict else {
                    panic!("called stuck");
                };
                prop_assert!(again > now);
                now = again + Duration::from_millis(*delay);
            }
        }
    }
}
