//! A TOML document as a tree in which everything knows its place in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::place::{KeyPath, PathStep};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct SpannedValue {
    /// The bytes that a problem with it points at: the key of a table, else the value.
    pub span: Range<usize>,
    /// The value.
    pub value: TomlValue,
}

/// The name of an entry of a table and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The name.
    pub name: String,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum TomlValue {
    /// A string.
    Text(String),
    /// An integer; TOML's reach, and beyond it as far as i128 goes.
    Integer(i128),
    /// A float, as written.
    Float(String),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or time, which no key of ours takes.
    Date(String),
    /// An array.
    Array(Vec<SpannedValue>),
    /// A table, in the order of its keys' names.
    Table(Vec<(Key, SpannedValue)>),
}

impl TomlValue {
    /// The value in words, for "found ...".
    pub fn in_words(&self) -> String {
        match self {
            Self::Text(text) => format!("the string {:?}", shortened(text)),
            Self::Integer(number) => format!("the integer {number}"),
            Self::Float(text) => format!("the number {}", shortened(text)),
            Self::Boolean(value) => format!("the boolean {value}"),
            Self::Date(text) => format!("the date {text}"),
            Self::Array(_) => "an array".into(),
            Self::Table(_) => "a table".into(),
        }
    }
}

/// The start of a text, enough to recognise it by.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// A whole document.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Its outermost table.
    pub root: SpannedValue,
}

impl Tree {
    /// The document in `text`, and whether its syntax is right; if not, parts may be missing.
    pub fn parse(text: &str) -> (Self, bool) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let root = SpannedValue {
            span: 0..0,
            value: TomlValue::Table(entries(table.into_inner())),
        };
        (Self { root }, errors.is_empty())
    }

    /// The bytes that a problem at `place` points at: those of the place, or, where nothing
    /// stands there, of the nearest thing around it.
    pub fn span(&self, place: &KeyPath) -> Range<usize> {
        let mut node = &self.root;
        for step in place.steps() {
            match node.inner(step) {
                Some(inner) => node = inner,
                None => break,
            }
        }
        node.span.clone()
    }

    /// The names in the table at `place`, those of what was cut out for its shape included.
    pub fn names_at(&self, place: &KeyPath) -> Vec<&str> {
        let mut steps = place.steps().iter();
        let node = steps.try_fold(&self.root, |node, step| node.inner(step));
        node.map(SpannedValue::keys).unwrap_or_default()
    }

    /// The names in the outermost table `table`.
    pub fn names(&self, table: &str) -> Vec<&str> {
        self.names_at(&KeyPath::root().key(table))
    }
}

impl SpannedValue {
    pub fn inner(&self, step: &PathStep) -> Option<&SpannedValue> {
        match (step, &self.value) {
            (PathStep::Key(name), _) => self.entry(name),
            (PathStep::Index(index), TomlValue::Array(elements)) => elements.get(*index),
            _ => None,
        }
    }

    /// What stands under `name`, if this is a table that has it.
    pub fn entry(&self, name: &str) -> Option<&SpannedValue> {
        match &self.value {
            TomlValue::Table(entries) => {
                let entry = entries.iter().find(|(key, _)| key.name == name);
                entry.map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The keys of a table; none of anything else.
    pub fn keys(&self) -> Vec<&str> {
        match &self.value {
            TomlValue::Table(entries) => entries.iter().map(|(key, _)| key.name.as_str()).collect(),
            _ => Vec::new(),
        }
    }
}

fn entries(table: DeTable<'_>) -> Vec<(Key, SpannedValue)> {
    table
        .into_iter()
        .map(|(key, value)| {
            let key = Key {
                span: key.span(),
                name: key.into_inner().into_owned(),
            };
            let mut node = node(value);
            if matches!(node.value, TomlValue::Table(_)) {
                node.span = key.span.clone();
            }
            (key, node)
        })
        .collect()
}

/// The nesting is bounded by the TOML parser (80 levels).
fn node(value: Spanned<DeValue<'_>>) -> SpannedValue {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(text) => TomlValue::Text(text.into_owned()),
        DeValue::Integer(integer) => match integer_value(&integer) {
            Some(number) => TomlValue::Integer(number),
            None => TomlValue::Float(integer.to_string()),
        },
        DeValue::Float(float) => TomlValue::Float(float.as_str().to_owned()),
        DeValue::Boolean(value) => TomlValue::Boolean(value),
        DeValue::Datetime(date) => TomlValue::Date(date.to_string()),
        DeValue::Array(elements) => TomlValue::Array(elements.into_iter().map(node).collect()),
        DeValue::Table(table) => TomlValue::Table(entries(table)),
    };
    SpannedValue { span, value }
}

fn integer_value(integer: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}
