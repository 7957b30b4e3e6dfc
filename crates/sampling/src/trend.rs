//! Trends of series: of the control point over a campaign, and of latencies within a point.
//!
//! The test of Mann and Kendall says whether a series rises or falls more than its scatter explains, whatever the
//! distribution of its values (Kendall, Rank Correlation Methods, 4th ed.); the slope is the median of the slopes
//! between all pairs (Sen, Journal of the American Statistical Association 63, 1968).

use serde::{Deserialize, Serialize};

/// Fewer values than this have no trend: their orders could all have come by chance.
const LEAST_VALUES: usize = 5;

/// `Trend` is the change of a series from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The factor by which the last value is above the first one, on the line with the median slope.
    pub factor: f64,
    /// The probability of such an order of values without any trend, of either sign.
    pub chance: f64,
}

/// The trend of values in the order of time; `None` where there are too few, or they do not tell a ratio.
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < LEAST_VALUES || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = values.len();
    let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
    let mut score = 0_i64;
    for (later, last) in values.iter().enumerate() {
        for (earlier, first) in values[..later].iter().enumerate() {
            let difference = last - first;
            slopes.push(difference / (later - earlier) as f64);
            score += i64::from(difference > 0.0) - i64::from(difference < 0.0);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let slope = slopes[slopes.len() / 2];
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[count / 2];
    let half = slope * (count - 1) as f64 / 2.0;
    let (first, last) = (middle - half, middle + half);
    (first > 0.0 && last > 0.0).then(|| Trend {
        factor: last / first,
        chance: chance(score, &sorted),
    })
}

/// The probability of a score of at least this size, by the normal distribution, with the variance of tied values.
fn chance(score: i64, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties = sorted.chunk_by(|one, other| one == other);
    let tied: f64 = ties.map(|tie| of(tie.len() as f64)).sum();
    let variance = (of(count) - tied) / 18.0;
    if variance <= 0.0 || score == 0 {
        return 1.0;
    }
    // One is the continuity correction: scores go in steps of two.
    let deviation = (score.abs() - 1) as f64 / variance.sqrt();
    2.0 * (1.0 - crate::normal::cumulative(deviation))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn series(count: usize, rise: f64, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let uniform = |random: &mut ChaCha8Rng| (random.next_u64() >> 11) as f64 / 2f64.powi(53);
        let at = |index: usize| 1.0 + rise * index as f64 / count as f64;
        (0..count)
            .map(|index| at(index) * (0.9 + 0.2 * uniform(&mut random)))
            .collect()
    }

    #[test]
    fn a_rise_is_seen_with_its_size_and_noise_is_not() {
        let mut false_alarms = 0;
        for seed in 0..100 {
            let rising = trend(&series(20, 0.5, seed)).unwrap();
            assert!(rising.chance < 0.01, "{rising:?}");
            assert!((1.3..1.7).contains(&rising.factor), "{rising:?}");
            false_alarms += u32::from(trend(&series(20, 0.0, seed)).unwrap().chance < 0.05);
        }
        assert!(false_alarms <= 12, "{false_alarms} of 100 at 5%");
    }

    #[test]
    fn few_equal_or_missing_values_show_none() {
        assert_eq!(trend(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(trend(&[1.0, 2.0, f64::NAN, 4.0, 5.0]), None);
        assert_eq!(
            trend(&[2.0; 9]).unwrap(),
            Trend {
                factor: 1.0,
                chance: 1.0
            }
        );
    }

    /// Kendall's table of the exact distribution: a score of 10 of 5 values has the probability 2 / 120.
    #[test]
    fn the_probability_is_near_that_of_the_table() {
        let rising = trend(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((rising.chance - 2.0 / 120.0).abs() < 0.015, "{rising:?}");
    }
}
