//! A histogram of durations that one thread writes and any thread reads, without locks.

use std::sync::atomic::{AtomicU64, Ordering};

use tailbound_time::Duration;

/// Each power of two is cut into this many buckets (a power of two itself): 3 % wide each.
const PER_OCTAVE: u64 = 32;
const BUCKETS: usize = ((64 - PER_OCTAVE.ilog2() as usize) + 1) * PER_OCTAVE as usize;

/// Counts of durations in buckets that are 3 % wide; fixed in size.
#[derive(Debug)]
pub(super) struct SharedHistogram {
    counts: Box<[AtomicU64]>,
}

impl Default for SharedHistogram {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl SharedHistogram {
    /// Counts `value`; for the one writer only.
    pub(super) fn record(&self, value: Duration) {
        if let Some(count) = self.counts.get(bucket(value.as_nanos())) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// What has been counted so far.
    pub(super) fn read(&self) -> DurationCounts {
        DurationCounts {
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
        }
    }
}

/// Counts of durations, as they were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationCounts {
    counts: Vec<u64>,
}

impl DurationCounts {
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The least upper bound of a bucket below which at least the fraction `probability` of all
    /// durations lies: never below the true quantile, and at most 3.2 % above it. `None` where
    /// nothing was counted.
    pub fn quantile_upper(&self, probability: f64) -> Option<Duration> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * probability).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(upper_bound(place)))
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }
}

/// Values below [`PER_OCTAVE`] have a bucket each; above, the leading bits choose.
fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < PER_OCTAVE {
        return nanoseconds as usize;
    }
    let octave = u64::from(nanoseconds.ilog2() - PER_OCTAVE.ilog2());
    let within = (nanoseconds >> octave) - PER_OCTAVE;
    ((octave + 1) * PER_OCTAVE + within) as usize
}

/// The largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_OCTAVE {
        return bucket;
    }
    let (octave, within) = (bucket / PER_OCTAVE - 1, bucket % PER_OCTAVE);
    let next = u128::from(PER_OCTAVE + within + 1) << octave;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(SharedHistogram::default().read().quantile_upper(0.5), None);
    }

    #[test]
    fn the_longest_duration_has_a_bucket() {
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(upper_bound(bucket(u64::MAX)), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_within_its_width(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let upper = upper_bound(bucket(value));
            prop_assert!(upper >= value);
            prop_assert!(u128::from(upper - value) * 32 <= u128::from(value));
            if let Some(next) = upper.checked_add(1) {
                prop_assert_eq!(bucket(next), bucket(value) + 1);
            }
        }

        #[test]
        fn quantiles_bound_the_exact_ones(
            mut values in prop::collection::vec(0_u64..10_000_000, 1..300),
            percent in 1_u32..=100,
        ) {
            let histogram = SharedHistogram::default();
            for value in &values {
                histogram.record(Duration::from_nanos(*value));
            }
            values.sort_unstable();
            let probability = f64::from(percent) / 100.0;
            let rank = ((values.len() as f64 * probability).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let quantile = histogram.read().quantile_upper(probability).expect("counted").as_nanos();
            prop_assert!(quantile >= exact && quantile - exact <= exact / 32 + 1, "{quantile} for {exact}");
        }
    }
}
