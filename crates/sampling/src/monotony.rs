//! More of a CPU is never slower: what that says of values along the axis of shares.

/// The falling sequence that is nearest to the values by least squares, by pooling neighbours that rise.
pub(crate) fn nearest_falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        pools.push((*value, 1));
        while let [.., before, last] = pools.as_slice()
            && before.0 < last.0
        {
            let count = before.1 + last.1;
            let mean = (before.0 * before.1 as f64 + last.0 * last.1 as f64) / count as f64;
            pools.truncate(pools.len() - 2);
            pools.push((mean, count));
        }
    }
    let each = pools.into_iter();
    each.flat_map(|(value, count)| std::iter::repeat_n(value, count))
        .collect()
}

/// Whether a value rises above an earlier one by more than this.
pub(crate) fn rises(values: &[f64], by: f64) -> bool {
    let mut least = f64::INFINITY;
    values.iter().any(|value| {
        least = least.min(*value);
        *value - least > by
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falling_sequences_stay_and_rises_are_levelled() {
        assert_eq!(nearest_falling(&[3.0, 2.0, 2.0, 1.0]), [3.0, 2.0, 2.0, 1.0]);
        assert_eq!(nearest_falling(&[3.0, 1.0, 2.0, 0.0]), [3.0, 1.5, 1.5, 0.0]);
        assert_eq!(nearest_falling(&[1.0, 2.0, 3.0]), [2.0; 3]);
    }

    #[test]
    fn rises_count_from_the_least_value_before() {
        assert!(rises(&[3.0, 1.0, 1.5, 2.1], 1.0));
        assert!(!rises(&[3.0, 1.0, 1.5, 1.9], 1.0));
        assert!(!rises(&[], 0.0));
    }
}
