//! When a process counts as stopped (by SIGSTOP, a debugger or a freezer), decided from what looks at it found.
//!
//! A stop is a fact and no broken promise, but one look does not tell whether it lasts: shells stop and
//! continue, and tracers stop what they trace for moments. So a process is stopped only if every look for a
//! while found it so, none of the looks was itself late, and it used no CPU time between them.

use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::stopped_by;
use tailbound_time::{Duration, Instant};

/// For so long it is found stopped at every look.
pub const STOPPED_FOR: Duration = Duration::from_secs(1);
/// Between looks at a suspect.
pub const SPACING: Duration = Duration::from_millis(100);

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Whether all its threads are stopped.
    pub stopped: bool,
    /// The CPU time that it has used, if that can be told.
    pub used: Option<Duration>,
}

impl Sighting {
    /// A look at process `pid`. One that cannot be looked at is not stopped: others see its death.
    pub fn of(pid: u32) -> Self {
        let stopped = matches!(stopped_by(pid), Ok(Some(_)));
        Self {
            stopped,
            used: stopped.then(|| cpu_time_of_process(pid).ok()).flatten(),
        }
    }
}

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopVerdict {
    /// It goes on.
    GoesOn,
    /// It is stopped now; look again at this instant.
    LookAgainAt(Instant),
    /// It is stopped, and stays so.
    Stopped,
}

/// Remembers what it saw at the last looks at one process.
#[derive(Debug, Default)]
pub struct StopDetector {
    suspect: Option<StopSuspect>,
}

#[derive(Clone, Copy, Debug)]
struct StopSuspect {
    since: Instant,
    used: Option<Duration>,
    expected_at: Instant,
}

impl StopDetector {
    /// Takes in a look at `now` of CLOCK_MONOTONIC.
    pub fn look(&mut self, now: Instant, sighting: Sighting) -> StopVerdict {
        if !sighting.stopped {
            self.suspect = None;
            return StopVerdict::GoesOn;
        }
        let goes_on_from = self.suspect.filter(|suspect| {
            suspect.used == sighting.used && now.saturating_since(suspect.expected_at) <= SPACING
        });
        let since = goes_on_from.map_or(now, |suspect| suspect.since);
        if now.saturating_since(since) >= STOPPED_FOR {
            return StopVerdict::Stopped;
        }
        let expected_at = now.saturating_add(SPACING);
        self.suspect = Some(StopSuspect {
            since,
            used: sighting.used,
            expected_at,
        });
        StopVerdict::LookAgainAt(expected_at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    const STOPPED: Sighting = Sighting {
        stopped: true,
        used: Some(Duration::from_millis(7)),
    };
    const RUNNING: Sighting = Sighting {
        stopped: false,
        used: None,
    };

    fn ms(milliseconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(milliseconds)
    }

    /// Looks as it is told to, each look so much late, until it says that the process is stopped.
    fn found_at(
        late: Duration,
        until: Instant,
        see: impl Fn(Instant) -> Sighting,
    ) -> Option<Instant> {
        let mut detector = StopDetector::default();
        let mut now = ms(0);
        while now < until {
            now = match detector.look(now, see(now)) {
                StopVerdict::Stopped => return Some(now),
                StopVerdict::GoesOn => now + Duration::from_secs(1),
                StopVerdict::LookAgainAt(again) => again + late,
            };
        }
        None
    }

    #[test]
    fn a_stopped_process_is_found_a_second_after_the_first_look() {
        let stalls = Duration::from_millis(50);
        assert_eq!(
            found_at(Duration::ZERO, ms(9_000), |_| STOPPED),
            Some(ms(1_000))
        );
        assert_eq!(found_at(stalls, ms(9_000), |_| STOPPED), Some(ms(1_050)));
    }

    #[test]
    fn one_that_goes_on_now_and_then_is_not_stopped() {
        let comes_and_goes = |now: Instant| match now.as_nanos() / 900_000_000 % 2 {
            0 => STOPPED,
            _ => RUNNING,
        };
        assert_eq!(found_at(Duration::ZERO, ms(60_000), comes_and_goes), None);
        // A tracer is never seen to let it go on, but it uses CPU time.
        let is_traced = |now: Instant| Sighting {
            stopped: true,
            used: Some(Duration::from_nanos(now.as_nanos() / 900_000_000)),
        };
        assert_eq!(found_at(Duration::ZERO, ms(60_000), is_traced), None);
    }

    #[test]
    fn what_happened_between_late_looks_is_not_known() {
        assert_eq!(
            found_at(Duration::from_millis(150), ms(60_000), |_| STOPPED),
            None
        );
    }

    proptest! {
        #[test]
        fn only_what_was_stopped_at_every_look_of_a_second_is_found(
            steps in prop::collection::vec((0_u64..400, any::<bool>(), 0_u64..2), 1..200),
        ) {
            let mut detector = StopDetector::default();
            let (mut now, mut began) = (ms(0), None);
            for (step, stopped, used) in steps {
                let sighting = Sighting { stopped, used: Some(Duration::from_nanos(used)) };
                if !stopped {
                    began = None;
                } else if began.is_none() {
                    began = Some(now);
                }
                if detector.look(now, sighting) == StopVerdict::Stopped {
                    prop_assert!(now.saturating_since(began.unwrap()) >= STOPPED_FOR);
                }
                now = now + Duration::from_millis(step);
            }
        }
    }
}
