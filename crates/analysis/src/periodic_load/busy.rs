//! When a CPU of its own works, over one hyperperiod of the steady state.

use num_traits::ToPrimitive;

use super::PeriodicLoad;
use crate::rational::common_multiple;

/// The busy intervals of one hyperperiod once all tasks have started, which repeats for ever
/// (thesis, Lemma 4, from the last offset and a hyperperiod on); under any work-conserving order
/// (Lemma 3).
#[derive(Debug)]
pub(super) struct BusyCycle {
    length: u64,
    /// The work in `length`.
    work: u64,
    /// Start, end, and the time worked in the cycle before the start; in order, within the cycle.
    intervals: Vec<(u64, u64, u64)>,
}

impl BusyCycle {
    /// The cycle of a load below one CPU; a task without offset has the offset zero. `None` where
    /// the hyperperiod is beyond 64 bits.
    pub(super) fn of(load: &PeriodicLoad) -> Option<Self> {
        let length = common_multiple(load.periods()).to_u64()?;
        let mut releases = Vec::new();
        for task in &load.tasks {
            let (period, execution) = (task.period.as_nanos(), task.execution.as_nanos());
            let first = task.offset.unwrap_or_default().as_nanos() % period;
            releases.extend((0..length / period).map(|job| (first + job * period, execution)));
        }
        releases.sort_unstable();
        let run = |left_over: u64| {
            let mut intervals: Vec<(u64, u64)> = Vec::new();
            for (at, execution) in [(0, left_over)].iter().chain(&releases) {
                match intervals.last_mut() {
                    Some((_, end)) if at <= end => *end += execution,
                    _ => intervals.push((*at, at + execution)),
                }
            }
            intervals
        };
        // What one hyperperiod from an empty start leaves over, each following one does, too.
        let left_over = run(0)
            .last()
            .map_or(0, |(_, end)| end.saturating_sub(length));
        let mut work = 0;
        let intervals = run(left_over)
            .into_iter()
            .map(|(start, end)| {
                let before = work;
                work += end.min(length) - start;
                (start, end.min(length), before)
            })
            .collect();
        Some(Self {
            length,
            work,
            intervals,
        })
    }

    /// The maximum of S(t + window) - S(t) over all t: it is reached at the start of a busy
    /// interval, because from within one the window may be moved back to its start, and from
    /// without on to the next, and no less is worked in it.
    pub(super) fn most_in(&self, window: u64) -> u64 {
        let (cycles, rest) = (window / self.length, window % self.length);
        let (mut ends, mut wraps, mut most) = (0, false, 0);
        for (start, _, before) in &self.intervals {
            let to_the_end = self.length - start;
            if !wraps && rest >= to_the_end {
                (wraps, ends) = (true, 0);
            }
            let (until, wrapped) = match wraps {
                false => (start + rest, 0),
                true => (rest - to_the_end, self.work),
            };
            while self
                .intervals
                .get(ends)
                .is_some_and(|(start, _, _)| *start <= until)
            {
                ends += 1;
            }
            most = most.max(wrapped + self.worked(ends, until) - before);
        }
        cycles * self.work + most
    }

    /// The time worked in the cycle before `until`; `ends` counts the intervals started by then.
    fn worked(&self, ends: usize, until: u64) -> u64 {
        let last = ends
            .checked_sub(1)
            .and_then(|index| self.intervals.get(index));
        last.map_or(0, |(start, end, before)| before + until.min(*end) - start)
    }
}
