//! Decimal figures with a unit in the prose of a document, and where they come from.

use crate::markdown;

/// The units of figures.
const UNITS: [&str; 5] = ["ns", "us", "ms", "s", "%"];

/// A decimal figure in prose, such as 43.3 of "43.3%".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its line, from 1.
    pub line: usize,
    /// Its digits.
    pub digits: String,
}

/// The figures of a document outside fenced blocks and code spans.
pub fn figures(document: &str) -> Vec<Figure> {
    let lines = markdown::prose(document).into_iter();
    lines
        .flat_map(|(line, text)| {
            let text = split_code(text).0;
            let decimals =
                numbers(&text).filter(|(digits, rest)| digits.contains('.') && has_unit(rest));
            let digits: Vec<String> = decimals.map(|(digits, _)| digits.to_owned()).collect();
            digits
                .into_iter()
                .map(move |digits| Figure { line, digits })
        })
        .collect()
}

/// The commands, outputs and code of a document, in which figures may stand.
pub fn code(document: &str) -> String {
    let fenced = markdown::fences(document)
        .into_iter()
        .map(|fence| fence.text);
    let spans = markdown::prose(document)
        .into_iter()
        .map(|(_, line)| split_code(line).1);
    fenced.chain(spans).collect::<Vec<_>>().join("\n")
}

/// Whether a number with these digits stands in a text.
pub fn stands_in(digits: &str, text: &str) -> bool {
    text.match_indices(digits).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + digits.len()..].chars().next();
        let goes_on = |c: char| c.is_ascii_digit();
        !before.is_some_and(|c| goes_on(c) || c == '.') && !after.is_some_and(goes_on)
    })
}

/// A line without its code spans, and the spans.
fn split_code(line: &str) -> (String, String) {
    let (mut outside, mut spans) = (String::new(), String::new());
    for (index, part) in line.split('`').enumerate() {
        let side = if index % 2 == 0 {
            &mut outside
        } else {
            &mut spans
        };
        side.push_str(part);
        side.push(' ');
    }
    (outside, spans)
}

/// The numbers of a line that are no part of a word, a version or an exponent, each with what follows.
fn numbers(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].find(|c: char| c.is_ascii_digit())?;
        let end = line[start..]
            .find(|c| !is_part(c))
            .map_or(line.len(), |end| start + end);
        at = end;
        Some((start, end))
    })
    .filter(move |(start, _)| {
        let before = line[..*start].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"^/-_.".contains(c))
    })
    .map(move |(start, end)| (line[start..end].trim_end_matches('.'), &line[end..]))
}

fn has_unit(rest: &str) -> bool {
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    UNITS.iter().any(|unit| {
        let after = rest.strip_prefix(unit).map(|after| after.chars().next());
        after.is_some_and(|next| next.is_none_or(|c| !c.is_alphanumeric() && c != '/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_decimals_with_a_unit_in_prose() {
        let text = "At 43.3% or 12.5 ms, not 7 ms, version 2.17, x1.5s or 1.5s/2s\n`9.9ms`\n```\n8.8 ms\n```\n";
        let digits: Vec<String> = figures(text)
            .into_iter()
            .map(|figure| figure.digits)
            .collect();
        assert_eq!(digits, ["43.3", "12.5"]);
        assert!(code(text).contains("9.9ms") && code(text).contains("8.8 ms"));
    }

    #[test]
    fn a_number_is_no_part_of_another() {
        assert!(stands_in("3.1", "a 3.1ms b"));
        assert!(!stands_in("3.1", "13.1 3.12"));
    }
}
