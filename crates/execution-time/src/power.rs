//! The power of a platform at its set points: stated by the user, never guessed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::RecordingError;
use crate::frequency::Frequency;
use crate::run_table::{SetPoint, broken_line, whole};

/// The power of the whole platform at one set point, in milliwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    /// While the core works.
    pub busy_mw: u64,
    /// While the core waits for work, with the clocks as they are.
    pub idle_mw: u64,
}

/// A set point, with its power where that was stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPointPower {
    /// The clocks.
    pub set_point: SetPoint,
    /// The power.
    pub power: Option<Power>,
}

impl Power {
    /// The mean power in milliwatts of a core that works for the share `utilisation` of the time: the energy of each
    /// second. With arrivals from outside, the number of requests in a second does not depend on the set point, so that
    /// the set point with the least power needs the least energy for each of them, too.
    pub fn mean_mw(self, utilisation: f64) -> f64 {
        let share = utilisation.clamp(0.0, 1.0);
        share * self.busy_mw as f64 + (1.0 - share) * self.idle_mw as f64
    }
}

/// Reads the CSV of set points: a column for each clock, ending in `_hz`, and `busy_mw` and `idle_mw`.
///
/// # Errors
/// A line is no set point: the message names file, line and column.
pub fn read_set_points(file: &str, text: &str) -> Result<Vec<SetPointPower>, RecordingError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let broken = |error: csv::Error| broken_line(file, &error);
    let header = reader.headers().map_err(broken)?.clone();
    let mut powers = Vec::new();
    let mut present = BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let fields = header.iter().zip(record.iter());
        let power = set_point_power(file, fields).map_err(|error| error.at_line(line))?;
        if !present.insert(power.set_point.clone()) {
            let error = RecordingError::of_file(
                file,
                "this set point is there twice",
                "keep one line of it",
            );
            return Err(error.at_line(line));
        }
        powers.push(power);
    }
    if powers.is_empty() {
        return Err(RecordingError::of_file(
            file,
            "there is no set point",
            "write one a line below the header",
        ));
    }
    Ok(powers)
}

fn set_point_power<'a>(
    file: &str,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<SetPointPower, RecordingError> {
    let mut clocks: BTreeMap<String, Frequency> = BTreeMap::new();
    let (mut busy_mw, mut idle_mw) = (None, None);
    for (key, text) in fields {
        let number = whole(file, key, text)?;
        let wrong =
            |what: String, right: &str| RecordingError::of_file(file, what, right).of_key(key);
        match key {
            "busy_mw" => busy_mw = Some(number),
            "idle_mw" => idle_mw = Some(number),
            _ if key.ends_with("_hz") => {
                let frequency = Frequency::from_hertz(number).ok_or_else(|| {
                    wrong(
                        format!("{number} is no frequency"),
                        "write hertz, 1 to 10^12",
                    )
                })?;
                clocks.insert(key.to_owned(), frequency);
            }
            _ => {
                let right =
                    "the columns are those of clocks, which end in `_hz`, `busy_mw` and `idle_mw`";
                return Err(wrong("this column is unknown".into(), right));
            }
        }
    }
    let set_point = SetPoint::try_from(clocks).map_err(|what| {
        RecordingError::of_file(file, what, "write a column `cpu_hz`").of_key("cpu_hz")
    })?;
    let missing = |key: &str| {
        RecordingError::of_file(
            file,
            "the header lacks this column",
            "write milliwatts in it",
        )
        .of_key(key)
    };
    let power = Power {
        busy_mw: busy_mw.ok_or_else(|| missing("busy_mw"))?,
        idle_mw: idle_mw.ok_or_else(|| missing("idle_mw"))?,
    };
    if power.idle_mw > power.busy_mw {
        let what = format!(
            "{} mW idle are more than {} mW busy",
            power.idle_mw, power.busy_mw
        );
        return Err(
            RecordingError::of_file(file, what, "write the power of an idle core")
                .of_key("idle_mw"),
        );
    }
    Ok(SetPointPower {
        set_point,
        power: Some(power),
    })
}
