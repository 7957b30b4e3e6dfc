//! Keys of a description, written with dots, whose values are varied.

use super::place::PathStep;
use super::tree::{SpannedValue, TomlValue, Tree};

/// `MissingKey` says why a description has no value to vary at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The key, as far as the description does not have it.
    pub key: String,
    /// The key that would be right.
    pub remedy: String,
}

/// Refuses a key with dots unless the description `text` has a value there, or could have one: only the last
/// part of the key may be one that the file leaves out.
///
/// # Errors
/// There is no such value.
pub fn find_varied_key(text: &str, key: &str) -> Result<(), MissingKey> {
    Tree::parse(text).0.find_varied_key(key)
}

impl Tree {
    /// As [`find_varied_key`].
    pub(crate) fn find_varied_key(&self, key: &str) -> Result<(), MissingKey> {
        let mut here = &self.root;
        let parts: Vec<&str> = key.split('.').collect();
        for (depth, part) in parts.iter().enumerate() {
            let is_table = matches!(here.value, TomlValue::Table(_));
            match child(here, part) {
                Some(next) => here = next,
                None if depth + 1 == parts.len() && is_table => return Ok(()),
                None => {
                    let key = parts[..=depth].join(".");
                    let remedy = remedy(here, part, &parts[..depth].join("."));
                    return Err(MissingKey { key, remedy });
                }
            }
        }
        match here.value {
            TomlValue::Table(_) | TomlValue::Array(_) => Err(MissingKey {
                key: format!("value at {key}"),
                remedy: format!("it holds others; {}", names(here, key)),
            }),
            _ => Ok(()),
        }
    }
}

fn child<'a>(value: &'a SpannedValue, part: &str) -> Option<&'a SpannedValue> {
    match &value.value {
        TomlValue::Table(_) => value.entry(part),
        TomlValue::Array(_) => value.inner(&PathStep::Index(position(part)?)),
        _ => None,
    }
}

/// A position in an array. Each has one spelling, so that no key has two names.
fn position(part: &str) -> Option<usize> {
    let number: usize = part.parse().ok()?;
    (number.to_string() == part).then_some(number)
}

/// The key that could be meant by a part that is not there.
fn remedy(here: &SpannedValue, part: &str, before: &str) -> String {
    let near = |key: &&str| {
        let distance = strsim::damerau_levenshtein(key, part);
        (distance <= 1 + part.len() / 3).then_some(distance)
    };
    let keys = here.keys().into_iter();
    let nearest = keys.filter_map(|key| Some((near(&key)?, key))).min();
    match (nearest, before) {
        (Some((_, key)), "") => format!("did you mean {key}?"),
        (Some((_, key)), before) => format!("did you mean {before}.{key}?"),
        (None, _) => names(here, before),
    }
}

fn names(here: &SpannedValue, before: &str) -> String {
    let place = match before {
        "" => "the file",
        before => before,
    };
    match &here.value {
        TomlValue::Table(_) => format!("{place} has {}", here.keys().join(", ")),
        TomlValue::Array(elements) => {
            format!("{place} has {} elements, counted from 0", elements.len())
        }
        _ => format!("{place} is a value"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXT: &str = "seed = 1\n[hosts.local]\ncpus = [0, 1]\n[[slos]]\nlatency = \"1ms\"\n";

    #[test]
    fn values_and_keys_that_could_be_added_are_there() {
        for key in [
            "seed",
            "hosts.local.cpus.1",
            "slos.0.latency",
            "slos.0.other",
            "name",
        ] {
            assert_eq!(find_varied_key(TEXT, key), Ok(()), "{key}");
        }
    }

    #[test]
    fn other_keys_are_refused_with_a_remedy() {
        for (key, missing, remedy) in [
            ("host.local.x", "host", "did you mean hosts?"),
            (
                "hosts.locale.x",
                "hosts.locale",
                "did you mean hosts.local?",
            ),
            ("hosts.local", "value at hosts.local", "it holds others"),
            ("hosts.local.cpus.01", "hosts.local.cpus.01", "2 elements"),
            ("seed.x", "seed.x", "seed is a value"),
        ] {
            let error = find_varied_key(TEXT, key).unwrap_err();
            assert_eq!(error.key, missing);
            assert!(error.remedy.contains(remedy), "{}", error.remedy);
        }
    }
}
