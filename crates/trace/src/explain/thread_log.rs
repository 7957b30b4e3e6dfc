//! What a thread did, as segments of time that follow each other without gaps.

use std::collections::VecDeque;

use super::cause::PartId;

/// Segments between two checkpoints.
const CHECKPOINT_EVERY: u64 = 128;
/// A thread that works for no connection.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What a thread does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadActivity {
    /// It runs.
    Running,
    /// It waits for work.
    Idle,
    /// Something keeps it from running.
    Kept(PartId),
}

/// A stretch of a thread's time; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// When it begins, in nanoseconds of the recording's clock.
    pub(crate) start: u64,
    /// What the thread does.
    pub(crate) activity: ThreadActivity,
    /// The connection that it works for.
    pub(crate) owner: u32,
}

/// Sums of nanoseconds by activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActivitySums {
    /// Running for a connection.
    pub(crate) running: u64,
    /// Running for none.
    pub(crate) running_for_nobody: u64,
    pub(crate) idle: u64,
    /// By the number of the part.
    pub(crate) kept: Vec<u64>,
}

impl ActivitySums {
    fn add(&mut self, activity: ThreadActivity, owner: u32, nanos: u64) {
        match activity {
            ThreadActivity::Running if owner == NOBODY => self.running_for_nobody += nanos,
            ThreadActivity::Running => self.running += nanos,
            ThreadActivity::Idle => self.idle += nanos,
            ThreadActivity::Kept(PartId(number)) => {
                let number = number as usize;
                if self.kept.len() <= number {
                    self.kept.resize(number + 1, 0);
                }
                self.kept[number] += nanos;
            }
        }
    }

    fn add_difference(&mut self, later: &Self, earlier: &Self) {
        self.running += later.running - earlier.running;
        self.running_for_nobody += later.running_for_nobody - earlier.running_for_nobody;
        self.idle += later.idle - earlier.idle;
        if self.kept.len() < later.kept.len() {
            self.kept.resize(later.kept.len(), 0);
        }
        for (number, sum) in later.kept.iter().enumerate() {
            self.kept[number] += sum - earlier.kept.get(number).unwrap_or(&0);
        }
    }

    /// Back to zero; memory is kept.
    pub(crate) fn clear(&mut self) {
        self.running = 0;
        self.running_for_nobody = 0;
        self.idle = 0;
        self.kept.iter_mut().for_each(|sum| *sum = 0);
    }
}

/// The latest segments of a thread. Checkpoints hold sums since the beginning, so that a long span costs no more
/// than a short one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadLog {
    segments: VecDeque<Segment>,
    /// The number of the first segment that is kept, counted from the beginning.
    first: u64,
    /// Sums up to the start of segments whose number is a multiple of [`CHECKPOINT_EVERY`].
    checkpoints: VecDeque<(u64, ActivitySums)>,
    /// Sums up to the start of the last segment.
    sums: ActivitySums,
}

impl ThreadLog {
    /// The thread does something else from `start` on. Time does not run backwards here: an earlier start counts as that
    /// of the last segment.
    pub(crate) fn push(&mut self, start: u64, activity: ThreadActivity, owner: u32) {
        if let Some(last) = self.segments.back_mut() {
            let start = start.max(last.start);
            if (last.activity, last.owner) == (activity, owner) {
                return;
            }
            if last.start == start {
                (last.activity, last.owner) = (activity, owner);
                return;
            }
            let last = *last;
            self.sums.add(last.activity, last.owner, start - last.start);
            self.append(Segment {
                start,
                activity,
                owner,
            });
        } else {
            self.append(Segment {
                start,
                activity,
                owner,
            });
        }
    }

    fn append(&mut self, segment: Segment) {
        let number = self.first + self.segments.len() as u64;
        if number.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.push_back((number, self.sums.clone()));
        }
        self.segments.push_back(segment);
    }

    /// Forgets what ended before `instant`.
    pub(crate) fn forget_before(&mut self, instant: u64) {
        while self.segments.len() > 1 && self.segments[1].start <= instant {
            self.segments.pop_front();
            self.first += 1;
        }
        while self.checkpoints.len() > 1 && self.checkpoints[1].0 <= self.first {
            self.checkpoints.pop_front();
        }
    }

    /// The segments that overlap `[from, to)`, cut to it; what the log does not hold is left out.
    pub(crate) fn span(&self, from: u64, to: u64) -> impl Iterator<Item = (Segment, u64)> {
        let first = self
            .segments
            .partition_point(|segment| segment.start <= from);
        let first = first.saturating_sub(1);
        (first..self.segments.len())
            .map(move |place| {
                let segment = self.segments[place];
                let next = self.segments.get(place + 1);
                let end = next.map_or(u64::MAX, |next| next.start).min(to);
                let start = segment.start.max(from);
                (Segment { start, ..segment }, end)
            })
            .take_while(move |(segment, _)| segment.start < to)
            .filter(|(segment, end)| segment.start < *end)
    }

    /// Adds the sums of `[from, to)`.
    pub(crate) fn add_sums(&self, from: u64, to: u64, sums: &mut ActivitySums) {
        let place_of = |instant: u64| self.segments.partition_point(|one| one.start < instant);
        let number = |place: usize| self.first + place as u64;
        // The checkpoints between the first segment that begins in the span and the last that does.
        let after = number(place_of(from));
        let before = number(place_of(to).saturating_sub(1));
        let low = self
            .checkpoints
            .partition_point(|(number, _)| *number < after);
        let high = self
            .checkpoints
            .partition_point(|(number, _)| *number <= before);
        let Some(high) = high.checked_sub(1).filter(|high| *high > low) else {
            return self.walk(from, to, sums);
        };
        let start_of =
            |place: usize| self.segments[(self.checkpoints[place].0 - self.first) as usize].start;
        self.walk(from, start_of(low), sums);
        sums.add_difference(&self.checkpoints[high].1, &self.checkpoints[low].1);
        self.walk(start_of(high), to, sums);
    }

    fn walk(&self, from: u64, to: u64, sums: &mut ActivitySums) {
        for (segment, end) in self.span(from, to) {
            sums.add(segment.activity, segment.owner, end - segment.start);
        }
    }

    /// The start of what the log holds.
    pub(crate) fn start(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn activity(number: u32) -> ThreadActivity {
        match number {
            0 => ThreadActivity::Running,
            1 => ThreadActivity::Idle,
            other => ThreadActivity::Kept(PartId(other - 2)),
        }
    }

    proptest! {
        /// Sums by checkpoints are those of a walk, and together they are the span, whatever was forgotten.
        #[test]
        fn sums_of_a_span_add_up(
            steps in prop::collection::vec((0_u64..50, 0_u32..6, 0_u32..3), 1..1500),
            (from, length) in (0_u64..40_000, 0_u64..40_000),
            forgotten in 0_u64..20_000,
        ) {
            let mut log = ThreadLog::default();
            let mut now = 0;
            log.push(0, ThreadActivity::Idle, NOBODY);
            for (step, number, owner) in steps {
                now += step;
                log.push(now, activity(number), if owner == 2 { NOBODY } else { owner });
            }
            log.forget_before(forgotten);
            let from = from.max(forgotten);
            let to = from + length;
            let (mut sums, mut walked) = (ActivitySums::default(), ActivitySums::default());
            log.add_sums(from, to, &mut sums);
            log.walk(from, to, &mut walked);
            sums.kept.resize(4, 0);
            walked.kept.resize(4, 0);
            prop_assert_eq!(&sums, &walked);
            prop_assert_eq!(sums.running + sums.running_for_nobody + sums.idle + sums.kept.iter().sum::<u64>(), length);
        }
    }
}
