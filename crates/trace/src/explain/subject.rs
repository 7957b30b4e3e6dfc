//! One load, or the jobs of one thread, while it is explained.

use std::cmp::Reverse;

use tailbound_time::{Duration, Instant};

use super::bands::BandSums;
use super::cause::PartTable;
use super::course::course;
use super::explanation::{Explanation, SlowRequest};
use super::split::PartStretch;

/// The slowest requests that are kept with their whole course.
const KEPT_SLOWEST: usize = 5;

/// A load, or the jobs of a thread.
#[derive(Debug)]
pub(crate) struct ExplainedSubject {
    pub(crate) explanation: Explanation,
    pub(crate) tasks: Vec<String>,
    bands: BandSums,
    /// The latency from which a request may be among the slowest.
    slow_from: u64,
    slowest: Vec<(SlowRequest, Vec<PartStretch>, u64)>,
}

/// A request that has been split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitRequest<'a> {
    pub(crate) number: u64,
    pub(crate) task: u32,
    pub(crate) intended: u64,
    pub(crate) latency_ns: u64,
    pub(crate) parts: &'a [u64],
}

impl ExplainedSubject {
    /// A subject with these latencies.
    pub(crate) fn new(
        explanation: Explanation,
        tasks: Vec<String>,
        latencies: Vec<u64>,
        quantiles: &[f64],
    ) -> Self {
        let mut slowest = latencies.clone();
        let place = slowest.len().saturating_sub(KEPT_SLOWEST);
        let slow_from = match slowest.is_empty() {
            true => u64::MAX,
            false => {
                *slowest
                    .select_nth_unstable(place.min(latencies.len() - 1))
                    .1
            }
        };
        Self {
            explanation,
            tasks,
            bands: BandSums::new(latencies, quantiles),
            slow_from,
            slowest: Vec::new(),
        }
    }

    /// Adds a request; `stretches` makes its course, if it is among the slowest.
    pub(crate) fn add(
        &mut self,
        request: SplitRequest<'_>,
        stretches: impl FnOnce() -> Vec<PartStretch>,
    ) {
        debug_assert_eq!(
            request.parts.iter().sum::<u64>(),
            request.latency_ns,
            "parts add up"
        );
        self.explanation.requests += 1;
        self.bands.add(request.latency_ns, request.parts);
        if request.latency_ns >= self.slow_from && self.slowest.len() < KEPT_SLOWEST {
            let slow = SlowRequest {
                number: request.number,
                task: self
                    .tasks
                    .get(request.task as usize)
                    .cloned()
                    .unwrap_or_default(),
                latency: Duration::from_nanos(request.latency_ns),
                ..SlowRequest::default()
            };
            self.slowest.push((slow, stretches(), request.intended));
        }
    }

    /// The explanation, with the names of parts.
    pub(crate) fn finish(mut self, table: &PartTable, started: Instant) -> Explanation {
        self.explanation.bands = self.bands.finish(table);
        self.slowest.sort_by_key(|(slow, ..)| Reverse(slow.latency));
        let slowest = self.slowest.into_iter();
        let slowest = slowest.map(|(mut slow, stretches, intended)| {
            slow.intended = Instant::from_nanos(intended).saturating_since(started);
            (slow.course, slow.in_cells) = course(&stretches, intended, table);
            slow
        });
        self.explanation.slowest = slowest.collect();
        self.explanation
    }
}
