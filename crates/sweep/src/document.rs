//! A description as a document whose keys can be set.

use tailbound_analysis::FORMAT;
use toml::Value;

use crate::{Axis, SweepError};

/// A description, not yet as types.
#[derive(Clone, Debug)]
pub(super) struct Document {
    root: Value,
    text: String,
}

impl Document {
    /// The document of `text`, which is a valid description: then whatever is wrong with a point is
    /// its values' fault.
    pub(super) fn parse(text: &str, file: &str) -> Result<Self, SweepError> {
        let checked = FORMAT.check(text, file);
        match (checked.description, text.parse::<toml::Table>()) {
            (Some(_), Ok(table)) => Ok(Self {
                root: Value::Table(table),
                text: text.to_owned(),
            }),
            _ => Err(SweepError::Description(checked.problems)),
        }
    }

    /// The text of the description as it stands.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// An error unless the description has the key, or could have it: only the last part of it may
    /// be one that the file leaves out.
    pub(super) fn find(&self, key: &str) -> Result<(), SweepError> {
        let mut here = &self.root;
        let parts: Vec<&str> = key.split('.').collect();
        for (depth, part) in parts.iter().enumerate() {
            match child(here, part) {
                Some(next) => here = next,
                None if depth + 1 == parts.len() && here.is_table() => return Ok(()),
                None => {
                    let key = parts[..=depth].join(".");
                    let remedy = remedy(here, part, &parts[..depth].join("."));
                    return Err(SweepError::NoKey { key, remedy });
                }
            }
        }
        match here {
            Value::Table(_) | Value::Array(_) => Err(SweepError::NoKey {
                key: format!("value at {key}"),
                remedy: format!("it holds others; {}", names(here, key)),
            }),
            _ => Ok(()),
        }
    }

    /// The text of the description with these values.
    pub(super) fn with(&self, axes: &[Axis], values: &[String]) -> Result<String, SweepError> {
        let mut root = self.root.clone();
        for (axis, value) in axes.iter().zip(values) {
            set(&mut root, &axis.key, value);
        }
        toml::to_string(&root).map_err(|error| SweepError::NoKey {
            key: "text with these values".into(),
            remedy: error.to_string(),
        })
    }
}

fn child<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Table(table) => table.get(part),
        Value::Array(elements) => elements.get(position(part)?),
        _ => None,
    }
}

/// A position in a list, spelled in the one way there is, so that no key has two names.
fn position(part: &str) -> Option<usize> {
    let number: usize = part.parse().ok()?;
    (number.to_string() == part).then_some(number)
}

/// Sets a key that [`Document::find`] found.
fn set(root: &mut Value, key: &str, text: &str) {
    let mut here = root;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let next = match here {
            Value::Table(table) if last => {
                let value = valued(table.get(part), text);
                table.insert(part.to_owned(), value);
                return;
            }
            Value::Table(table) => table.get_mut(part),
            Value::Array(elements) => {
                let index = position(part);
                index.and_then(|index| elements.get_mut(index))
            }
            _ => None,
        };
        match next {
            Some(next) if last => {
                *next = valued(Some(next), text);
                return;
            }
            Some(next) => here = next,
            None => return,
        }
    }
}

/// The value of that text: of the sort that stands there, or a number or truth value if it is one.
fn valued(before: Option<&Value>, text: &str) -> Value {
    let string = || Value::String(text.to_owned());
    if let Some(Value::String(_)) = before {
        return string();
    }
    match scalar(text) {
        Some(value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_))) => value,
        _ => string(),
    }
}

/// The value that is all of the text. A comment or a further line would be dropped without a word.
fn scalar(text: &str) -> Option<Value> {
    if text.contains(['#', '\n', '\r']) {
        return None;
    }
    let mut table = format!("value = {text}").parse::<toml::Table>().ok()?;
    table.remove("value").filter(|_| table.is_empty())
}

/// What could be meant by a part that is not there.
fn remedy(here: &Value, part: &str, before: &str) -> String {
    let nearest = match here {
        Value::Table(table) => table
            .keys()
            .map(|key| (strsim::damerau_levenshtein(key, part), key))
            .filter(|(distance, _)| *distance <= 1 + part.len() / 3)
            .min(),
        _ => None,
    };
    match (nearest, before) {
        (Some((_, key)), "") => format!("did you mean {key}?"),
        (Some((_, key)), before) => format!("did you mean {before}.{key}?"),
        (None, _) => names(here, before),
    }
}

fn names(here: &Value, before: &str) -> String {
    let place = match before {
        "" => "the file".to_string(),
        before => before.to_string(),
    };
    match here {
        Value::Table(table) => {
            let keys: Vec<&str> = table.keys().map(String::as_str).collect();
            format!("{place} has {}", keys.join(", "))
        }
        Value::Array(elements) => {
            format!("{place} has {} elements, counted from 0", elements.len())
        }
        _ => format!("{place} is a value"),
    }
}
