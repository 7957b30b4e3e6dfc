//! Whether the watchdog itself goes on, as its daemon sees it.

use tailbound_time::{Duration, Instant};

use crate::stop_detector::{Sighting, StopDetector, StopVerdict};

/// Between looks at a watchdog that goes on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a watchdog is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long it may take to say so: it needs microseconds at its priority, and where it may not have that, an
/// ordinary thread comes to run within a second however busy the CPUs are.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How a watchdog is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogState {
    /// It goes on, as far as is known.
    Fine {
        /// When to look again.
        look_again_at: Instant,
    },
    /// It does not: why.
    StandsStill(&'static str),
}

/// Watches a watchdog.
#[derive(Debug)]
pub struct WatchdogWatch {
    pid: u32,
    detector: StopDetector,
    asked_at: Option<Instant>,
    /// Since when it owes an answer.
    owes_since: Option<Instant>,
    expected_at: Option<Instant>,
}

impl WatchdogWatch {
    /// Watches the process `pid`, a child that is not reaped.
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            detector: StopDetector::default(),
            asked_at: None,
            owes_since: None,
            expected_at: None,
        }
    }

    /// Looks at it at `now` of CLOCK_MONOTONIC.
    pub fn look(&mut self, now: Instant) -> WatchdogState {
        self.judge(now, Sighting::of(self.pid))
    }

    fn judge(&mut self, now: Instant, sighting: Sighting) -> WatchdogState {
        let look_again_at = match self.detector.look(now, sighting) {
            StopVerdict::Stopped => {
                return WatchdogState::StandsStill("is stopped by a signal or a debugger");
            }
            StopVerdict::LookAgainAt(again) => again,
            StopVerdict::GoesOn => now.saturating_add(LOOK_EVERY),
        };
        let held_up = self
            .expected_at
            .is_some_and(|expected| now.saturating_since(expected) > LOOK_EVERY);
        if held_up && self.owes_since.is_some() {
            // So may it have been.
            self.owes_since = Some(now);
        }
        self.expected_at = Some(look_again_at);
        match self.owes_since {
            Some(since) if now.saturating_since(since) > ANSWER_WITHIN => {
                WatchdogState::StandsStill("has not answered for a minute")
            }
            _ => WatchdogState::Fine { look_again_at },
        }
    }

    /// Whether it is to be asked now; then it owes an answer.
    pub fn is_to_be_asked(&mut self, now: Instant) -> bool {
        let is_time = self
            .asked_at
            .is_none_or(|at| now.saturating_since(at) >= ASK_EVERY);
        let asks = is_time && self.owes_since.is_none();
        if asks {
            self.asked_at = Some(now);
            self.owes_since = Some(now);
        }
        asks
    }

    /// It has said that it is there.
    pub fn has_answered(&mut self) {
        self.owes_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: Sighting = Sighting {
        stopped: false,
        used: None,
    };

    /// Looks as it is told, each look so much late; when it was found to stand still.
    fn found_after(late: Duration, answers: bool) -> Option<Duration> {
        let mut watch = WatchdogWatch::new(0);
        let mut now = Instant::ORIGIN;
        while now < Instant::ORIGIN + Duration::from_secs(600) {
            match watch.judge(now, RUNNING) {
                WatchdogState::StandsStill(_) => {
                    return Some(now.saturating_since(Instant::ORIGIN));
                }
                WatchdogState::Fine { look_again_at } => {
                    if watch.is_to_be_asked(now) && answers {
                        watch.has_answered();
                    }
                    now = look_again_at + late;
                }
            }
        }
        None
    }

    #[test]
    fn one_that_answers_is_fine_and_one_that_does_not_is_found_out() {
        assert_eq!(found_after(Duration::ZERO, true), None);
        let noticed_after = found_after(Duration::ZERO, false);
        assert!(
            noticed_after.is_some_and(|after| after > ANSWER_WITHIN),
            "{noticed_after:?}"
        );
        assert!(
            noticed_after.is_some_and(|after| after < ANSWER_WITHIN * 2),
            "{noticed_after:?}"
        );
    }

    #[test]
    fn silence_counts_only_while_we_go_on_ourselves() {
        assert_eq!(found_after(Duration::from_secs(5), false), None);
    }
}
