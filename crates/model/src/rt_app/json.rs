//! JSON as rt-app takes it, with places.
//!
//! rt-app reads with json-c, which allows comments and commas after the last element; its
//! `workgen` also allows the same key several times, for several events of one sort. So an object
//! is a list of entries in the order of the file.

use std::ops::Range;

/// How deep objects and arrays may nest; rt-app's own reader stops at 32.
const DEEPEST: usize = 32;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Json {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// What it is.
    pub value: JsonValue,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number without fraction or exponent.
    Integer(i64),
    /// Any other number.
    Fraction(f64),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Vec<JsonEntry>),
}

/// An entry of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonEntry {
    /// Its name.
    pub key: String,
    /// The bytes of the name.
    pub key_span: Range<usize>,
    /// What it holds.
    pub value: Json,
}

impl JsonValue {
    /// The value in words, for "found ...".
    pub fn in_words(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Boolean(value) => format!("the boolean {value}"),
            Self::Integer(number) => format!("the integer {number}"),
            Self::Fraction(number) => format!("the number {number}"),
            Self::Text(text) => {
                format!("the string {:?}", text.chars().take(60).collect::<String>())
            }
            Self::Array(_) => "an array".into(),
            Self::Object(_) => "an object".into(),
        }
    }
}

/// What the grammar does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonError {
    /// Where.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: &'static str,
}

/// Reads one value, with nothing after it but space and comments.
pub(super) fn parse(text: &str) -> Result<Json, JsonError> {
    let mut reader = JsonReader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space()?;
    match reader.peek() {
        None => Ok(value),
        Some(character) => reader.fail(
            format!("{character:?} after the end of the workload"),
            "take it out",
        ),
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fail<T>(&self, message: impl Into<String>, remedy: &'static str) -> Result<T, JsonError> {
        Err(JsonError {
            at: self.at,
            message: message.into(),
            remedy,
        })
    }

    /// Takes `wanted` if it comes next.
    fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.rest().starts_with(wanted);
        if is_next {
            self.at += wanted.len();
        }
        is_next
    }

    fn skip_space(&mut self) -> Result<(), JsonError> {
        loop {
            let trimmed = self
                .rest()
                .trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
            self.at = self.text.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(length) => self.at += length + 4,
                    None => return self.fail("a comment is not closed", "close it with */"),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.skip_space()?;
        let start = self.at;
        let value = match self.peek() {
            Some('{' | '[') if depth >= DEEPEST => {
                return self.fail(
                    "objects and arrays are nested too deeply",
                    "nest at most 32 of them",
                );
            }
            Some('{') => JsonValue::Object(self.entries(depth + 1)?),
            Some('[') => JsonValue::Array(self.elements(depth + 1)?),
            Some('"') => JsonValue::Text(self.string()?),
            Some(_) => self.word()?,
            None => {
                return self.fail(
                    "a value is missing at the end of the file",
                    "close what is opened, or write a value",
                );
            }
        };
        Ok(Json {
            span: start..self.at,
            value,
        })
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<JsonValue, JsonError> {
        let end = |c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c));
        let length = self.rest().find(end).unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        let value = match word.to_ascii_lowercase().as_str() {
            "true" => JsonValue::Boolean(true),
            "false" => JsonValue::Boolean(false),
            "null" => JsonValue::Null,
            number => {
                let is_number = number.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                match (number.parse(), number.parse()) {
                    (Ok(integer), _) if is_number => JsonValue::Integer(integer),
                    (_, Ok(fraction)) if is_number && f64::is_finite(fraction) => {
                        JsonValue::Fraction(fraction)
                    }
                    _ => {
                        let word: String = self.rest().chars().take(length.clamp(1, 40)).collect();
                        return self.fail(
                            format!("{word:?} is no value"),
                            "write a number, a string in quotes, an object or an array",
                        );
                    }
                }
            }
        };
        self.at += length;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(next) = self.peek().filter(|c| *c != '\n') else {
                self.at = start;
                return self.fail("a string is not closed", "close it on its line: \"text\"");
            };
            if next == '\\' {
                text.push(self.escape()?);
                continue;
            }
            self.at += next.len_utf8();
            if next == '"' {
                return Ok(text);
            }
            text.push(next);
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        const REMEDY: &str =
            "write \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u with four hexadecimal digits";
        let mut chars = self.rest().chars().skip(1);
        let plain = match chars.next() {
            Some(c @ ('"' | '\\' | '/')) => Some(c),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            _ => None,
        };
        if let Some(plain) = plain {
            self.at += 2;
            return Ok(plain);
        }
        let digits = self
            .rest()
            .strip_prefix("\\u")
            .and_then(|rest| rest.get(..4));
        let code = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                self.at += 6;
                // Halves of pairs name nothing that rt-app would use.
                Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            None => self.fail("an unknown escape in a string", REMEDY),
        }
    }

    fn elements(&mut self, depth: usize) -> Result<Vec<Json>, JsonError> {
        self.at += 1;
        let mut elements = Vec::new();
        loop {
            self.skip_space()?;
            if self.take("]") {
                return Ok(elements);
            }
            elements.push(self.value(depth)?);
            self.skip_space()?;
            if !self.take(",") && self.peek() != Some(']') {
                return self.fail(
                    "a comma or ] is missing",
                    "put commas between elements, and ] after the last",
                );
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<JsonEntry>, JsonError> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.skip_space()?;
            if self.take("}") {
                return Ok(entries);
            }
            let start = self.at;
            if self.peek() != Some('"') {
                return self.fail(
                    "a key is missing",
                    "write \"key\" : value, with the key in quotes",
                );
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.skip_space()?;
            if !self.take(":") {
                return self.fail("a colon is missing after the key", "write \"key\" : value");
            }
            let value = self.value(depth)?;
            entries.push(JsonEntry {
                key,
                key_span,
                value,
            });
            self.skip_space()?;
            if !self.take(",") && self.peek() != Some('}') {
                return self.fail(
                    "a comma or } is missing",
                    "put commas between entries, and } after the last",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn takes_comments_and_last_commas_and_keeps_repeated_keys() {
        let text =
            "/* a */ { \"run\": 1, // b\n \"run\": -2.5, \"x\": [true, null, \"\\u0041\\n\",], }";
        let JsonValue::Object(entries) = parse(text).unwrap().value else {
            panic!("no object");
        };
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["run", "run", "x"]);
        assert_eq!(entries[1].value.value, JsonValue::Fraction(-2.5));
        let JsonValue::Array(elements) = &entries[2].value.value else {
            panic!("no array");
        };
        assert_eq!(elements[2].value, JsonValue::Text("A\n".into()));
    }

    #[test]
    fn says_where_it_stops() {
        let stops = |text: &str| parse(text).unwrap_err().at;
        assert_eq!(stops("{ \"a\" 1 }"), 6);
        assert_eq!(stops("{ \"a\": 1 \"b\": 2 }"), 9);
        assert_eq!(stops("[1] x"), 4);
        assert_eq!(stops("{ \"a"), 2);
        assert_eq!(stops(&"[".repeat(100)), 32);
        assert_eq!(stops(""), 0);
    }
}
