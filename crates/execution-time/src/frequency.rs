//! The frequency of a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A frequency in whole hertz, above zero.
///
/// As text: `1.2GHz`, `99.531MHz`, `32768Hz`. In JSON and CSV an integer of hertz, in a field whose name ends in `_hz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Frequency(u64);

/// Why a text or a number is no frequency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no frequency; write a decimal number of at least 1 Hz and at most 1000 GHz with a unit, such as \
     \"1.2GHz\" or \"800MHz\""
)]
pub struct ParseFrequencyError(String);

/// The highest frequency that is read: 1 THz.
const HIGHEST_HZ: u64 = 1_000_000_000_000;
/// The units, the longest first.
const UNITS: [(&str, u32); 4] = [("GHz", 9), ("MHz", 6), ("kHz", 3), ("Hz", 0)];

impl Frequency {
    /// A frequency of `hertz`, if that is at least 1 and at most 10^12.
    pub fn from_hertz(hertz: u64) -> Option<Self> {
        (1..=HIGHEST_HZ).contains(&hertz).then_some(Self(hertz))
    }

    /// Whole hertz.
    pub const fn as_hertz(self) -> u64 {
        self.0
    }

    /// Hertz for statistics.
    pub fn as_hertz_f64(self) -> f64 {
        self.0 as f64
    }
}

impl TryFrom<u64> for Frequency {
    type Error = ParseFrequencyError;

    fn try_from(hertz: u64) -> Result<Self, Self::Error> {
        Self::from_hertz(hertz).ok_or_else(|| ParseFrequencyError(format!("{hertz}Hz")))
    }
}

impl From<Frequency> for u64 {
    fn from(frequency: Frequency) -> Self {
        frequency.0
    }
}

impl FromStr for Frequency {
    type Err = ParseFrequencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let wrong = || ParseFrequencyError(trimmed.to_owned());
        let with_unit = UNITS.iter().find_map(|(unit, zeros)| {
            let number = trimmed.strip_suffix(unit)?.trim_end();
            Some((number, *zeros))
        });
        let (number, zeros) = with_unit.ok_or_else(wrong)?;
        hertz(number, zeros)
            .and_then(Self::from_hertz)
            .ok_or_else(wrong)
    }
}

/// A decimal number times a power of ten, if that is a whole number below the highest frequency.
fn hertz(number: &str, zeros: u32) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let part = part.trim_end_matches('0');
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > zeros as usize {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part_hertz = match part {
        "" => 0,
        part => part.parse::<u64>().ok()? * 10_u64.pow(zeros - part.len() as u32),
    };
    whole
        .checked_mul(10_u64.pow(zeros))?
        .checked_add(part_hertz)
}

impl fmt::Display for Frequency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = UNITS.iter().find(|(_, zeros)| self.0 >= 10_u64.pow(*zeros));
        let (unit, zeros) = fitting.copied().unwrap_or(("Hz", 0));
        let scale = 10_u64.pow(zeros);
        let part = format!("{:0width$}", self.0 % scale, width = zeros as usize);
        let part = if zeros == 0 {
            ""
        } else {
            part.trim_end_matches('0')
        };
        let point = if part.is_empty() { "" } else { "." };
        out.pad(&format!("{}{point}{part}{unit}", self.0 / scale))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn frequencies_are_exact_in_both_directions() {
        for (text, hertz) in [
            ("1.2GHz", 1_200_000_000),
            ("99.531MHz", 99_531_000),
            ("32.768kHz", 32_768),
            ("1Hz", 1),
            ("999Hz", 999),
            ("1000GHz", HIGHEST_HZ),
        ] {
            let frequency: Frequency = text.parse().unwrap();
            assert_eq!(frequency.as_hertz(), hertz, "{text}");
            assert_eq!(frequency.to_string(), text);
        }
        assert_eq!(
            "0800 MHz".parse::<Frequency>().unwrap().to_string(),
            "800MHz"
        );
    }

    #[test]
    fn other_texts_are_refused_with_a_remedy() {
        for text in [
            "",
            "1.2",
            "GHz",
            "0Hz",
            "-1GHz",
            "1e9Hz",
            "1.5Hz",
            "1001GHz",
            "99999999999999999999GHz",
            "1..2GHz",
            ".5GHz",
        ] {
            let error = text.parse::<Frequency>().unwrap_err().to_string();
            assert!(error.contains("such as \"1.2GHz\""), "{text}: {error}");
        }
    }
}
