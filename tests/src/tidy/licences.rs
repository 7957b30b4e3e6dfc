//! Whether the licences of everything that we link are on the list of `deny.toml`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Finding;

/// The licences that `deny.toml` allows, so that there is one list.
pub fn allowed(deny_toml: &str) -> BTreeSet<String> {
    let table: toml::Table = deny_toml.parse().expect("deny.toml is TOML");
    table["licenses"]["allow"]
        .as_array()
        .expect("deny.toml lists what it allows")
        .iter()
        .filter_map(toml::Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Finds packages in the output of `cargo metadata` whose licence is not allowed.
pub fn unlisted_licences(metadata: &Value, allowed: &BTreeSet<String>) -> Vec<Finding> {
    let packages = metadata["packages"]
        .as_array()
        .expect("metadata lists packages");
    packages
        .iter()
        .filter_map(|package| {
            let name = package["name"].as_str().unwrap_or("?");
            let problem = match package["license"].as_str() {
                None => "states no licence".to_owned(),
                Some(expression) if permits(expression, allowed) => return None,
                Some(expression) => {
                    format!("is under {expression}, which deny.toml does not allow")
                }
            };
            Some(Finding::new("Cargo.lock", 1, format!("{name} {problem}")))
        })
        .collect()
}

/// Whether a licence expression (SPDX, with the older `/` for OR) can be met with what is allowed.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut place = 0;
    let verdict = any_of(&words, &mut place, allowed);
    verdict == Some(true) && place == words.len()
}

/// Alternatives; `None` if the expression is malformed.
fn any_of(words: &[&str], place: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut verdict = all_of(words, place, allowed)?;
    while words.get(*place) == Some(&"OR") {
        *place += 1;
        verdict |= all_of(words, place, allowed)?;
    }
    Some(verdict)
}

fn all_of(words: &[&str], place: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut verdict = single(words, place, allowed)?;
    while words.get(*place) == Some(&"AND") {
        *place += 1;
        verdict &= single(words, place, allowed)?;
    }
    Some(verdict)
}

fn single(words: &[&str], place: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let word = *words.get(*place)?;
    *place += 1;
    if word == "(" {
        let verdict = any_of(words, place, allowed)?;
        let closed = words.get(*place) == Some(&")");
        *place += 1;
        return closed.then_some(verdict);
    }
    if words.get(*place) != Some(&"WITH") {
        return Some(allowed.contains(word));
    }
    let exception = *words.get(*place + 1)?;
    *place += 2;
    // An exception only adds permissions.
    Some(allowed.contains(word) || allowed.contains(&format!("{word} WITH {exception}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> BTreeSet<String> {
        allowed("[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Unicode-3.0\"]\n")
    }

    #[test]
    fn expressions_are_read_as_they_are_meant() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "Unlicense/MIT",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(permits(good, &list()), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "",
            "MIT OR",
            "MIT MIT",
            "(MIT",
        ] {
            assert!(!permits(bad, &list()), "{bad}");
        }
    }

    #[test]
    fn packages_without_an_allowed_licence_are_found() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "fine", "license": "MIT" },
            { "name": "viral", "license": "AGPL-3.0-only" },
            { "name": "silent", "license": null },
        ]});
        let findings = unlisted_licences(&metadata, &list());
        assert_eq!(findings.len(), 2, "{findings:?}");
    }
}
