//! The controller of an application's service level, after the duties of an application in the interface of service levels.

use std::collections::VecDeque;

use tailbound_time::Duration;

/// The time between two updates of the level.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// The whole intervals of the window, beside the one that is under way.
const WINDOW_INTERVALS: usize = 5;
/// The share of an error that an update leaves.
const POLE: f64 = 0.9;
/// The share of an update that is carried out upwards.
const RISE: f64 = 0.1;
/// The least level in the estimate of the gain.
const LEAST_LEVEL: f64 = 0.05;

/// `LevelController` keeps the longest latency of a window at a deadline, by the level.
#[derive(Clone, Debug)]
pub struct LevelController {
    deadline: Duration,
    level: f64,
    /// The longest latency of each interval of the window, the one that is under way first.
    longest: VecDeque<Option<Duration>>,
}

impl LevelController {
    /// A controller before the first request.
    pub fn new(deadline: Duration, level: f64) -> Self {
        let longest = VecDeque::from([None]);
        Self {
            deadline,
            level,
            longest,
        }
    }

    /// The probability that a request gets its optional part.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// A request has ended after this latency.
    pub fn observe(&mut self, latency: Duration) {
        if let Some(longest) = self.longest.front_mut() {
            *longest = (*longest).max(Some(latency));
        }
    }

    /// The longest latency of the window; a request that has been unfinished for longer than the deadline counts with its age.
    pub fn latency(&self, unfinished_for: Option<Duration>) -> Option<Duration> {
        let unfinished = unfinished_for.filter(|age| *age > self.deadline);
        self.longest.iter().copied().max().flatten().max(unfinished)
    }

    /// The matching value by equation 1, cut at -1; none without a request in the window.
    pub fn matching_value(&self, unfinished_for: Option<Duration>) -> Option<f64> {
        let latency = self.latency(unfinished_for)?;
        Some((1.0 - latency.as_secs_f64() / self.deadline.as_secs_f64()).max(-1.0))
    }

    /// An interval is over.
    pub fn end_interval(&mut self, unfinished_for: Option<Duration>) {
        self.longest.push_front(None);
        self.longest.truncate(1 + WINDOW_INTERVALS);
        let Some(latency) = self.latency(unfinished_for) else {
            return;
        };
        let (latency_s, deadline_s) = (latency.as_secs_f64(), self.deadline.as_secs_f64());
        let gain = self.level.max(LEAST_LEVEL) / latency_s.max(deadline_s / 10.0);
        let change = gain * (deadline_s - latency_s) * (1.0 - POLE);
        let change = if change > 0.0 { change * RISE } else { change };
        self.level = (self.level + change).clamp(0.0, 1.0);
    }
}
