//! The order of measurements.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::SampleGrid;

/// `CampaignTurn` is one measurement of a campaign: of a point, for the nth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignTurn {
    /// The point.
    pub point: usize,
    /// Whether the control point is measured, to show a host that drifts. Its measurements answer no question.
    pub is_control: bool,
}

impl CampaignTurn {
    /// The measurement of a point for the answer.
    pub fn of_point(point: usize) -> Self {
        let is_control = false;
        Self { point, is_control }
    }
}

/// The measurements of a factorial campaign: every point `repeats` times, each time in another random order, so that
/// a host that drifts favours none; the control point first, after every `control_distance` others, and last.
pub fn factorial_turns(
    grid: &SampleGrid,
    repeats: u32,
    control_distance: u32,
    seed: u64,
) -> Vec<CampaignTurn> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut turns = Vec::new();
    let mut since_control = control_distance;
    let control = CampaignTurn {
        point: grid.middle(),
        is_control: true,
    };
    for _ in 0..repeats {
        let mut points: Vec<usize> = (0..grid.len()).collect();
        shuffle(&mut points, &mut random);
        for point in points {
            if control_distance > 0 && since_control == control_distance {
                turns.push(control);
                since_control = 0;
            }
            turns.push(CampaignTurn::of_point(point));
            since_control += 1;
        }
    }
    if control_distance > 0 && since_control > 0 {
        turns.push(control);
    }
    turns
}

/// Puts elements into random order (Fisher and Yates).
pub(crate) fn shuffle<T>(elements: &mut [T], random: &mut ChaCha8Rng) {
    for last in (1..elements.len()).rev() {
        let other = (random.next_u64() % (last as u64 + 1)) as usize;
        elements.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn grid(shares: usize) -> SampleGrid {
        let values: Vec<String> = (1..=shares).map(|share| share.to_string()).collect();
        SampleGrid::new(vec![format!("share={}", values.join(",")).parse().unwrap()])
    }

    proptest! {
        #[test]
        fn every_point_is_measured_as_often_and_controls_are_as_far_apart(
            shares in 1_usize..30, repeats in 1_u32..4, distance in 0_u32..9, seed: u64,
        ) {
            let turns = factorial_turns(&grid(shares), repeats, distance, seed);
            for point in 0..shares {
                let own = turns.iter().filter(|turn| !turn.is_control && turn.point == point);
                prop_assert_eq!(own.count(), repeats as usize);
            }
            // Each round of repeats is over before the next one begins.
            let rounds: Vec<usize> = turns.iter().filter(|turn| !turn.is_control).map(|turn| turn.point).collect();
            for round in rounds.chunks(shares) {
                let mut sorted = round.to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..shares));
            }
            let controls: Vec<usize> = (0..turns.len()).filter(|at| turns[*at].is_control).collect();
            prop_assert_eq!(controls.is_empty(), distance == 0);
            if distance > 0 {
                prop_assert_eq!((controls[0], turns.len() - 1), (0, *controls.last().unwrap()));
                let far = |pair: &[usize]| pair[1] - pair[0] - 1;
                prop_assert!(controls.windows(2).all(|pair| far(pair) <= distance as usize));
            }
        }
    }

    #[test]
    fn the_order_follows_from_the_seed() {
        let order = |seed| factorial_turns(&grid(20), 2, 8, seed);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
