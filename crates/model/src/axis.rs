//! A key that is varied, and its values.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The most values of one axis.
const MOST_VALUES: u128 = 100_000;

/// `AxisError` says why a text varies nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} varies nothing: {what}; write KEY=V1,V2 or KEY=START..END/STEP")]
pub struct AxisError {
    /// The text.
    pub text: String,
    /// The part of it that is wrong.
    pub what: String,
}

/// A key of the description and the values that it takes, as a file spells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The key with dots, such as `domains.cache.reservation.budget`.
    pub key: String,
    /// The values; at least one.
    pub values: Vec<String>,
}

impl Axis {
    /// The axis of these values, each as a file spells it.
    ///
    /// # Errors
    /// A part of the key or a value is empty, or there is none.
    pub fn of(key: String, values: Vec<String>) -> Result<Self, AxisError> {
        let what = if key.split('.').any(str::is_empty) {
            "the key is empty somewhere"
        } else if values.is_empty() {
            "there is no value"
        } else if values.iter().any(String::is_empty) {
            "a value is empty"
        } else {
            return Ok(Self { key, values });
        };
        let text = format!("{key}={}", values.join(","));
        let what = what.to_owned();
        Err(AxisError { text, what })
    }
}

impl FromStr for Axis {
    type Err = AxisError;

    /// Reads `KEY=V1,V2` or `KEY=START..END/STEP`, of times with units or of plain decimal numbers;
    /// the end is a value if the steps meet it. The arithmetic is exact.
    fn from_str(text: &str) -> Result<Self, AxisError> {
        let wrong = |what: &str| AxisError {
            text: text.into(),
            what: what.into(),
        };
        let (key, values) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        let (key, values) = (key.trim(), values.trim());
        let values = match values.split_once("..") {
            Some((start, rest)) => {
                let (end, step) = rest
                    .split_once('/')
                    .ok_or_else(|| wrong("the range has no step"))?;
                range(start, end, step).map_err(|what| wrong(&what))?
            }
            None => values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect(),
        };
        Self::of(key.into(), values)
    }
}

fn range(start: &str, end: &str, step: &str) -> Result<Vec<String>, String> {
    let as_times: Vec<Duration> = [start, end, step]
        .iter()
        .flat_map(|text| text.parse())
        .collect();
    if let [start, end, step] = as_times[..] {
        let ends = [start, end, step].map(|time| i128::from(time.as_nanos()));
        let values = steps(ends)?.into_iter();
        let time = |nanoseconds| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        return Ok(values.map(|value| time(value).to_string()).collect());
    }
    let places = [start, end, step].map(|text| text.split_once('.').map_or(0, |(_, f)| f.len()));
    let places = places.into_iter().max().unwrap_or(0);
    let scaled = |text: &str| {
        decimal(text, places).ok_or_else(|| {
            format!("{text:?} is neither a time nor a decimal number like the others")
        })
    };
    let values = steps([scaled(start)?, scaled(end)?, scaled(step)?])?;
    Ok(values
        .into_iter()
        .map(|value| spelled(value, places))
        .collect())
}

/// From the first to the second by the third.
fn steps([start, end, step]: [i128; 3]) -> Result<Vec<i128>, String> {
    if step <= 0 || end < start {
        return Err("a range goes upwards, by a step above zero".into());
    }
    let count = (end - start) as u128 / step as u128 + 1;
    if count > MOST_VALUES {
        return Err(format!(
            "the range has {count} values, more than {MOST_VALUES}"
        ));
    }
    Ok((0..count as i128)
        .map(|index| start + index * step)
        .collect())
}

/// A decimal number in units of its last place.
fn decimal(text: &str, places: usize) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let short = whole.len() + places <= 18;
    if whole.is_empty() || !plain(whole) || !plain(fraction) || !short {
        return None;
    }
    let number: i128 = format!("{whole}{fraction:0<places$}").parse().ok()?;
    Some(if negative { -number } else { number })
}

fn spelled(value: i128, places: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let unit = 10_i128.pow(places as u32);
    let (whole, fraction) = (value.abs() / unit, value.abs() % unit);
    match places {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction:0places$}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Axis>().unwrap().values
    }

    #[test]
    fn lists_and_ranges_are_exact() {
        assert_eq!(values("a.b=1ms, 2ms"), ["1ms", "2ms"]);
        assert_eq!(values("a=1ms..2ms/500us"), ["1ms", "1.5ms", "2ms"]);
        assert_eq!(values("a=1ms..1.9ms/500us"), ["1ms", "1.5ms"]);
        assert_eq!(values("a=0.1..0.5/0.2"), ["0.1", "0.3", "0.5"]);
        assert_eq!(values("a=-1..1/1"), ["-1", "0", "1"]);
        assert_eq!(values("a=-0.5..0.5/0.50"), ["-0.50", "0.00", "0.50"]);
    }

    #[test]
    fn what_varies_nothing_is_refused() {
        for (text, words) in [
            ("a", "no ="),
            ("=1", "the key is empty"),
            ("a..b=1", "the key is empty"),
            ("a=1,,2", "a value is empty"),
            ("a=", "a value is empty"),
            ("a=1ms..2ms", "no step"),
            ("a=2ms..1ms/1ms", "upwards"),
            ("a=1..2/0", "upwards"),
            ("a=1ms..2/1", "neither"),
            ("a=0s..1s/1ns", "more than"),
        ] {
            let error = text.parse::<Axis>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fall_over(text in "[a-z=.,/0-9ms -]{0,40}") {
            if let Ok(axis) = text.parse::<Axis>() {
                prop_assert!(!axis.key.is_empty() && !axis.values.is_empty());
            }
        }
    }
}
