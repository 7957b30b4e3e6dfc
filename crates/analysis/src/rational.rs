//! Exact arithmetic on fractions and common multiples, of any size.
//!
//! The numbers are those of `num`. Sums are not reduced: a common divisor of wide numbers takes longer than the one
//! comparison that a sum is for.

use std::cmp::Ordering;

use num_bigint::BigUint;
use num_integer::{Integer, gcd};
use num_rational::Ratio;

/// The sum of fractions, as (numerator, denominator), whose denominators are above zero; not reduced.
pub(crate) fn sum(fractions: impl Iterator<Item = (u64, u64)>) -> Ratio<BigUint> {
    let nothing = (BigUint::from(0_u8), BigUint::from(1_u8));
    let (numerator, denominator) = fractions.fold(nothing, |(above, below), (part, whole)| {
        (above * whole + &below * part, below * whole)
    });
    Ratio::new_raw(numerator, denominator)
}

/// Compares a fraction with another one, as (numerator, denominator), exactly.
pub(crate) fn compare(fraction: &Ratio<BigUint>, with: (u64, u64)) -> Ordering {
    (fraction.numer() * with.1).cmp(&(fraction.denom() * with.0))
}

/// Compares the sum of fractions with another one, exactly; all denominators are above zero.
pub(crate) fn compare_sum(
    fractions: impl Iterator<Item = (u64, u64)> + Clone,
    with: (u64, u64),
) -> Ordering {
    // In parts of 2^-56 each rounded down, which settles nearly all cases.
    let scaled = |(numerator, denominator): (u64, u64)| {
        (u128::from(numerator) << 56) / u128::from(denominator)
    };
    let parts = fractions.clone().map(scaled);
    let (least, count) = parts.fold((0, 0), |(least, count), part| (least + part, count + 1));
    let limit = scaled(with);
    if least > limit {
        return Ordering::Greater;
    }
    if least + count < limit {
        return Ordering::Less;
    }
    compare(&sum(fractions), with)
}

/// The least common multiple of numbers above zero, whatever its size.
pub(crate) fn common_multiple(numbers: impl Iterator<Item = u64> + Clone) -> BigUint {
    let narrow = |multiple: u128, number: u64| {
        let number = u128::from(number);
        multiple.checked_mul(number / gcd(multiple, number))
    };
    match numbers.clone().try_fold(1, narrow) {
        Some(multiple) => multiple.into(),
        None => numbers.fold(BigUint::from(1_u8), |multiple, number| {
            multiple.lcm(&number.into())
        }),
    }
}

/// The largest fraction not above `ratio` and the smallest not below it, with denominators of at most `largest`:
/// neighbours in a Farey sequence, found by descending the tree of Stern and Brocot. Both are `ratio` if its own
/// denominator is small enough.
pub(crate) fn neighbours(ratio: Ratio<u64>, largest: u64) -> (Ratio<u64>, Ratio<u64>) {
    let (numerator, denominator) = (*ratio.numer(), *ratio.denom());
    if denominator <= largest {
        return (ratio, ratio);
    }
    let (mut below, mut above) = ((numerator / denominator, 1), (1, 0));
    loop {
        let (a, b) = (u128::from(below.0), u128::from(below.1));
        let (c, d) = (u128::from(above.0), u128::from(above.1));
        let (n, m) = (u128::from(numerator), u128::from(denominator));
        // The farthest step from `below` towards `above` that stays at or below: largest k with
        // (a + k c) / (b + k d) <= n / m.
        let room = |used: u128, each: u128| match each {
            0 => u128::MAX,
            each => (u128::from(largest) - used) / each,
        };
        let up = ((n * b - a * m) / (c * m - n * d)).min(room(b, d));
        below = (below.0 + up as u64 * above.0, below.1 + up as u64 * above.1);
        let (a, b) = (u128::from(below.0), u128::from(below.1));
        let gap = n * b - a * m;
        if gap == 0 {
            break;
        }
        // And the other way: smallest that stays at or above.
        let down = ((c * m - n * d) / gap).min(room(d, b));
        above = (
            above.0 + down as u64 * below.0,
            above.1 + down as u64 * below.1,
        );
        if up == 0 && down == 0 {
            break;
        }
    }
    (
        Ratio::new(below.0, below.1),
        Ratio::new_raw(above.0, above.1),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pi_has_its_known_neighbours() {
        let pi = Ratio::new(3_141_592_653, 1_000_000_000);
        let (below, above) = neighbours(pi, 120);
        assert_eq!(below, Ratio::new(333, 106));
        assert_eq!(above, Ratio::new(355, 113));
    }

    #[test]
    fn a_small_denominator_stays() {
        let half = Ratio::new(50, 100);
        assert_eq!(neighbours(half, 2), (half, half));
    }

    #[test]
    fn a_sum_that_is_one_to_the_last_bit_is_told_from_its_neighbours() {
        let prime = u64::MAX - 58;
        let whole = [(1, prime), (prime - 1, prime)];
        assert_eq!(compare_sum(whole.into_iter(), (1, 1)), Ordering::Equal);
        let below = [(1, prime), (prime - 2, prime)];
        assert_eq!(compare_sum(below.into_iter(), (1, 1)), Ordering::Less);
        let above = [(1, prime), (prime - 1, prime - 1)];
        assert_eq!(compare_sum(above.into_iter(), (1, 1)), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn neighbours_enclose_as_tightly_as_they_can(
            numerator in 1_u64..5_000, denominator in 1_u64..5_000, largest in 1_u64..60,
        ) {
            let ratio = Ratio::new(numerator, denominator);
            let (below, above) = neighbours(ratio, largest);
            prop_assert!(below <= ratio && ratio <= above);
            prop_assert!(*below.denom() <= largest && *above.denom() <= largest);
            for d in 1..=largest {
                let n = u64::try_from(u128::from(numerator) * u128::from(d) / u128::from(denominator))
                    .unwrap_or(0);
                prop_assert!(Ratio::new(n, d) <= below);
                let exact = u128::from(n) * u128::from(denominator)
                    == u128::from(numerator) * u128::from(d);
                let next = if exact { n } else { n + 1 };
                prop_assert!(Ratio::new(next, d) >= above);
            }
        }

        #[test]
        fn sums_compare_as_in_small_integers(
            fractions in proptest::collection::vec((0_u64..30, 1_u64..13), 0..5),
            with in (0_u64..40, 1_u64..13),
        ) {
            // 27720 is a multiple of all denominators.
            let sum: u64 = fractions.iter().map(|(n, d)| n * (27_720 / d)).sum();
            let expected = (sum * with.1).cmp(&(with.0 * 27_720));
            prop_assert_eq!(compare_sum(fractions.into_iter(), with), expected);
        }

        #[test]
        fn multiples_are_the_least_ones(numbers in proptest::collection::vec(1_u64.., 1..6)) {
            let multiple = common_multiple(numbers.iter().copied());
            let mut rest = BigUint::from(0_u8);
            for number in &numbers {
                prop_assert_eq!(&multiple % *number, BigUint::from(0_u8));
                rest = rest.gcd(&(&multiple / *number));
            }
            // Were there a smaller one, the quotients would share the factor between the two.
            prop_assert_eq!(rest, BigUint::from(1_u8));
        }
    }
}
