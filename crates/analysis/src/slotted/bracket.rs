//! Two distribution functions that enclose the true one, collected step by step.

use tailbound_distribution::{Interval, StepCdf};
use tailbound_time::Duration;

use super::slots::Slots;
use crate::AnalysisError;
use crate::response_tail::ResponseTail;

/// What the results are rounded outward by, for what floating point and neglected tails do.
const GUARD: f64 = 1e-9;
/// The share of the jobs whose response times need no place of their own.
const REST: f64 = 1e-11;
/// The most half slots of response time that are kept apart.
const MOST_BINS: usize = 1 << 21;

/// Probabilities by response time, in half slots, rounded towards shorter responses and towards
/// longer ones. What was never added may be anywhere.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    slots: Slots,
    tail: ResponseTail,
    shortest_ticks: u128,
    optimistic: Vec<f64>,
    pessimistic: Vec<f64>,
}

/// Which end of the bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BracketEnd {
    Optimistic,
    Pessimistic,
}

/// The outcome.
#[derive(Clone, Debug)]
pub(super) struct Bracket {
    pub optimistic: StepCdf,
    pub pessimistic: StepCdf,
    pub mean: Interval,
}

impl Bins {
    /// Empty bins; no response is shorter than `shortest`.
    pub(super) fn new(slots: Slots, tail: ResponseTail, shortest: Duration) -> Self {
        let half_slot = slots.slot_seconds() / 2.0;
        let shortest_ticks = u128::from(shortest.as_nanos()) * 2 * slots.per_budget as u128;
        let least = (shortest_ticks / u128::from(slots.budget_ns)) as usize + 2;
        let count = (tail.reached_seconds(REST) / half_slot).min(MOST_BINS as f64) as usize;
        let count = count.max(least.min(MOST_BINS));
        Self {
            slots,
            tail,
            shortest_ticks,
            optimistic: vec![0.0; count],
            pessimistic: vec![0.0; count],
        }
    }

    /// Adds responses of at least `ticks`.
    pub(super) fn add_at_least(&mut self, ticks: u128, probability: f64) {
        let bin = self.half_slots(ticks.max(self.shortest_ticks));
        let bin = bin.min(self.optimistic.len() - 1);
        self.optimistic[bin] += probability;
    }

    /// Adds responses of at most `ticks`.
    pub(super) fn add_at_most(&mut self, ticks: u128, probability: f64) {
        let up = u128::from(self.slots.budget_ns) - 1;
        let bin = self.half_slots(ticks.saturating_add(up));
        if let Some(sum) = self.pessimistic.get_mut(bin) {
            *sum += probability;
        }
    }

    /// Forgets what was added to an end.
    pub(super) fn clear(&mut self, end: BracketEnd) {
        match end {
            BracketEnd::Optimistic => self.optimistic.fill(0.0),
            BracketEnd::Pessimistic => self.pessimistic.fill(0.0),
        }
    }

    /// So many ticks in half slots, rounded down.
    fn half_slots(&self, ticks: u128) -> usize {
        // Nearly all fit into the numbers that a CPU divides fast.
        match u64::try_from(ticks) {
            Ok(ticks) => usize::try_from(ticks / self.slots.budget_ns),
            Err(_) => usize::try_from(ticks / u128::from(self.slots.budget_ns)),
        }
        .unwrap_or(usize::MAX)
    }

    /// The functions, moved apart by `error` in probability, with the share of the responses that take longer
    /// multiplied by `late_factor`, and `overhead` later.
    pub(super) fn finish(
        self,
        error: f64,
        late_factor: f64,
        overhead: Duration,
    ) -> Result<Bracket, AnalysisError> {
        let margin = GUARD + error;
        let scaled = |share: f64| 1.0 - late_factor * (1.0 - share).max(0.0);
        let ticks = |bin: usize| bin as u128 * u128::from(self.slots.budget_ns);
        let half_slot = self.slots.slot_seconds() / 2.0;
        let mass: f64 = self.optimistic.iter().sum();
        let mut cumulative = (1.0 - mass).max(0.0) + margin;
        let mut optimistic = Vec::new();
        let last = self.optimistic.len() - 1;
        let first = (self.shortest_ticks / u128::from(self.slots.budget_ns)) as usize;
        let first = first.min(last);
        let mut low_seconds = self.slots.seconds(ticks(first));
        for (bin, mass) in self.optimistic.iter().enumerate().skip(first) {
            cumulative = if bin == last { 1.0 } else { cumulative + mass };
            let at = self.slots.time_down(ticks(bin).max(self.shortest_ticks));
            let value = scaled(cumulative).clamp(0.0, 1.0);
            push(&mut optimistic, at.saturating_add(overhead), value);
            if cumulative >= 1.0 {
                break;
            }
            low_seconds += half_slot * (1.0 - value);
        }
        let mut pessimistic = Vec::new();
        let (mut sum, mut highest, mut high_seconds) = (0.0, 0.0_f64, 0.0);
        for (bin, mass) in self.pessimistic.iter().enumerate() {
            sum += mass;
            let bound = 1.0 - self.tail.above(bin as f64 * half_slot);
            let value = scaled((sum - margin).min(1.0));
            highest = highest.max(value).max(bound).clamp(0.0, 1.0);
            let at = self.slots.time_up(ticks(bin)).saturating_add(overhead);
            push(&mut pessimistic, at, highest);
            high_seconds += half_slot * (1.0 - highest);
        }
        self.tail.follow(&mut pessimistic, overhead);
        high_seconds += self
            .tail
            .mean_beyond(self.pessimistic.len() as f64 * half_slot);
        // Rounding the integrals of floats may move them by far less than a nanosecond.
        let low = Duration::from_nanos((low_seconds * 1e9).max(1.0) as u64 - 1);
        let high = Duration::from_nanos((high_seconds * 1e9).min(1e18) as u64 + 2);
        Ok(Bracket {
            optimistic: StepCdf::new(optimistic).map_err(AnalysisError::no_distribution)?,
            pessimistic: StepCdf::new(pessimistic).map_err(AnalysisError::no_distribution)?,
            mean: Interval {
                low: low.saturating_add(overhead),
                high: Some(high.saturating_add(overhead)),
            },
        })
    }
}

impl Bracket {
    /// Its optimistic end and the pessimistic one of `other`.
    pub(super) fn with_pessimistic_end_of(self, other: Self) -> Self {
        Self {
            optimistic: self.optimistic,
            pessimistic: other.pessimistic,
            mean: Interval {
                low: self.mean.low,
                high: other.mean.high,
            },
        }
    }

    /// What encloses both.
    pub(super) fn around(self, other: &Self) -> Result<Self, AnalysisError> {
        let both = |one: &StepCdf, two: &StepCdf, chosen: fn(f64, f64) -> f64| {
            let mut places: Vec<Duration> = one
                .steps()
                .iter()
                .chain(two.steps())
                .map(|step| step.0)
                .collect();
            places.sort_unstable();
            let mut steps = Vec::with_capacity(places.len());
            for at in places {
                push(&mut steps, at, chosen(one.value(at), two.value(at)));
            }
            StepCdf::new(steps).map_err(AnalysisError::no_distribution)
        };
        Ok(Self {
            optimistic: both(&self.optimistic, &other.optimistic, f64::max)?,
            pessimistic: both(&self.pessimistic, &other.pessimistic, f64::min)?,
            mean: Interval {
                low: self.mean.low.min(other.mean.low),
                high: self
                    .mean
                    .high
                    .zip(other.mean.high)
                    .map(|(one, two)| one.max(two)),
            },
        })
    }
}

/// Adds a step, unless it says nothing new.
fn push(steps: &mut Vec<(Duration, f64)>, at: Duration, value: f64) {
    match steps.last_mut() {
        None if value <= 0.0 => {}
        Some((_, before)) if value <= *before => {}
        Some((last, before)) if *last == at => *before = value,
        _ => steps.push((at, value)),
    }
}
