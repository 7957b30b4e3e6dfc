//! Exact shares of a CPU.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Add;

use crate::Duration;

/// The denominator that is taken when an exact one no longer fits: the error is below 1e-15 of a
/// CPU and always to the careful side.
const COARSE: u128 = 1_000_000_000_000_000;

/// A share of a CPU: a fraction of integers, exact unless sums of many unlike periods no longer
/// fit 128 bits; then sums are rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    /// Nothing.
    pub const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// A whole CPU.
    pub const WHOLE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// `part / whole`; nothing of nothing is nothing, and something of nothing more than a CPU.
    pub fn new(part: u64, whole: u64) -> Self {
        match (part, whole) {
            (0, 0) => Self::reduced(0, 1),
            (_, 0) => Self::reduced(u128::from(u64::MAX), 1),
            _ => Self::reduced(part.into(), whole.into()),
        }
    }

    fn reduced(numerator: u128, denominator: u128) -> Self {
        let divisor = gcd(numerator, denominator).max(1);
        Self {
            numerator: numerator / divisor,
            denominator: denominator / divisor,
        }
    }

    /// The difference, or nothing where `other` is larger; rounded down where inexact.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        let exact = || {
            let left = self.numerator.checked_mul(other.denominator)?;
            let right = other.numerator.checked_mul(self.denominator)?;
            let below = self.denominator.checked_mul(other.denominator)?;
            Some(Self::reduced(left.saturating_sub(right), below))
        };
        exact().unwrap_or_else(|| {
            let left = self.coarse_down();
            Self::reduced(left.saturating_sub(other.coarse_up()), COARSE)
        })
    }

    /// That often; rounded up where inexact.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        match self.numerator.checked_mul(factor.into()) {
            Some(product) => Self::reduced(product, self.denominator),
            None => Self::reduced(self.coarse_up().saturating_mul(factor.into()), COARSE),
        }
    }

    /// The share as a float, for printing; never better than it is.
    pub fn as_f64(self) -> f64 {
        self.coarse_up() as f64 / COARSE as f64
    }

    /// This share of `length`, rounded down.
    pub fn of(self, length: Duration) -> Duration {
        let length = u128::from(length.as_nanos());
        let part = match self.numerator.checked_mul(length) {
            Some(product) => product / self.denominator,
            None => self.coarse_down().saturating_mul(length) / COARSE,
        };
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// In parts of [`COARSE`], rounded down.
    fn coarse_down(self) -> u128 {
        let (whole, rest, below) = self.split();
        // Dividing by more after dropping digits rounds down.
        let shift = Self::digits_too_many(below);
        let part = (rest >> shift) * COARSE / ((below >> shift) + u128::from(shift > 0));
        whole.saturating_mul(COARSE).saturating_add(part)
    }

    /// In parts of [`COARSE`], rounded up.
    fn coarse_up(self) -> u128 {
        let (whole, rest, below) = self.split();
        let shift = Self::digits_too_many(below);
        let part = ((rest >> shift) + u128::from(shift > 0)) * COARSE;
        whole
            .saturating_mul(COARSE)
            .saturating_add(part.div_ceil(below >> shift))
    }

    fn split(self) -> (u128, u128, u128) {
        let below = self.denominator;
        (self.numerator / below, self.numerator % below, below)
    }

    /// How many binary digits a number below `below` must drop to be multiplied by [`COARSE`].
    fn digits_too_many(below: u128) -> u32 {
        // COARSE is below 2^50; one digit is left for adding one.
        (u128::BITS - below.leading_zeros()).saturating_sub(77)
    }
}

/// The greatest common divisor. Shares of real periods fit 64 bits, where it takes half as long.
fn gcd(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => num_integer::gcd(a, b).into(),
        _ => num_integer::gcd(a, b),
    }
}

impl Add for Fraction {
    type Output = Self;

    /// Exact, or rounded up.
    fn add(self, other: Self) -> Self {
        let common = gcd(self.denominator, other.denominator).max(1);
        let exact = || {
            let left = self.numerator.checked_mul(other.denominator / common)?;
            let right = other.numerator.checked_mul(self.denominator / common)?;
            let below = self.denominator.checked_mul(other.denominator / common)?;
            Some(Self::reduced(left.checked_add(right)?, below))
        };
        exact().unwrap_or_else(|| {
            Self::reduced(self.coarse_up().saturating_add(other.coarse_up()), COARSE)
        })
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = self.numerator.checked_mul(other.denominator);
        let right = other.numerator.checked_mul(self.denominator);
        match (left, right) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => self.coarse_up().cmp(&other.coarse_up()),
        }
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

/// In percent, for reading: never better than it is.
impl fmt::Display for Fraction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.as_f64() * 100.0;
        let text = format!("{percent:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        out.pad(&format!("{text}%"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thirds_make_a_whole() {
        let third = Fraction::new(1, 3);
        assert_eq!(third + third + third, Fraction::new(1, 1));
        assert_eq!(
            Fraction::new(1, 1).saturating_sub(third),
            Fraction::new(2, 3)
        );
        assert_eq!(third.of(Duration::from_nanos(10)), Duration::from_nanos(3));
        assert_eq!(Fraction::new(95, 100).to_string(), "95%");
    }

    proptest! {
        #[test]
        fn sums_are_never_rounded_down(
            shares in proptest::collection::vec((1_u64..1 << 42, 1_u64..1 << 42), 1..30),
        ) {
            let sum = shares.iter().fold(Fraction::new(0, 1), |sum, &(part, whole)| {
                sum + Fraction::new(part, whole)
            });
            let least: f64 = shares.iter().map(|&(part, whole)| part as f64 / whole as f64).sum();
            let coarse = sum.coarse_up() as f64 / COARSE as f64;
            prop_assert!(coarse >= least * (1.0 - 1e-9));
            prop_assert!(coarse <= least * (1.0 + 1e-9) + 1e-9);
        }

        #[test]
        fn nothing_overflows(a: u64, b: u64, c: u64, d: u64, length: u64) {
            let (x, y) = (Fraction::new(a, b), Fraction::new(c, d));
            let _ordering = x.cmp(&y);
            let part = x.saturating_sub(y).of(Duration::from_nanos(length));
            prop_assert!(part.as_nanos() <= x.of(Duration::from_nanos(length)).as_nanos());
            let _text = (x + y).to_string();
        }
    }
}
