//! What the TOML grammar does not allow in a text.
//!
//! After a mistake, a parser takes much of what follows for wrong that is not. So only the first
//! mistake is believed; then its line is blanked, and the text is read again.

use std::ops::Range;

use toml::de::DeTable;

use super::tree::shortened;

/// How many mistakes are looked for.
const MOST: usize = 20;

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// The mistakes in `text`, at least one if there is any.
pub(crate) fn syntax_errors(text: &str) -> Vec<SyntaxError> {
    let mut remaining = text.as_bytes().to_vec();
    let mut errors: Vec<SyntaxError> = Vec::new();
    let mut last_blanked = None;
    for _ in 0..MOST {
        let Some((span, message)) = first_error(&remaining) else {
            break;
        };
        let is_first = errors.is_empty();
        // A blanked header or half of an array makes these of what follows.
        let is_echo = message.contains("duplicate key")
            || last_blanked.is_some_and(|end| is_blank(&remaining, end, span.start));
        if is_first || !is_echo {
            errors.push(explained(text, span.clone(), message));
        }
        let line = line_around(&remaining, span.start);
        if is_blank(&remaining, line.start, line.end) {
            break;
        }
        remaining[line.clone()].fill(b' ');
        last_blanked = Some(line.end);
    }
    errors
}

/// The place and message of the first mistake in `bytes`.
fn first_error(bytes: &[u8]) -> Option<(Range<usize>, String)> {
    // Whole lines were blanked, so what was UTF-8 still is.
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, errors) = DeTable::parse_recoverable(text);
    let placed = errors.iter().map(|error| {
        let span = error.span().unwrap_or(0..0);
        (span, error.message().to_owned())
    });
    placed.min_by_key(|(span, _)| span.start)
}

fn line_around(bytes: &[u8], at: usize) -> Range<usize> {
    let at = at.min(bytes.len());
    let start = bytes[..at]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let end = bytes[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |end| at + end);
    start..end
}

/// Whether there is nothing but white space from `start` to `end`.
fn is_blank(bytes: &[u8], start: usize, end: usize) -> bool {
    let between = bytes.get(start..end.min(bytes.len()));
    between.is_some_and(|between| between.iter().all(u8::is_ascii_whitespace))
}

/// What the TOML parser says of `span`, with what to do about it.
fn explained(text: &str, span: Range<usize>, message: String) -> SyntaxError {
    let there = text.get(span.clone()).unwrap_or_default().trim();
    let message = match message.as_str() {
        "duplicate key" => format!("duplicate key `{}`", shortened(there)),
        said if said.contains("must be quoted") && there.is_empty() => "a value is missing".into(),
        _ => message,
    };
    SyntaxError {
        remedy: remedy(&message).to_owned(),
        span,
        message,
    }
}

/// What to do about what the TOML parser says.
fn remedy(message: &str) -> &'static str {
    const REMEDIES: [(&str, &str); 8] = [
        ("duplicate key", "keep one of the two"),
        ("recurs", "nest tables and arrays less deeply"),
        ("must be quoted", "write text in quotes: key = \"text\""),
        ("is missing", "write key = value"),
        ("no value", "write key = value"),
        (
            "missing comma",
            "put commas between elements, and close what is opened",
        ),
        ("unclosed", "close what is opened"),
        ("basic string", "close the string on its line: \"text\""),
    ];
    let remedy = REMEDIES.iter().find(|(part, _)| message.contains(part));
    remedy.map_or(
        "the file is TOML: key = value lines below [table] headers",
        |(_, remedy)| remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn believes_one_mistake_per_place() {
        let text = "a = [\"x]\nb = 1\nc = 2\n\n[d\ne = 3\n";
        let starts: Vec<usize> = syntax_errors(text).iter().map(|e| e.span.start).collect();
        assert_eq!(starts.len(), 2, "{:?}", syntax_errors(text));
    }

    #[test]
    fn a_right_text_has_none() {
        assert_eq!(syntax_errors("a = 1\n"), []);
    }
}
