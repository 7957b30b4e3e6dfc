//! Common divisors, and fractions near a ratio.

use std::cmp::Ordering;

/// A fraction of whole numbers in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction {
    numerator: u64,
    denominator: u64,
}

impl Fraction {
    /// `numerator / denominator`; the denominator is above zero.
    pub(crate) fn new(numerator: u64, denominator: u64) -> Self {
        let divisor = gcd(numerator, denominator).max(1);
        Self {
            numerator: numerator / divisor,
            denominator: (denominator / divisor).max(1),
        }
    }

    pub(crate) fn numerator(self) -> u64 {
        self.numerator
    }

    pub(crate) fn denominator(self) -> u64 {
        self.denominator
    }

    pub(crate) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// The largest fraction not above this one and the smallest not below it, with denominators of
    /// at most `largest`: neighbours in a Farey sequence, found by descending the tree of Stern and
    /// Brocot. Both are this one if its own denominator is small enough.
    pub(crate) fn neighbours(self, largest: u64) -> (Self, Self) {
        if self.denominator <= largest {
            return (self, self);
        }
        let (mut below, mut above) = ((self.numerator / self.denominator, 1), (1, 0));
        loop {
            let (a, b) = (u128::from(below.0), u128::from(below.1));
            let (c, d) = (u128::from(above.0), u128::from(above.1));
            let (n, m) = (u128::from(self.numerator), u128::from(self.denominator));
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
        (Self::new(below.0, below.1), Self::new(above.0, above.1))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.numerator, other.denominator).cmp(&product(other.numerator, self.denominator))
    }
}

/// The greatest common divisor; that of zero and a number is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pi_has_its_known_neighbours() {
        let pi = Fraction::new(3_141_592_653, 1_000_000_000);
        let (below, above) = pi.neighbours(120);
        assert_eq!(below, Fraction::new(333, 106));
        assert_eq!(above, Fraction::new(355, 113));
    }

    #[test]
    fn a_small_denominator_stays() {
        let half = Fraction::new(50, 100);
        assert_eq!(half.neighbours(2), (half, half));
    }

    proptest! {
        #[test]
        fn neighbours_enclose_as_tightly_as_they_can(
            numerator in 1_u64..5_000, denominator in 1_u64..5_000, largest in 1_u64..60,
        ) {
            let ratio = Fraction::new(numerator, denominator);
            let (below, above) = ratio.neighbours(largest);
            prop_assert!(below <= ratio && ratio <= above);
            prop_assert!(below.denominator() <= largest && above.denominator() <= largest);
            for d in 1..=largest {
                let n = u64::try_from(u128::from(numerator) * u128::from(d) / u128::from(denominator))
                    .unwrap_or(0);
                prop_assert!(Fraction::new(n, d) <= below);
                let exact = u128::from(n) * u128::from(denominator)
                    == u128::from(numerator) * u128::from(d);
                let next = if exact { n } else { n + 1 };
                prop_assert!(Fraction::new(next, d) >= above);
            }
        }
    }
}
