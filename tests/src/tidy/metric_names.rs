//! The names of metrics: those in alert rules, the dashboard and the guide are names that the programs print, and the
//! guides explain each that they print.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::repository::TextFile;

/// The beginning of each name.
const PREFIX: &str = "tailbound_";
/// The endings that the format adds to the name of a counter or a histogram.
const ENDINGS: [&str; 4] = ["_total", "_bucket", "_count", "_sum"];

/// Finds names that no program prints in `readers`, and names that none of `guides` explains. `sources` are those that
/// make metrics; a name stands there as a whole literal, or at the beginning of a line of the format.
pub fn strangers(sources: &[TextFile], readers: &[TextFile], guides: &[TextFile]) -> Vec<Finding> {
    let printed: BTreeMap<&str, (&str, usize)> = sources
        .iter()
        .flat_map(|file| {
            let names = names(&file.text);
            let literals = names.filter(|(_, _, before)| matches!(before, '"' | ' '));
            literals.map(|(name, line, _)| (name, (file.path.as_str(), line)))
        })
        .collect();
    let mut findings = Vec::new();
    for file in readers {
        for (name, line, _) in names(&file.text) {
            if !printed.contains_key(bare(name)) && !printed.contains_key(name) {
                let message =
                    format!("no program prints the metric {name}; see `tailbound metrics`");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    let guides = guides.iter();
    let explained: BTreeSet<&str> = guides
        .flat_map(|file| names(&file.text))
        .map(|one| bare(one.0))
        .collect();
    for (name, (file, line)) in printed {
        if !explained.contains(bare(name)) {
            let message =
                format!("no guide explains the metric {name}; add it to docs/guides/observe.md");
            findings.push(Finding::new(file, line, message));
        }
    }
    findings
}

/// A name without what the format adds.
fn bare(name: &str) -> &str {
    let mut endings = ENDINGS.iter();
    let bare = endings.find_map(|ending| name.strip_suffix(ending));
    bare.unwrap_or(name)
}

/// The names in a text, each with its line and the letter before it.
fn names(text: &str) -> impl Iterator<Item = (&str, usize, char)> {
    let lines = text.lines().zip(1..);
    lines.flat_map(|(line, number)| {
        line.match_indices(PREFIX).filter_map(move |(start, _)| {
            let rest = &line[start..];
            let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            let length = rest
                .find(|letter| !is_of_name(letter))
                .unwrap_or(rest.len());
            let before = line[..start].chars().last().unwrap_or(' ');
            let is_whole = !before.is_ascii_alphanumeric() && before != '_';
            let is_crate = rest[length..].starts_with("::");
            (is_whole && !is_crate && length > PREFIX.len()).then_some((
                &rest[..length],
                number,
                before,
            ))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.into(),
            text: text.into(),
        }
    }

    fn messages(source: &str, reader: &str, guide: &str) -> Vec<String> {
        let findings = strangers(
            &[file("metrics.rs", source)],
            &[file("rules.yml", reader)],
            &[file("observe.md", guide)],
        );
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_printed_explained_and_asked_for_is_one() {
        let source = "const A: [&str; 2] = [\"tailbound_periods\", \"tailbound_up\"]; use tailbound_model::X;";
        let rules = "rate(tailbound_periods_total[5m]) > tailbound_up";
        let guide = "| `tailbound_periods_total{domain}`, `tailbound_up` |";
        assert_eq!(messages(source, rules, guide), [""; 0]);
        let missing = messages(source, "tailbound_perods_total", "`tailbound_up`");
        assert_eq!(
            missing,
            [
                "rules.yml:1: no program prints the metric tailbound_perods_total; see `tailbound metrics`",
                "metrics.rs:1: no guide explains the metric tailbound_periods; add it to docs/guides/observe.md",
            ]
        );
    }
}
