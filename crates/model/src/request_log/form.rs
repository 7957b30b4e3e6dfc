//! The forms of lines in access logs.

use std::fmt;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value};
use tailbound_time::Duration;

use super::LoggedRequest;

/// `Form` is a form of an access log.
#[derive(Debug)]
pub(super) struct Form {
    /// The program that writes it.
    program: &'static str,
    instant: (&'static str, InstantForm),
    /// The key of the duration, and its unit in nanoseconds.
    duration: (&'static str, u64),
    /// As of a log.
    pub resolution: Duration,
}

/// `InstantForm` is what a line tells of when a request was there.
#[derive(Clone, Copy, Debug)]
enum InstantForm {
    /// The end, in seconds since the epoch of Unix.
    EndInSeconds,
    /// The begin, as RFC 3339 has it.
    Start,
}

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The forms that are known. Where begin and duration are both cut off to a unit, the end may be two units late.
pub(super) const FORMS: [Form; 4] = [
    Form {
        program: "nginx",
        instant: ("msec", InstantForm::EndInSeconds),
        duration: ("request_time", SECOND),
        resolution: Duration::from_millis(1),
    },
    Form {
        program: "Caddy",
        instant: ("ts", InstantForm::EndInSeconds),
        duration: ("duration", SECOND),
        // Of a number of JSON, as large as today's.
        resolution: Duration::from_micros(1),
    },
    Form {
        program: "Traefik",
        instant: ("StartUTC", InstantForm::Start),
        duration: ("Duration", 1),
        resolution: Duration::ZERO,
    },
    Form {
        program: "Envoy",
        instant: ("start_time", InstantForm::Start),
        duration: ("duration", MILLISECOND),
        resolution: Duration::from_millis(2),
    },
];

impl fmt::Display for Form {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instant, duration) = (self.instant.0, self.duration.0);
        write!(out, "{} ({instant}, {duration})", self.program)
    }
}

/// `ReadError` says why a line has no request.
#[derive(Debug)]
pub(super) struct ReadError {
    pub message: String,
    pub remedy: String,
}

/// `Fields` are the fields of a line.
pub(super) enum Fields<'a> {
    Json(Map<String, Value>),
    Text(&'a str),
}

impl<'a> Fields<'a> {
    /// The fields of a line; of JSON where it begins as an object does.
    pub fn of(line: &'a str) -> Result<Self, String> {
        if !line.starts_with('{') {
            return Ok(Self::Text(line));
        }
        let map = serde_json::from_str(line);
        map.map(Self::Json)
            .map_err(|error| format!("this is no JSON: {error}"))
    }

    /// The value of a key as text, if it is a text or a number.
    fn value(&self, key: &str) -> Option<String> {
        match self {
            Self::Json(map) => match map.get(key)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            },
            Self::Text(line) => {
                // Between blanks only, since whoever asks chooses what else is in an address.
                let mut pairs = line
                    .split_whitespace()
                    .filter_map(|word| word.split_once('='));
                let (_, value) = pairs.find(|(name, _)| *name == key)?;
                Some(value.trim_matches(['"', ',', ';']).to_owned())
            }
        }
    }
}

impl Form {
    /// Whether a line has both keys.
    pub fn is_of(&self, fields: &Fields<'_>) -> bool {
        fields.value(self.instant.0).is_some() && fields.value(self.duration.0).is_some()
    }

    /// The request of a line.
    pub fn request(&self, fields: &Fields<'_>) -> Result<LoggedRequest, ReadError> {
        let (instant_key, kind) = self.instant;
        let (duration_key, unit) = self.duration;
        let value = |key: &str| {
            fields.value(key).ok_or_else(|| ReadError {
                message: format!("the line has no {key}, which those before it have"),
                remedy: format!("each line of the form of {self} has both"),
            })
        };
        let no_time = |key: &str, text: &str, example: &str| ReadError {
            message: format!("{key} is {text:?}, which is no time"),
            remedy: format!("as {} writes it: {example}", self.program),
        };
        let (instant, duration) = (value(instant_key)?, value(duration_key)?);
        let length = nanoseconds(&duration, unit)
            .ok_or_else(|| no_time(duration_key, &duration, "a number, zero or more"))?;
        let ends = match kind {
            InstantForm::EndInSeconds => nanoseconds(&instant, SECOND)
                .and_then(|end| Some((end.checked_sub(length)?, end)))
                .ok_or_else(|| no_time(instant_key, &instant, "seconds such as 1700000000.123")),
            InstantForm::Start => since_epoch(&instant)
                .and_then(|start| Some((start, start.checked_add(length)?)))
                .ok_or_else(|| no_time(instant_key, &instant, "2026-04-15T20:17:00.310Z")),
        };
        let (start, end) = ends?;
        Ok(LoggedRequest {
            start: Duration::from_nanos(start),
            end: Duration::from_nanos(end),
        })
    }
}

/// The nanoseconds of a decimal number of units, cut off to whole ones; `None` of what is none, is negative, or is too much.
pub(super) fn nanoseconds(text: &str, unit: u64) -> Option<u64> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_plain {
        // A number with an exponent, as JSON writes short times.
        let value = text.parse::<f64>().ok()? * unit as f64;
        return (0.0..1e18).contains(&value).then_some(value as u64);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let digits = fraction.get(..fraction.len().min(18))?;
    let fraction = match digits {
        "" => 0,
        digits => {
            let parts = u128::from(digits.parse::<u64>().ok()?) * u128::from(unit);
            u64::try_from(parts / 10_u128.pow(digits.len() as u32)).ok()?
        }
    };
    whole.checked_mul(unit)?.checked_add(fraction)
}

/// The nanoseconds from the epoch of Unix to an instant of RFC 3339.
fn since_epoch(text: &str) -> Option<u64> {
    let instant = humantime::parse_rfc3339(text).ok()?;
    let since = instant.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
