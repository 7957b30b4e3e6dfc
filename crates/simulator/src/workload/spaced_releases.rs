//! Releases by an arrival curve.

use std::collections::VecDeque;

use tailbound_model::ArrivalCurve;
use tailbound_time::Duration;

use super::streams::RandomStream;

/// `SpacedReleases` is a Poisson process, each job of which is delayed until the minimum distances to the jobs before it
/// have passed: a greedy shaper, which keeps the rate. Without a mean gap every job comes as soon as the distances allow.
pub(super) struct SpacedReleases {
    /// The least time to the job that comes so many jobs later.
    distances_ns: Vec<(usize, u64)>,
    /// When the last jobs came, the latest first; no more of them than distances reach back.
    before: VecDeque<u64>,
    /// When the next job comes.
    next: u64,
    /// When it would come without the distances; a float, so that rounding does not add up to another rate.
    unspaced: f64,
    mean_gap_ns: f64,
    stream: RandomStream,
}

impl SpacedReleases {
    /// The process of the distances of a curve.
    pub(super) fn new(
        curve: &ArrivalCurve,
        mean_gap: Option<Duration>,
        mut stream: RandomStream,
    ) -> Self {
        let mean_gap_ns = mean_gap.map_or(0.0, |gap| gap.as_nanos() as f64);
        let points = curve.points();
        let unspaced = match points.first() {
            // As soon as possible, from anywhere in the first distance on.
            Some((_, first)) if mean_gap_ns == 0.0 => {
                stream.uniform(Duration::ZERO, *first).as_nanos() as f64
            }
            _ => mean_gap_ns * stream.exponential(),
        };
        let distances = points.iter();
        let distances = distances.map(|(jobs, distance)| (*jobs as usize, distance.as_nanos()));
        Self {
            distances_ns: distances.collect(),
            before: VecDeque::new(),
            next: unspaced as u64,
            unspaced,
            mean_gap_ns,
            stream,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn advance(&mut self) {
        let furthest = self.distances_ns.last().map_or(0, |(jobs, _)| *jobs);
        self.before.truncate(furthest.saturating_sub(1));
        self.before.push_front(self.next);
        if self.mean_gap_ns > 0.0 {
            self.unspaced += self.mean_gap_ns * self.stream.exponential();
        }
        let spaced = self.distances_ns.iter();
        let earliest = spaced.filter_map(|(jobs, distance)| {
            Some(self.before.get(jobs - 1)?.saturating_add(*distance))
        });
        self.next = earliest.max().unwrap_or(0).max(self.unspaced as u64);
    }
}
