//! `SearchWatch` hears how far a long analysis is, and ends it early with the best answer so far.

use std::fmt::Debug;

/// The side of a caller who waits for an analysis.
///
/// Analyses ask it from several threads, many times a second.
pub trait SearchWatch: Debug + Sync {
    /// Whether the best answer so far is wanted now, in place of the whole one.
    fn is_stopped(&self) -> bool;

    /// Hears what is settled by now, each time that this changes.
    fn hear(&self, stage: SearchStage);
}

/// The progress of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStage {
    /// Periods of a sizing, of which some have their least budget.
    PeriodsSettled {
        /// The settled ones.
        settled: usize,
        /// The periods that were asked for.
        all: usize,
    },
    /// Response times are known for jobs that come at so many of all places in a period.
    PlacesSummed {
        /// The places that are done with.
        summed: usize,
        /// All places of the lattice.
        all: usize,
    },
}

/// A caller who waits to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwatched;

impl SearchWatch for Unwatched {
    fn is_stopped(&self) -> bool {
        false
    }

    fn hear(&self, _: SearchStage) {}
}

/// A watch that stops an analysis after it has been asked so often.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct StopAfter(std::sync::atomic::AtomicUsize);

#[cfg(test)]
impl StopAfter {
    pub(crate) fn asked(times: usize) -> Self {
        Self(times.into())
    }
}

#[cfg(test)]
impl SearchWatch for StopAfter {
    fn is_stopped(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let left = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Relaxed, Relaxed, left).is_err()
    }

    fn hear(&self, _: SearchStage) {}
}
