//! Durations in machine output: integers of nanoseconds, in fields whose names end in `_ns`.
//!
//! For `#[serde(with = "tailbound_time::nanoseconds")]`; [`optional`] and [`sorted`] are
//! the same for an `Option` and for a list that is kept in ascending order.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Duration;

/// Writes a duration as an integer.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(value.as_nanos())
}

/// Reads a duration from an integer.
///
/// # Errors
/// Those of the deserializer, as for anything that is no integer.
pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    u64::deserialize(input).map(Duration::from_nanos)
}

/// The same for an optional duration.
pub mod optional {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    /// Writes an integer or nothing.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
        value.map(Duration::as_nanos).serialize(out)
    }

    /// Reads an integer or nothing.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(input)?.map(Duration::from_nanos))
    }
}

/// The same for a list in ascending order; sorted when read.
pub mod sorted {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    /// Writes a list of integers.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(values: &[Duration], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(values.iter().map(|value| value.as_nanos()))
    }

    /// Reads a list of integers, in any order.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Duration>, D::Error> {
        let mut values: Vec<Duration> = Vec::<u64>::deserialize(input)?
            .into_iter()
            .map(Duration::from_nanos)
            .collect();
        values.sort_unstable();
        Ok(values)
    }
}
