//! A length of time in integer nanoseconds.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A non-negative length of time, in integer nanoseconds (up to 584 years).
///
/// As text it is a number with a unit, `5ms` or `1.5s`; a bare number is an error everywhere.
/// Arithmetic operators panic on overflow, as integers do in debug builds; the `checked_` and
/// `saturating_` methods are there where input decides the operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// Units that the parser takes, with their nanoseconds; the first of a length is the one printed.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest length that can be told.
    pub const MAX: Self = Self(u64::MAX);

    /// A length of `nanoseconds`.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// A length of `microseconds`.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds * 1_000)
    }

    /// A length of `milliseconds`.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds * 1_000_000)
    }

    /// A length of `seconds`.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// The length nearest to `seconds`; negative and non-numbers become zero, too large ones
    /// [`Duration::MAX`]. For statistics only: a float never decides a verdict.
    pub fn from_secs_f64_nearest(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// The count of nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds as a float, for statistics and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds as a float, for statistics and plots.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Microseconds as a float, for statistics and plots.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Whether the length is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` where it overflows.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` where `other` is longer.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// The product, or `None` where it overflows.
    pub const fn checked_mul(self, factor: u64) -> Option<Self> {
        match self.0.checked_mul(factor) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }

    /// The difference, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum, or [`Duration::MAX`] where it overflows.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The length times `numerator / denominator`, rounded down; saturates.
    ///
    /// # Panics
    /// Where `denominator` is zero.
    pub fn scaled_down(self, numerator: u64, denominator: u64) -> Self {
        let exact = u128::from(self.0) * u128::from(numerator) / u128::from(denominator);
        Self(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// The length times `numerator / denominator`, rounded up; saturates.
    ///
    /// # Panics
    /// Where `denominator` is zero.
    pub fn scaled_up(self, numerator: u64, denominator: u64) -> Self {
        let exact = (u128::from(self.0) * u128::from(numerator)).div_ceil(u128::from(denominator));
        Self(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// The text is empty.
    #[error("empty duration; write a number with a unit, such as \"5ms\"")]
    Empty,
    /// The number is there, its unit is not.
    #[error("\"{0}\" has no unit; write \"{0}ms\", or another of ns, us, ms, s, min")]
    UnitMissing(String),
    /// The unit is none of ours.
    #[error("unknown unit \"{unit}\" in \"{text}\"; use ns, us, ms, s or min")]
    UnitUnknown {
        /// The whole text.
        text: String,
        /// What stands where the unit should.
        unit: String,
    },
    /// What stands before the unit is not a decimal number.
    #[error("\"{0}\" is not a duration; write a decimal number with a unit, such as \"1.5s\"")]
    NotANumber(String),
    /// Durations are never negative.
    #[error("\"{0}\" is negative; a duration is zero or more")]
    Negative(String),
    /// Finer than a nanosecond.
    #[error("\"{0}\" is finer than a nanosecond; write a whole number of nanoseconds")]
    TooFine(String),
    /// More than 2^64 nanoseconds.
    #[error("\"{0}\" is longer than 584 years; write a shorter duration")]
    TooLong(String),
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(ParseDurationError::Empty);
        }
        if trimmed.starts_with('-') {
            return Err(ParseDurationError::Negative(trimmed.into()));
        }
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        if number.is_empty() {
            return Err(ParseDurationError::NotANumber(trimmed.into()));
        }
        if unit.is_empty() {
            return Err(ParseDurationError::UnitMissing(trimmed.into()));
        }
        let factor = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(|| ParseDurationError::UnitUnknown {
                text: trimmed.into(),
                unit: unit.into(),
            })?;
        decimal_times(number, factor, trimmed).map(Self)
    }
}

/// The decimal `number` times `factor`, exactly, or why that cannot be.
fn decimal_times(number: &str, factor: u64, text: &str) -> Result<u64, ParseDurationError> {
    let not_a_number = || ParseDurationError::NotANumber(text.into());
    let too_long = || ParseDurationError::TooLong(text.into());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| -> Result<String, ParseDurationError> {
        let kept: String = part.chars().filter(|c| *c != '_').collect();
        let good = !kept.is_empty() && kept.bytes().all(|b| b.is_ascii_digit());
        if good { Ok(kept) } else { Err(not_a_number()) }
    };
    let whole: u64 = digits(whole)?.parse().map_err(|_| too_long())?;
    let fraction = digits(fraction)?;
    let fraction = fraction.trim_end_matches('0');
    let base = whole.checked_mul(factor).ok_or_else(too_long)?;
    if fraction.is_empty() {
        return Ok(base);
    }
    if fraction.len() > 18 {
        return Err(ParseDurationError::TooFine(text.into()));
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let part: u128 = fraction.parse::<u128>().map_err(|_| not_a_number())? * u128::from(factor);
    if !part.is_multiple_of(scale) {
        return Err(ParseDurationError::TooFine(text.into()));
    }
    let part = u64::try_from(part / scale).map_err(|_| too_long())?;
    base.checked_add(part).ok_or_else(too_long)
}

impl fmt::Display for Duration {
    /// The shortest exact text: `5ms`, `1.5s`, `250us`, `0ns`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = match self.0 {
            0..=999 => ("ns", 1_u64),
            1_000..=999_999 => ("us", 1_000),
            1_000_000..=999_999_999 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let (whole, rest) = (self.0 / factor, self.0 % factor);
        let width = factor.ilog10() as usize;
        let text = if rest == 0 {
            format!("{whole}{unit}")
        } else {
            let fraction = format!("{rest:0width$}");
            format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
        };
        out.pad(&text)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl serde::de::Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a duration with a unit, such as \"5ms\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Duration, E> {
        Err(E::custom(ParseDurationError::UnitMissing(
            number.to_string(),
        )))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Duration, E> {
        Err(E::custom(ParseDurationError::UnitMissing(
            number.to_string(),
        )))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Duration, E> {
        Err(E::custom(ParseDurationError::UnitMissing(
            number.to_string(),
        )))
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration: a decimal number with a unit (ns, us, ms, s, min).",
            "pattern": r"^\s*[0-9_]+(\.[0-9_]+)?\s*(ns|us|µs|ms|s|min)\s*$",
            "examples": ["5ms", "1.5s", "250us"],
        })
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    /// Rounds down.
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Div for Duration {
    type Output = u64;
    /// How many whole times `other` fits.
    fn div(self, other: Self) -> u64 {
        self.0 / other.0
    }
}

impl Rem for Duration {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self(self.0 % other.0)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(lengths: I) -> Self {
        lengths.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_every_unit_exactly() {
        let cases = [
            ("5ms", 5_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
            ("2min", 120_000_000_000),
            (" 1_000 us ", 1_000_000),
            ("0.000001ms", 1),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(
                text.parse(),
                Ok(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn says_what_is_wrong() {
        use ParseDurationError as E;
        assert_eq!("".parse::<Duration>(), Err(E::Empty));
        assert_eq!("5".parse::<Duration>(), Err(E::UnitMissing("5".into())));
        assert_eq!("-5ms".parse::<Duration>(), Err(E::Negative("-5ms".into())));
        assert_eq!("0.5ns".parse::<Duration>(), Err(E::TooFine("0.5ns".into())));
        assert!("1e9s".parse::<Duration>().is_err());
        assert_eq!(
            "99999999999s".parse::<Duration>(),
            Err(E::TooLong("99999999999s".into()))
        );
        assert_eq!(
            "1.2.3s".parse::<Duration>(),
            Err(E::NotANumber("1.2.3s".into()))
        );
        let unknown = E::UnitUnknown {
            text: "5h".into(),
            unit: "h".into(),
        };
        assert_eq!("5h".parse::<Duration>(), Err(unknown));
    }

    #[test]
    fn scaling_rounds_as_named() {
        let ten = Duration::from_nanos(10);
        assert_eq!(ten.scaled_down(1, 3), Duration::from_nanos(3));
        assert_eq!(ten.scaled_up(1, 3), Duration::from_nanos(4));
    }

    proptest! {
        #[test]
        fn text_round_trips(nanoseconds: u64) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _outcome = text.parse::<Duration>();
        }

        #[test]
        fn near_miss_never_panics(text in "[-0-9._]{0,30}(ns|us|ms|s|min|h)?") {
            let _outcome = text.parse::<Duration>();
        }
    }
}
