//! From a description to its file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::description::Description;
use crate::host::HostOverheads;
use crate::interference::Interference;

/// Why a description cannot be written as a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWritable {
    /// TOML's integers end at 2^63 - 1.
    #[error("the seed {0} does not fit TOML; use one below 2^63")]
    SeedTooLarge(u64),
    /// Something else does not fit TOML.
    #[error("the description cannot be written as TOML: {0}")]
    NotToml(String),
}

/// The description as a file that [`crate::parse`] reads back as the same description.
///
/// # Errors
/// If a number does not fit TOML, such as a seed of 2^63 or more.
pub fn to_toml(description: &Description) -> Result<String, NotWritable> {
    if i64::try_from(description.seed).is_err() {
        return Err(NotWritable::SeedTooLarge(description.seed));
    }
    toml::to_string(description).map_err(|error| NotWritable::NotToml(error.to_string()))
}

/// The table `[hosts.NAME.overheads]` alone, to be put into a description of that host.
///
/// # Errors
/// None that a caller could cause; the writer's own.
pub fn overheads_to_toml(host: &str, overheads: &HostOverheads) -> Result<String, NotWritable> {
    #[derive(Serialize)]
    struct OverheadsPart<'a> {
        hosts: BTreeMap<&'a str, HostPart<'a>>,
    }
    #[derive(Serialize)]
    struct HostPart<'a> {
        overheads: &'a HostOverheads,
    }
    let part = OverheadsPart {
        hosts: [(host, HostPart { overheads })].into(),
    };
    toml::to_string(&part).map_err(|error| NotWritable::NotToml(error.to_string()))
}

/// The tables `[[hosts.NAME.interference]]` alone, to be put into a description of that host.
///
/// # Errors
/// None that a caller could cause; the writer's own.
pub fn interference_to_toml(host: &str, sources: &[Interference]) -> Result<String, NotWritable> {
    #[derive(Serialize)]
    struct InterferencePart<'a> {
        hosts: BTreeMap<&'a str, SourcesPart<'a>>,
    }
    #[derive(Serialize)]
    struct SourcesPart<'a> {
        interference: &'a [Interference],
    }
    let sources = SourcesPart {
        interference: sources,
    };
    let part = InterferencePart {
        hosts: [(host, sources)].into(),
    };
    toml::to_string(&part).map_err(|error| NotWritable::NotToml(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_time::Duration;

    use super::*;
    use crate::host::HostTick;

    #[test]
    fn overheads_can_be_pasted_into_a_description() {
        let overheads = HostOverheads {
            context_switch: Duration::from_nanos(1_234),
            scheduler_invocation: Duration::from_nanos(567),
            migration: Duration::from_micros(12),
            interrupt: Duration::ZERO,
            window_switch: Duration::from_nanos(150_001),
            tick: Some(HostTick {
                period: Duration::from_millis(4),
                cost: Duration::from_nanos(2_001),
            }),
        };
        let description = "schema_version = 1\nname = \"one\"\n\n[hosts.local]\ncpus = [0]\n\n\
                           [domains.box]\nkind = \"process\"\ncpus = [0]\nbuiltin = \"cpu-hog\"\n\n";
        let whole = description.to_string() + &overheads_to_toml("local", &overheads).unwrap();
        let read = crate::check(&whole, "pasted.toml");
        assert!(read.problems.is_empty(), "{}", read.problems);
        let host = &read.description.unwrap().hosts["local"];
        assert_eq!(host.overheads, overheads);
    }
}
