//! Division of a whole among portions with bounds, by water-filling: one shift for all, cut at each one's bounds.

/// `Portion` is a side of a division: the wanted size, which may lie outside the bounds, and the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// The size without the others.
    pub wanted: i128,
    /// The least size.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Portion {
    /// The size after a shift, cut to the bounds.
    fn shifted(&self, shift: i128) -> u64 {
        let size = self.wanted.saturating_add(shift);
        let cut = size.clamp(i128::from(self.least), i128::from(self.most));
        u64::try_from(cut).unwrap_or(self.most)
    }
}

/// The sizes next to the wanted ones (in the sum of squares) within the bounds, with the sum `whole` exactly; none if no sizes
/// within the bounds have that sum.
///
/// The shift is an integer; what it leaves over, less than one a portion, goes to the first portions that have room.
pub fn divide(whole: u64, portions: &[Portion]) -> Option<Vec<u64>> {
    let total =
        |size: fn(&Portion) -> u64| -> u128 { portions.iter().map(|p| u128::from(size(p))).sum() };
    let fits = total(|p| p.least) <= u128::from(whole) && u128::from(whole) <= total(|p| p.most);
    if !fits || portions.iter().any(|p| p.least > p.most) {
        return None;
    }
    let shift = greatest_shift(whole, portions);
    let mut sizes: Vec<u64> = portions.iter().map(|p| p.shifted(shift)).collect();
    let mut left = u128::from(whole) - sizes.iter().copied().map(u128::from).sum::<u128>();
    for (portion, size) in portions.iter().zip(&mut sizes) {
        if left > 0 && portion.shifted(shift + 1) > *size {
            *size += 1;
            left -= 1;
        }
    }
    debug_assert_eq!(left, 0, "the next shift gives more than the whole");
    Some(sizes)
}

/// The greatest shift after which the portions are no more than `whole`.
fn greatest_shift(whole: u64, portions: &[Portion]) -> i128 {
    let total =
        |shift: i128| -> u128 { portions.iter().map(|p| u128::from(p.shifted(shift))).sum() };
    let lowest = portions
        .iter()
        .map(|p| i128::from(p.least) - p.wanted)
        .min();
    let highest = portions.iter().map(|p| i128::from(p.most) - p.wanted).max();
    let (mut low, mut high) = (lowest.unwrap_or(0), highest.unwrap_or(0));
    while low < high {
        let middle = low + (high - low + 1) / 2;
        match total(middle) <= u128::from(whole) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn portion(wanted: i128, least: u64, most: u64) -> Portion {
        Portion {
            wanted,
            least,
            most,
        }
    }

    #[test]
    fn excess_goes_to_those_with_room() {
        let portions = [portion(50, 0, 30), portion(30, 0, 100), portion(20, 0, 100)];
        assert_eq!(divide(100, &portions), Some(vec![30, 40, 30]));
        assert_eq!(divide(101, &portions), Some(vec![30, 41, 30]));
    }

    #[test]
    fn an_impossible_sum_is_none() {
        assert_eq!(divide(5, &[portion(0, 3, 9), portion(0, 3, 9)]), None);
        assert_eq!(divide(19, &[portion(0, 3, 9), portion(0, 3, 9)]), None);
        assert_eq!(divide(6, &[portion(0, 9, 3), portion(0, 3, 9)]), None);
        assert_eq!(divide(0, &[]), Some(Vec::new()));
    }

    prop_compose! {
        fn portions()(bounds in prop::collection::vec((-2_000_000_000_i128..2_000_000_000, 0_u64..500_000_000, 0_u64..500_000_000), 1..30))
            -> Vec<Portion> {
            bounds.into_iter().map(|(wanted, least, more)| portion(wanted, least, least + more)).collect()
        }
    }

    proptest! {
        #[test]
        fn sums_are_exact_and_bounds_kept(portions in portions(), place in 0.0..=1.0_f64) {
            let least: u64 = portions.iter().map(|p| p.least).sum();
            let most: u64 = portions.iter().map(|p| p.most).sum();
            let whole = least + ((most - least) as f64 * place) as u64;
            let sizes = divide(whole, &portions).unwrap();
            prop_assert_eq!(sizes.iter().sum::<u64>(), whole);
            for (size, portion) in sizes.iter().zip(&portions) {
                prop_assert!((portion.least..=portion.most).contains(size));
            }
        }

        #[test]
        fn wanted_sizes_that_fit_are_given(portions in portions()) {
            let whole: u64 = portions.iter().map(|p| p.shifted(0)).sum();
            let expected: Vec<u64> = portions.iter().map(|p| p.shifted(0)).collect();
            prop_assert_eq!(divide(whole, &portions).unwrap(), expected);
        }

        #[test]
        fn order_matters_by_one_at_most(portions in portions(), place in 0.0..=1.0_f64) {
            let least: u64 = portions.iter().map(|p| p.least).sum();
            let most: u64 = portions.iter().map(|p| p.most).sum();
            let whole = least + ((most - least) as f64 * place) as u64;
            let mut reversed = portions.clone();
            reversed.reverse();
            let sizes = divide(whole, &portions).unwrap();
            let others = divide(whole, &reversed).unwrap();
            for (size, other) in sizes.iter().zip(others.iter().rev()) {
                prop_assert!(size.abs_diff(*other) <= 1);
            }
        }
    }
}
