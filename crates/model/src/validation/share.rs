//! Sums of shares of a CPU that are compared without rounding.

use tailbound_time::Duration;

use crate::interface::PercentagePoints;

/// A sum of ratios of durations, as an exact fraction while it fits 128 bits.
///
/// Past that it is kept in parts of 2^-64, rounded up, so that a sum is then never taken for
/// smaller than it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    /// Numerator and denominator, without common factors.
    Exact(u128, u128),
    /// Parts of 2^-64, rounded up.
    RoundedUp(u128),
}

const ONE: u128 = 1 << 64;

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self::Exact(0, 1);
    /// A whole CPU.
    pub const WHOLE: Self = Self::Exact(1, 1);

    /// `part / whole`; nothing if `whole` is zero, which is complained about elsewhere.
    pub fn of(part: Duration, whole: Duration) -> Self {
        match whole.as_nanos() {
            0 => Self::ZERO,
            whole => Self::reduced(u128::from(part.as_nanos()), u128::from(whole)),
        }
    }

    /// Percentage points as a share; nothing if they are negative.
    pub fn points(points: PercentagePoints) -> Self {
        // A millionth of a point is finer than anybody writes one.
        let millionths = (points.0.clamp(0.0, 100.0) * 1e6).round() as u128;
        Self::reduced(millionths, 100_000_000)
    }

    fn reduced(numerator: u128, denominator: u128) -> Self {
        let common = greatest_common_divisor(numerator, denominator).max(1);
        Self::Exact(numerator / common, denominator / common)
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        if let (Self::Exact(a, b), Self::Exact(c, d)) = (self, other) {
            let common = greatest_common_divisor(b, d).max(1);
            let sum = || {
                let left = a.checked_mul(d / common)?;
                let right = c.checked_mul(b / common)?;
                Some((left.checked_add(right)?, (b / common).checked_mul(d)?))
            };
            if let Some((numerator, denominator)) = sum() {
                return Self::reduced(numerator, denominator);
            }
        }
        Self::RoundedUp(self.parts().saturating_add(other.parts()))
    }

    /// That often.
    pub fn times(self, factor: u32) -> Self {
        match self {
            Self::Exact(a, b) => match a.checked_mul(u128::from(factor)) {
                Some(product) => Self::reduced(product, b),
                None => Self::RoundedUp(self.parts().saturating_mul(u128::from(factor))),
            },
            Self::RoundedUp(parts) => Self::RoundedUp(parts.saturating_mul(u128::from(factor))),
        }
    }

    fn parts(self) -> u128 {
        match self {
            Self::RoundedUp(parts) => parts,
            Self::Exact(a, b) => {
                let whole = (a / b).saturating_mul(ONE);
                let (mut rest, mut divisor) = (a % b, b);
                while rest >= ONE {
                    (rest, divisor) = (rest / 2 + 1, divisor / 2);
                }
                whole.saturating_add((rest * ONE).div_ceil(divisor.max(1)))
            }
        }
    }

    /// Whether this is more than `other`; of sums that were rounded, not less.
    pub fn exceeds(self, other: Self) -> bool {
        if let (Self::Exact(a, b), Self::Exact(c, d)) = (self, other)
            && let (Some(left), Some(right)) = (a.checked_mul(d), c.checked_mul(b))
        {
            return left > right;
        }
        self.parts() > other.parts()
    }

    /// In percent of a CPU, with as many digits as tell it from a whole one and from nothing.
    pub fn in_percent(self) -> String {
        let percent = match self {
            Self::Exact(a, b) => a as f64 / b as f64 * 100.0,
            Self::RoundedUp(parts) => parts as f64 / ONE as f64 * 100.0,
        };
        let is_whole = !self.exceeds(Self::WHOLE) && !Self::WHOLE.exceeds(self);
        let is_plain = is_whole || !self.exceeds(Self::ZERO);
        let tells = |digits: &usize| {
            let digits = *digits;
            let rounded = format!("{percent:.digits$}").parse();
            is_plain || (rounded != Ok(100.0) && rounded != Ok(0.0))
        };
        match (1..=9).find(tells) {
            Some(digits) => format!("{percent:.digits$}%"),
            None if percent < 1.0 => "just over 0%".into(),
            None if self.exceeds(Self::WHOLE) => "just over 100%".into(),
            None => "just under 100%".into(),
        }
    }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(part: u64, whole: u64) -> Share {
        Share::of(Duration::from_nanos(part), Duration::from_nanos(whole))
    }

    #[test]
    fn thirds_make_a_whole_and_no_more() {
        let sum = share(1, 3).plus(share(2, 3));
        assert!(!sum.exceeds(Share::WHOLE));
        assert!(sum.plus(share(1, u64::MAX)).exceeds(Share::WHOLE));
    }

    #[test]
    fn many_unlike_periods_are_summed_all_the_same() {
        // Primes just below 2^32: the common denominator does not fit.
        let primes = [
            4_294_967_291,
            4_294_967_279,
            4_294_967_231,
            4_294_967_197,
            4_294_967_189,
        ];
        let sum = |part: u64| {
            let each = primes.iter().map(|p| share(p / 5 + part, *p));
            each.fold(Share::ZERO, Share::plus)
        };
        assert!(matches!(sum(0), Share::RoundedUp(_)));
        assert!(!sum(0).exceeds(Share::WHOLE));
        assert!(sum(2).exceeds(Share::WHOLE));
    }

    proptest! {
        #[test]
        fn agrees_with_plain_fractions(
            parts in prop::collection::vec((1_u64..1000, 1_u64..1000), 1..4),
        ) {
            let sum = parts.iter().map(|(a, b)| share(*a, *b)).fold(Share::ZERO, Share::plus);
            let denominator: u128 = parts.iter().map(|(_, b)| u128::from(*b)).product();
            let numerator: u128 = parts
                .iter()
                .map(|(a, b)| u128::from(*a) * denominator / u128::from(*b))
                .sum();
            prop_assert_eq!(sum.exceeds(Share::WHOLE), numerator > denominator);
        }

        #[test]
        fn never_panics(
            parts in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..40),
        ) {
            let sum = parts
                .iter()
                .map(|(a, b, n)| share(*a, *b).times(*n))
                .fold(Share::ZERO, Share::plus);
            prop_assert!(sum.in_percent().ends_with('%'));
            let _ = sum.exceeds(Share::WHOLE);
        }
    }
}
