//! A time partition: it may run within its windows of each major frame, as long as it likes.

use tailbound_time::Duration;

use crate::budget::{Budget, Replenishment};
use crate::{NEVER, ReservationError, Window};

/// A time partition.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    windows: Vec<Window>,
    /// The begin of a frame, below one frame; other frames lie at whole frames from it.
    phase_ns: u64,
    /// The next edge of a window.
    edge: u64,
}

impl Windows {
    /// The windows of a frame, which is the period of the budget.
    pub(crate) fn new(
        windows: Vec<Window>,
        phase: Duration,
        budget: &mut Budget,
    ) -> Result<Self, ReservationError> {
        check_windows(&windows, budget.period_ns)?;
        let mut windows = Self {
            windows,
            phase_ns: phase.as_nanos() % budget.period_ns,
            edge: 0,
        };
        windows.update(budget, 0);
        Ok(windows)
    }
}

impl Replenishment for Windows {
    /// Opens or closes the partition as its windows have it at `now`, until the next of their edges.
    fn update(&mut self, budget: &mut Budget, now: u64) {
        if now < self.edge {
            return;
        }
        let into = match now.checked_sub(self.phase_ns) {
            Some(since) => since % budget.period_ns,
            None => budget.period_ns - (self.phase_ns - now),
        };
        let frame = i128::from(now) - i128::from(into);
        let edge = |at: u64| u64::try_from(frame + i128::from(at)).unwrap_or(NEVER);
        let current = self
            .windows
            .iter()
            .map(|window| {
                let begin = window.offset.as_nanos();
                (begin, begin + window.length.as_nanos())
            })
            .find(|(_, end)| into < *end);
        let first = self
            .windows
            .first()
            .map_or(0, |window| window.offset.as_nanos());
        match current {
            Some((begin, end)) if into >= begin => {
                // A window that reaches the end of the frame may go on in the next one.
                self.edge = edge(end);
                budget.refill(NEVER);
            }
            Some((begin, _)) => {
                self.edge = edge(begin);
                budget.left = 0;
            }
            None => {
                self.edge = edge(budget.period_ns.saturating_add(first));
                budget.left = 0;
            }
        }
    }

    fn next_change(&self, _budget: &Budget) -> u64 {
        self.edge
    }

    fn deadline(&self) -> u64 {
        self.edge
    }
}

/// Windows are in order, within the frame, and none is empty.
pub(crate) fn check_windows(windows: &[Window], frame_ns: u64) -> Result<(), ReservationError> {
    if windows.is_empty() {
        return Err(ReservationError::NoWindow);
    }
    let mut before = 0;
    for (index, window) in windows.iter().enumerate() {
        let begin = window.offset.as_nanos();
        // What cannot be added up ends behind every frame.
        let end = begin.checked_add(window.length.as_nanos());
        let end = end.filter(|end| *end <= frame_ns && begin >= before);
        let Some(end) = end.filter(|_| !window.length.is_zero()) else {
            return Err(ReservationError::Window {
                window: index,
                offset: window.offset,
                length: window.length,
                frame: Duration::from_nanos(frame_ns),
            });
        };
        before = end;
    }
    Ok(())
}
