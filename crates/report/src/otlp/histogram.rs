//! Exponential histograms of samples (OpenTelemetry, Metrics Data Model, "ExponentialHistogram").

use tailbound_distribution::Distribution;
use tailbound_time::Duration;

use super::protocol::{Buckets, HistogramPoint, MetricAttribute, PointTime};

/// 32 buckets for each doubling: a bucket's ends are 2.2% apart, and latencies between 1 µs and 10 s lie in fewer
/// than 750 buckets.
const SCALE: i32 = 5;

/// The histogram of the known values of a sample; `None` of an empty one.
pub(super) fn histogram_point(
    distribution: &Distribution,
    attributes: Vec<MetricAttribute>,
    time: PointTime,
) -> Option<HistogramPoint> {
    let samples = distribution.samples();
    let (min, max) = (samples.first()?, samples.last()?);
    let zero_count = samples.partition_point(|value| value.is_zero());
    Some(HistogramPoint {
        attributes,
        time,
        count: samples.len() as u64,
        sum: samples.iter().map(|value| value.as_secs_f64()).sum(),
        min: min.as_secs_f64(),
        max: max.as_secs_f64(),
        scale: SCALE,
        zero_count: zero_count as u64,
        positive: buckets(&samples[zero_count..]),
    })
}

/// The buckets of sorted values above zero.
fn buckets(sorted: &[Duration]) -> Buckets {
    let offset = sorted.first().map_or(0, |least| bucket(*least));
    let mut bucket_counts = Vec::new();
    for value in sorted {
        let index = (bucket(*value) - offset) as usize;
        if bucket_counts.len() <= index {
            bucket_counts.resize(index + 1, 0);
        }
        bucket_counts[index] += 1;
    }
    Buckets {
        offset,
        bucket_counts,
    }
}

/// The bucket of a value in seconds, whose upper end belongs to it.
fn bucket(value: Duration) -> i32 {
    let buckets_per_doubling = f64::from(1 << SCALE);
    (value.as_secs_f64().log2() * buckets_per_doubling).ceil() as i32 - 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_has_its_upper_end() {
        let of = |nanoseconds| bucket(Duration::from_nanos(nanoseconds));
        assert_eq!(of(1_000_000_000), -1);
        assert_eq!(of(1_000_000_001), 0);
        assert_eq!(of(2_000_000_000), 31);
        assert_eq!(of(500_000_000), -33);
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(mut values in prop::collection::vec(1_u64..1 << 40, 1..100)) {
            values.sort_unstable();
            let sorted: Vec<Duration> = values.iter().copied().map(Duration::from_nanos).collect();
            let Buckets { offset, bucket_counts } = buckets(&sorted);
            prop_assert_eq!(bucket_counts.iter().sum::<u64>(), values.len() as u64);
            prop_assert!(bucket_counts[0] > 0);
            let end = |index: usize| (f64::from(offset + index as i32) / 32.0).exp2();
            let in_order = bucket_counts.iter().enumerate();
            let bucket_of_each = in_order.flat_map(|(index, count)| vec![index; *count as usize]);
            for (index, value) in bucket_of_each.zip(&sorted) {
                // Rounding may put a value at the very end of a bucket on the other side.
                let value = value.as_secs_f64();
                prop_assert!(value >= end(index) * (1.0 - 1e-12), "{value} in {index}");
                prop_assert!(value <= end(index + 1) * (1.0 + 1e-12), "{value} in {index}");
            }
        }
    }
}
