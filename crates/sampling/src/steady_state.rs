//! The run-in of a measurement, by the marginal standard error rule.
//!
//! MSER-5 (White, Cobb and Spratt, A comparison of five steady-state truncation heuristics for simulation, Winter
//! Simulation Conference 2000): of all numbers of batches of five observations that could be left out at the
//! beginning, the one whose rest has the least standard error of its mean. A best cut in the second half says that
//! the run was too short to show a steady state.

/// Observations of a batch.
const BATCH: usize = 5;
/// Fewer batches than this show nothing.
const LEAST_BATCHES: usize = 10;

/// `RunIn` is the beginning of a measurement that does not belong to its steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIn {
    /// The number of observations that are left out.
    pub length: usize,
    /// Whether the rest looks like a steady state; not where the best cut is in the second half.
    pub is_steady: bool,
}

/// The run-in of observations in the order of time.
pub fn run_in(observations: &[f64]) -> RunIn {
    let batches: Vec<f64> = observations
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let count = batches.len();
    if count < LEAST_BATCHES {
        return RunIn {
            length: 0,
            is_steady: true,
        };
    }
    let mut best = (f64::INFINITY, 0);
    let (mut sum, mut squares) = (0.0, 0.0);
    // Sums of deviations from a middle value lose no digits.
    let middle = batches[count / 2];
    for cut in (0..count).rev() {
        let deviation = batches[cut] - middle;
        sum += deviation;
        squares += deviation * deviation;
        let left = (count - cut) as f64;
        // The last few batches alone may lie together by chance.
        if count - cut < LEAST_BATCHES / 2 {
            continue;
        }
        let error = (squares - sum * sum / left).max(0.0) / (left * left);
        if error <= best.0 {
            best = (error, cut);
        }
    }
    match best.1 {
        cut if cut > count / 2 => RunIn {
            length: count / 2 * BATCH,
            is_steady: false,
        },
        cut => RunIn {
            length: cut * BATCH,
            is_steady: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let uniform = |random: &mut ChaCha8Rng| (random.next_u64() >> 11) as f64 / 2f64.powi(53);
        (0..count).map(|_| 10.0 + uniform(&mut random)).collect()
    }

    #[test]
    fn a_start_that_is_slower_is_cut_off_and_little_else() {
        for seed in 0..20 {
            let mut observations = noise(1000, seed);
            for (index, one) in observations.iter_mut().enumerate().take(100) {
                *one += 30.0 - 0.3 * index as f64;
            }
            let run_in = run_in(&observations);
            assert!(run_in.is_steady);
            assert!((85..=200).contains(&run_in.length), "{run_in:?}");
        }
    }

    #[test]
    fn steady_observations_keep_most_of_themselves() {
        let kept: usize = (0..20)
            .map(|seed| 1000 - run_in(&noise(1000, seed)).length)
            .sum();
        assert!(kept > 16_000, "{kept} of 20,000 are kept");
    }

    #[test]
    fn a_rise_to_the_very_end_is_not_steady() {
        let rise: Vec<f64> = (0..1000).map(|index| f64::from(index).powi(2)).collect();
        let falling: Vec<f64> = rise.iter().rev().copied().collect();
        assert!(!run_in(&falling).is_steady);
        assert_eq!(
            run_in(&[1.0; 9]),
            RunIn {
                length: 0,
                is_steady: true
            }
        );
    }
}
