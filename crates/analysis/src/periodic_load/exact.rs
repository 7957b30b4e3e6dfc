//! Sums of fractions and common multiples beyond 128 bits, exactly.

use std::cmp::Ordering;

/// A natural number of any size: 64-bit digits, the lowest first, without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Natural {
    digits: Vec<u64>,
}

impl Natural {
    pub(crate) fn from_u64(value: u64) -> Self {
        let digits = if value == 0 { Vec::new() } else { vec![value] };
        Self { digits }
    }

    pub(crate) fn times(mut self, factor: u64) -> Self {
        if factor == 0 {
            return Self::from_u64(0);
        }
        let mut carry = 0_u128;
        for digit in &mut self.digits {
            carry += u128::from(*digit) * u128::from(factor);
            *digit = carry as u64;
            carry >>= 64;
        }
        if carry > 0 {
            self.digits.push(carry as u64);
        }
        self
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        let length = self.digits.len().max(other.digits.len());
        self.digits.resize(length, 0);
        let mut carry = 0_u128;
        let addends = other.digits.iter().chain(std::iter::repeat(&0));
        for (digit, addend) in self.digits.iter_mut().zip(addends) {
            carry += u128::from(*digit) + u128::from(*addend);
            *digit = carry as u64;
            carry >>= 64;
        }
        if carry > 0 {
            self.digits.push(carry as u64);
        }
        self
    }

    /// The remainder of a division; the divisor is above zero.
    pub(crate) fn remainder(&self, divisor: u64) -> u64 {
        let step =
            |rest: u128, digit: &u64| ((rest << 64) | u128::from(*digit)) % u128::from(divisor);
        self.digits.iter().rev().fold(0, step) as u64
    }

    /// The value where it fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        match self.digits.as_slice() {
            [] => Some(0),
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Its decimal logarithm, for texts only; of zero, minus infinity.
    pub(crate) fn log10(&self) -> f64 {
        let leading = self.digits.iter().rev().take(2);
        let (mantissa, used) = leading.fold((0.0, 0), |(value, used), digit| {
            (value * 2_f64.powi(64) + *digit as f64, used + 1)
        });
        f64::log10(mantissa) + (self.digits.len() - used) as f64 * 64.0 * f64::log10(2.0)
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.digits.len().cmp(&other.digits.len());
        length.then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The least common multiple of numbers above zero, whatever its size.
pub(crate) fn common_multiple(numbers: impl Iterator<Item = u64>) -> Natural {
    numbers.fold(Natural::from_u64(1), |multiple, number| {
        let shared = greatest_common_divisor(multiple.remainder(number), number);
        multiple.times(number / shared)
    })
}

/// Compares the sum of fractions, as (numerator, denominator), with another fraction, exactly;
/// all denominators are above zero.
pub(crate) fn compare_sum(
    fractions: impl Iterator<Item = (u64, u64)> + Clone,
    with: (u64, u64),
) -> Ordering {
    // In parts of 2^-56 each rounded down, which settles nearly all cases.
    let scaled = |(numerator, denominator): (u64, u64)| {
        (u128::from(numerator) << 56) / u128::from(denominator)
    };
    let (sum, count) = fractions
        .clone()
        .fold((0_u128, 0_u128), |(sum, count), one| {
            (sum + scaled(one), count + 1)
        });
    let limit = scaled(with);
    if sum > limit {
        return Ordering::Greater;
    }
    if sum + count < limit {
        return Ordering::Less;
    }
    let (mut numerator, mut denominator) = (Natural::from_u64(0), Natural::from_u64(1));
    for (above, below) in fractions {
        numerator = numerator
            .times(below)
            .plus(&denominator.clone().times(above));
        denominator = denominator.times(below);
    }
    numerator.times(with.1).cmp(&denominator.times(with.0))
}

/// The greatest common divisor; of zero and a number, the number.
pub(crate) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_ten_have_their_logarithm() {
        let power = (0..60).fold(Natural::from_u64(1), |power, _| power.times(10));
        assert!((power.log10() - 60.0).abs() < 1e-9);
        assert_eq!(power.remainder(7), {
            (0..60).fold(1, |rest, _| rest * 10 % 7)
        });
        assert_eq!(Natural::from_u64(0).to_u64(), Some(0));
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
        fn multiples_agree_with_128_bits(numbers in proptest::collection::vec(1_u64..1_000_000, 1..6)) {
            let expected = numbers.iter().fold(1_u128, |multiple, number| {
                let number = u128::from(*number);
                let shared = greatest_common_divisor((multiple % number) as u64, number as u64);
                multiple * (number / u128::from(shared))
            });
            let found = common_multiple(numbers.into_iter());
            let (high, low) = ((expected >> 64) as u64, expected as u64);
            let rebuilt = Natural::from_u64(high).times(1 << 32).times(1 << 32).plus(&Natural::from_u64(low));
            prop_assert_eq!(found, rebuilt);
        }
    }
}
