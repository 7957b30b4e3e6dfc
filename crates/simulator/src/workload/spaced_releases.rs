//! Releases by an arrival curve.

use std::collections::VecDeque;

use tailbound_time::Duration;

use super::streams::RandomStream;

/// `SpacedReleases` is a Poisson process, each job of which is delayed until the minimum distances to the jobs before it
/// have passed: a greedy shaper, which keeps the rate. Without a mean gap every job comes as soon as the distances allow.
pub(super) struct SpacedReleases {
    distances_ns: Vec<u64>,
    /// When the last jobs came, the latest first; no more of them than there are distances.
    before: VecDeque<u64>,
    /// When the next job comes.
    next: u64,
    /// When it would come without the distances; a float, so that rounding does not add up to another rate.
    unspaced: f64,
    mean_gap_ns: f64,
    stream: RandomStream,
}

impl SpacedReleases {
    /// The process of these distances, of which the last is above zero.
    pub(super) fn new(
        distances: &[Duration],
        mean_gap: Option<Duration>,
        mut stream: RandomStream,
    ) -> Self {
        let mean_gap_ns = mean_gap.map_or(0.0, |gap| gap.as_nanos() as f64);
        let unspaced = match distances.first() {
            // As soon as possible, from anywhere in the first distance on.
            Some(first) if mean_gap_ns == 0.0 => {
                stream.uniform(Duration::ZERO, *first).as_nanos() as f64
            }
            _ => mean_gap_ns * stream.exponential(),
        };
        Self {
            distances_ns: distances.iter().map(|one| one.as_nanos()).collect(),
            before: VecDeque::with_capacity(distances.len()),
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
        if self.before.len() == self.distances_ns.len() {
            self.before.pop_back();
        }
        self.before.push_front(self.next);
        if self.mean_gap_ns > 0.0 {
            self.unspaced += self.mean_gap_ns * self.stream.exponential();
        }
        let spaced = self.before.iter().zip(&self.distances_ns);
        let earliest = spaced.map(|(before, distance)| before.saturating_add(*distance));
        self.next = earliest.max().unwrap_or(0).max(self.unspaced as u64);
    }
}
