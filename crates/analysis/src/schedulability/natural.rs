//! Natural numbers of any size, for the verdicts that 128 bits cannot decide.

use std::cmp::Ordering;

/// A natural number: 64-bit digits, lowest first, none of them a leading zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

impl Natural {
    pub(super) fn new(value: u64) -> Self {
        Self(if value == 0 { Vec::new() } else { vec![value] })
    }

    pub(super) fn times_u64(&self, factor: u64) -> Self {
        if factor == 0 {
            return Self::new(0);
        }
        let mut carry: u128 = 0;
        let mut digits: Vec<u64> = Vec::with_capacity(self.0.len() + 1);
        for digit in &self.0 {
            // At most (2^64 - 1)^2 + 2^64 - 1 < 2^128.
            let sum = u128::from(*digit) * u128::from(factor) + carry;
            digits.push(sum as u64);
            carry = sum >> 64;
        }
        if carry != 0 {
            digits.push(carry as u64);
        }
        Self(digits)
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut carry: u128 = 0;
        let count = self.0.len().max(other.0.len());
        let mut digits = Vec::with_capacity(count + 1);
        for index in 0..count {
            let digit = |number: &Self| u128::from(number.0.get(index).copied().unwrap_or(0));
            let sum = digit(self) + digit(other) + carry;
            digits.push(sum as u64);
            carry = sum >> 64;
        }
        if carry != 0 {
            digits.push(carry as u64);
        }
        Self(digits)
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = Self::new(0);
        for digit in other.0.iter().rev() {
            product = product.shifted_by_a_digit().plus(&self.times_u64(*digit));
        }
        product
    }

    /// This number times 2^64.
    fn shifted_by_a_digit(mut self) -> Self {
        if !self.0.is_empty() {
            self.0.insert(0, 0);
        }
        self
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A fraction of naturals; never reduced, since it is only ever compared.
#[derive(Clone, Debug)]
pub(super) struct Fraction {
    pub(super) numerator: Natural,
    pub(super) denominator: Natural,
}

impl Fraction {
    pub(super) fn whole(value: u64) -> Self {
        Self {
            numerator: Natural::new(value),
            denominator: Natural::new(1),
        }
    }

    /// This plus `numerator / denominator`.
    pub(super) fn plus(&self, numerator: u64, denominator: u64) -> Self {
        let left = self.numerator.times_u64(denominator);
        Self {
            numerator: left.plus(&self.denominator.times_u64(numerator)),
            denominator: self.denominator.times_u64(denominator),
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let left = self.numerator.times(&other.denominator);
        left.cmp(&other.numerator.times(&self.denominator))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn natural(value: u128) -> Natural {
        Natural::new((value >> 64) as u64)
            .shifted_by_a_digit()
            .plus(&Natural::new(value as u64))
    }

    proptest! {
        #[test]
        fn agrees_with_the_machine(a in 0..=u64::MAX, b in 0..=u64::MAX, c in 0..=u64::MAX >> 1) {
            let product = u128::from(a) * u128::from(b);
            prop_assert_eq!(Natural::new(a).times_u64(b), natural(product));
            prop_assert_eq!(Natural::new(a).times(&Natural::new(b)), natural(product));
            let sum = u128::from(a) * u128::from(b >> 1) + u128::from(c);
            prop_assert_eq!(Natural::new(a).times_u64(b >> 1).plus(&Natural::new(c)), natural(sum));
            prop_assert_eq!(natural(product).cmp(&natural(sum)), product.cmp(&sum));
        }

        #[test]
        fn multiplication_is_distributive(a: [u64; 4], b: [u64; 3]) {
            let big = |digits: &[u64]| digits.iter().fold(Natural::new(1), |n, d| {
                n.times_u64(d | 1).plus(&Natural::new(*d))
            });
            let (a, b) = (big(&a), big(&b));
            prop_assert_eq!(a.times(&b.plus(&a)), b.times(&a).plus(&a.times(&a)));
            prop_assert!(a.plus(&b) > a);
        }
    }
}
