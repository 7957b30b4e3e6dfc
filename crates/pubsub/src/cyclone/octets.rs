//! The DDS type of all topics over Cyclone DDS: a length in bytes, and 64-bit words that hold the bytes.
//!
//! Words in place of octets, since the decoder of the Rust binding reads a sequence element by element: a message of 64 KiB
//! takes an eighth of the steps. The words are little-endian on every host, so that the bytes stay in order.

use std::fmt;
use std::sync::Arc;

use cyclonedds::Topicable;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length of a word, in bytes.
const WORD: usize = size_of::<u64>();

/// The most memory that a received message gets before its bytes have been read. A length is only a claim.
const MOST_ON_CREDIT: usize = 1 << 17;

/// The bytes of a message. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Octets {
    /// The message, and zeros up to a whole word.
    padded: Arc<Vec<u8>>,
    length: usize,
}

impl Octets {
    /// Takes over a message of two parts. The memory of the message before is used again, unless a reader still has it.
    pub(super) fn fill(&mut self, first: &[u8], second: &[u8]) {
        self.length = first.len() + second.len();
        let bytes = match Arc::get_mut(&mut self.padded) {
            Some(bytes) => bytes,
            None => {
                self.padded = Arc::default();
                Arc::make_mut(&mut self.padded)
            }
        };
        bytes.clear();
        bytes.reserve(self.length.next_multiple_of(WORD));
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        bytes.resize(self.length.next_multiple_of(WORD), 0);
    }

    /// The message.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.padded[..self.length]
    }
}

impl Topicable for Octets {
    type Key = ();

    fn from_key((): &()) -> Self {
        Self::default()
    }

    fn as_key(&self) {}

    fn dds_type_name() -> impl AsRef<str> {
        "tailbound::Octets"
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let integer = |number| u32::try_from(number).map_err(serde::ser::Error::custom);
        let mut parts = serializer.serialize_tuple(3)?;
        parts.serialize_element(&integer(self.length)?)?;
        parts.serialize_element(&integer(self.padded.len() / WORD)?)?;
        parts.serialize_element(&PlainBytes(&self.padded))?;
        parts.end()
    }
}

/// Bytes that are written as they are.
struct PlainBytes<'a>(&'a [u8]);

impl Serialize for PlainBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, OctetsVisitor)
    }
}

struct OctetsVisitor;

impl<'de> Visitor<'de> for OctetsVisitor {
    type Value = Octets;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a length and words")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Octets, A::Error> {
        let missing = || Error::custom("the message ends early");
        let length = parts.next_element::<u32>()?.ok_or_else(missing)? as usize;
        let bytes = parts.next_element_seed(Words { length })?;
        let bytes = bytes.ok_or_else(missing)?;
        match bytes.len() == length.next_multiple_of(WORD) {
            true => Ok(Octets {
                padded: Arc::new(bytes),
                length,
            }),
            false => Err(Error::custom("the length is not that of the words")),
        }
    }
}

/// Reads the words of a message of this length.
struct Words {
    length: usize,
}

impl<'de> DeserializeSeed<'de> for Words {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Words {
    type Value = Vec<u8>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("words")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Vec<u8>, A::Error> {
        let padded = self.length.next_multiple_of(WORD);
        let mut bytes = Vec::with_capacity(padded.min(MOST_ON_CREDIT));
        while let Some(word) = words.next_element::<u64>()? {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byteorder::LittleEndian;
    use cdr_encoding_of_cyclone::{from_bytes, to_vec};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_that_a_reader_has_is_not_written_over() {
        let mut octets = Octets::default();
        octets.fill(b"first", b" message");
        let kept = octets.clone();
        octets.fill(b"second", b"");
        assert_eq!(kept.bytes(), b"first message");
        assert_eq!(octets.bytes(), b"second");
    }

    proptest! {
        #[test]
        fn a_message_survives_its_encoding(first in any::<Vec<u8>>(), second in any::<Vec<u8>>()) {
            let mut octets = Octets::default();
            octets.fill(&first, &second);
            let encoded = to_vec::<_, LittleEndian>(&octets).unwrap();
            let (decoded, used) = from_bytes::<Octets, LittleEndian>(&encoded).unwrap();
            prop_assert_eq!(used, encoded.len());
            prop_assert_eq!(decoded.bytes(), [first, second].concat());
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read(bytes in any::<Vec<u8>>()) {
            if let Ok((octets, _)) = from_bytes::<Octets, LittleEndian>(&bytes) {
                prop_assert!(octets.bytes().len() <= bytes.len());
            }
        }
    }
}
