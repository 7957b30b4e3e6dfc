//! The isolation of the programs of a domain in space: what they see, whom they reach, and how much memory they have.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The isolation of the programs that `tailbound run` starts in a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Isolation {
    /// The namespaces that each program has for itself; all four if left out.
    #[serde(default = "all_namespaces")]
    pub namespaces: BTreeSet<IsolatedNamespace>,
    /// The most memory that the programs of the domain use together, with what they keep in `/tmp` and `/dev/shm`. One
    /// that needs more is killed by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<MemorySize>,
}

/// A namespace that a program has for itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum IsolatedNamespace {
    /// Mounts, with an empty `/tmp`, `/var/tmp` and `/dev/shm`. The folders of the description and of the results stay
    /// where they are.
    Mount,
    /// Processes: it neither sees nor signals those outside of it. It needs `mount`, for `/proc`.
    Pid,
    /// Shared memory, semaphores and message queues of System V and POSIX.
    Ipc,
    /// Network interfaces, of which there is the loopback alone, and Unix sockets without a path.
    Network,
}

impl IsolatedNamespace {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mount, Self::Pid, Self::Ipc, Self::Network];

    /// The word of a description.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Ipc => "ipc",
            Self::Network => "network",
        }
    }
}

fn all_namespaces() -> BTreeSet<IsolatedNamespace> {
    IsolatedNamespace::ALL.into()
}

impl Isolation {
    /// Whether programs have a namespace for themselves.
    pub fn has(&self, namespace: IsolatedNamespace) -> bool {
        self.namespaces.contains(&namespace)
    }
}

/// A size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySize {
    bytes: u64,
}

/// The units, the largest first.
const UNITS: [(&str, u32); 4] = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl MemorySize {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Its bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// A text that is no size of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a size of memory; write a whole number with a unit (B, KiB, MiB, GiB), such as \"64MiB\""
)]
pub struct MemorySizeError(String);

impl FromStr for MemorySize {
    type Err = MemorySizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || MemorySizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let (number, unit) = trimmed.split_at(trimmed.len() - digits.len());
        let number: u64 = number.parse().map_err(|_| refused())?;
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let (_, shift) = unit.ok_or_else(refused)?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(refused)?;
        Ok(Self { bytes })
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |shift: u32| self.bytes.trailing_zeros() >= shift && self.bytes > 0;
        let unit = UNITS.iter().find(|(_, shift)| divides(*shift));
        let (name, shift) = unit.copied().unwrap_or(("B", 0));
        write!(formatter, "{}{name}", self.bytes >> shift)
    }
}

impl Serialize for MemorySize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemorySize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for MemorySize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MemorySize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A size of memory: a whole number with a unit (B, KiB, MiB, GiB).",
            "pattern": r"^\s*[0-9]+\s*(B|KiB|MiB|GiB)\s*$",
            "examples": ["64MiB", "1GiB"],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit() {
        let bytes = |text: &str| text.parse::<MemorySize>().map(MemorySize::bytes);
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes(" 3 KiB "), Ok(3 << 10));
        assert_eq!(bytes("7B"), Ok(7));
        for text in ["", "64", "MiB", "-1B", "1.5GiB", "1MB", "99999999999GiB"] {
            let error = bytes(text).unwrap_err();
            assert!(error.to_string().contains("64MiB"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_size_is_written_as_it_is_read(bytes in any::<u64>(), shift in 0_u32..40) {
            let size = MemorySize::from_bytes(bytes >> shift << shift);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn no_text_is_beyond_the_parser(text in ".*") {
            let _size_or_error = text.parse::<MemorySize>();
        }
    }
}
