//! A description as a document whose keys can be set.

use tailbound_analysis::FORMAT;
use tailbound_model::find_varied_key;
use toml::Value;

use crate::{Axis, SweepError};

/// `VariedDescription` is the text of a description, not yet as types, of which values are set.
#[derive(Clone, Debug)]
pub struct VariedDescription {
    root: Value,
    text: String,
}

impl VariedDescription {
    /// The document of `text`, which is a valid description: then whatever is wrong with a point is
    /// its values' fault.
    ///
    /// # Errors
    /// The text is no valid description.
    pub fn parse(text: &str, file: &str) -> Result<Self, SweepError> {
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
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Refuses a key unless the description has the key, or could have it: only the last part of it may
    /// be one that the file leaves out.
    ///
    /// # Errors
    /// The description has no such key.
    pub fn find(&self, key: &str) -> Result<(), SweepError> {
        find_varied_key(&self.text, key).map_err(|missing| SweepError::NoKey {
            key: missing.key,
            remedy: missing.remedy,
        })
    }

    /// The value at a key, as a file spells it; `None` for a key that is left out, or holds others.
    pub fn value(&self, key: &str) -> Option<String> {
        let mut here = &self.root;
        for part in key.split('.') {
            here = match here {
                Value::Table(table) => table.get(part)?,
                Value::Array(elements) => elements.get(position(part)?)?,
                _ => return None,
            };
        }
        match here {
            Value::String(text) => Some(text.clone()),
            Value::Table(_) | Value::Array(_) => None,
            other => Some(other.to_string()),
        }
    }

    /// The text of the description with these values.
    pub(super) fn with(&self, axes: &[Axis], values: &[String]) -> Result<String, SweepError> {
        let keys = axes.iter().map(|axis| axis.key.as_str());
        self.with_values(keys.zip(values.iter().map(String::as_str)))
    }

    /// The text of the description with values at keys that [`VariedDescription::find`] accepts.
    ///
    /// # Errors
    /// The values cannot be written as TOML.
    pub fn with_values<'a>(
        &self,
        values: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<String, SweepError> {
        let mut root = self.root.clone();
        for (key, value) in values {
            set(&mut root, key, value);
        }
        toml::to_string(&root).map_err(|error| SweepError::NoKey {
            key: "text with these values".into(),
            remedy: error.to_string(),
        })
    }
}

/// A position in a list, spelled in the one way there is, so that no key has two names.
fn position(part: &str) -> Option<usize> {
    let number: usize = part.parse().ok()?;
    (number.to_string() == part).then_some(number)
}

/// Sets a key that [`VariedDescription::find`] accepts.
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
