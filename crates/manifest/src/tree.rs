//! A YAML document as a tree that knows the place of each value.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// `Node` is a value of a document. What a manifest sets beside its containers is of any form, so nothing is
/// expected of it.
#[derive(Debug)]
pub enum Node {
    /// A string, a number, a truth value or nothing, as text.
    Scalar(String),
    /// Values in their order.
    List(Vec<Spanned<Node>>),
    /// Values by key, in their order.
    Map(Vec<(String, Spanned<Node>)>),
}

impl Node {
    /// The value of a key, of a map that has it.
    pub fn get(&self, key: &str) -> Option<&Spanned<Node>> {
        let Self::Map(entries) = self else {
            return None;
        };
        let entry = entries.iter().find(|(name, _)| name == key);
        entry.map(|(_, value)| value)
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Spanned<Node>> {
        let (first, rest) = path.split_first()?;
        let value = self.get(first)?;
        match rest {
            [] => Some(value),
            rest => value.value.at(rest),
        }
    }

    /// The text of a scalar at the end of a path of keys.
    pub fn text_at(&self, path: &[&str]) -> Option<&str> {
        match &self.at(path)?.value {
            Self::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list under a key; none where there is no list.
    pub fn list(&self, key: &str) -> &[Spanned<Node>] {
        match self.get(key).map(|value| &value.value) {
            Some(Self::List(values)) => values,
            _ => &[],
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_owned()))
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar(String::from_utf8_lossy(value).into_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(String::new()))
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Node::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Node, Spanned<Node>>()? {
            let Node::Scalar(key) = key else {
                return Err(A::Error::custom("a key is a word, no list and no map"));
            };
            entries.push((key, value));
        }
        Ok(Node::Map(entries))
    }
}
