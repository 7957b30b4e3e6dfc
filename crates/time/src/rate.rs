//! Events per unit of time.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Duration;

/// How often something happens on average, in events per second; finite and above zero.
///
/// As text: `200/s`, `0.4/ms`, `12/min`. A rate is a statistic, so it is a float inside.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// Why a text or number is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRateError {
    /// The number is there, its unit is not.
    #[error("\"{0}\" has no unit; write \"{0}/s\", or another of /us, /ms, /s, /min")]
    UnitMissing(String),
    /// The unit is none of ours.
    #[error("unknown unit in \"{0}\"; use /us, /ms, /s or /min")]
    UnitUnknown(String),
    /// What stands before the unit is not a decimal number.
    #[error("\"{0}\" is not a rate; write a decimal number with a unit, such as \"200/s\"")]
    NotANumber(String),
    /// A rate is above zero and finite.
    #[error("\"{0}\" is not above zero; write a rate that is, such as \"200/s\"")]
    NotPositive(String),
}

impl Rate {
    /// `events` per second, if that is finite and above zero.
    pub fn per_second(events: f64) -> Option<Self> {
        (events.is_finite() && events > 0.0).then_some(Self(events))
    }

    /// Events per second.
    pub const fn as_per_second(self) -> f64 {
        self.0
    }

    /// The mean time between two events, to the nearest nanosecond.
    pub fn mean_gap(self) -> Duration {
        Duration::from_secs_f64_nearest(1.0 / self.0)
    }

    /// The mean number of events in `length`.
    pub fn expected_in(self, length: Duration) -> f64 {
        self.0 * length.as_secs_f64()
    }
}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let not_a_number = || ParseRateError::NotANumber(trimmed.into());
        let (number, unit) = match trimmed.split_once('/') {
            Some((number, unit)) => (number.trim(), unit.trim()),
            None if trimmed.parse::<f64>().is_ok() => {
                return Err(ParseRateError::UnitMissing(trimmed.into()));
            }
            None => return Err(not_a_number()),
        };
        let plain = number
            .bytes()
            .all(|b| b.is_ascii_digit() || b"._-".contains(&b));
        if !plain {
            return Err(not_a_number());
        }
        let number: f64 = number
            .replace('_', "")
            .parse()
            .map_err(|_| not_a_number())?;
        let seconds = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            _ => return Err(ParseRateError::UnitUnknown(trimmed.into())),
        };
        Self::per_second(number / seconds).ok_or(ParseRateError::NotPositive(trimmed.into()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{}/s", self.0))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl serde::de::Visitor<'_> for RateVisitor {
    type Value = Rate;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a rate with a unit, such as \"200/s\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Rate, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Rate, E> {
        Err(E::custom(ParseRateError::UnitMissing(number.to_string())))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Rate, E> {
        Err(E::custom(ParseRateError::UnitMissing(number.to_string())))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Rate, E> {
        Err(E::custom(ParseRateError::UnitMissing(number.to_string())))
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A rate: a decimal number above zero with a unit (/us, /ms, /s, /min).",
            "pattern": r"^\s*[0-9_]+(\.[0-9_]+)?\s*/\s*(us|µs|ms|s|min)\s*$",
            "examples": ["200/s", "0.4/ms"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_units() {
        for (text, per_second) in [("200/s", 200.0), ("0.4/ms", 400.0), ("60/min", 1.0)] {
            assert_eq!(
                text.parse::<Rate>().map(Rate::as_per_second),
                Ok(per_second),
                "{text}"
            );
        }
    }

    #[test]
    fn says_what_is_wrong() {
        use ParseRateError as E;
        assert_eq!("200".parse::<Rate>(), Err(E::UnitMissing("200".into())));
        assert_eq!("200/h".parse::<Rate>(), Err(E::UnitUnknown("200/h".into())));
        assert_eq!("0/s".parse::<Rate>(), Err(E::NotPositive("0/s".into())));
        assert_eq!("-1/s".parse::<Rate>(), Err(E::NotPositive("-1/s".into())));
        assert_eq!("inf/s".parse::<Rate>(), Err(E::NotANumber("inf/s".into())));
        assert_eq!("fast".parse::<Rate>(), Err(E::NotANumber("fast".into())));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _outcome = text.parse::<Rate>();
        }

        #[test]
        fn text_round_trips(events in 1e-3_f64..1e9) {
            let rate = Rate::per_second(events).ok_or(TestCaseError::reject("no rate"))?;
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
