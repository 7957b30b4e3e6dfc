//! Sets of sequence numbers within a window of 256 (DDSI-RTPS 2.3, section 9.4.2.6).

use crate::byte_reader::ByteReader;

/// Sequence numbers from a base on: the first 256 after it are in the set or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSet {
    base: i64,
    count: u32,
    /// The bit of highest value in a word is the first number of the word, as on the wire.
    words: [u32; 8],
}

impl SequenceSet {
    /// The most numbers of a set.
    pub const WINDOW: i64 = 256;

    /// The empty set at a base.
    pub fn at(base: i64) -> Self {
        Self {
            base,
            count: 0,
            words: [0; 8],
        }
    }

    /// The number that the set begins with, in the set or not.
    pub fn base(&self) -> i64 {
        self.base
    }

    /// Adds a number. Whether the number is within the window of the set.
    pub fn insert(&mut self, number: i64) -> bool {
        let Some(place) = number.checked_sub(self.base) else {
            return false;
        };
        if !(0..Self::WINDOW).contains(&place) {
            return false;
        }
        let place = place as u32;
        self.words[(place / 32) as usize] |= 1 << (31 - place % 32);
        self.count = self.count.max(place + 1);
        true
    }

    /// The numbers of the set, in order.
    pub fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        let Self { base, count, words } = *self;
        let has = move |place: &u32| words[(*place / 32) as usize] & (1 << (31 - *place % 32)) != 0;
        (0..count)
            .filter(has)
            .map(move |place| base.saturating_add(i64::from(place)))
    }

    /// Whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.words == [0; 8]
    }

    /// Reads a set; `None` if the bytes end before, the base is below 1, or the set claims more than 256 numbers.
    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let base = reader.sequence()?;
        let count = reader.u32()?;
        if i64::from(count) > Self::WINDOW || base < 0 {
            return None;
        }
        let mut words = [0; 8];
        for word in words.iter_mut().take(count.div_ceil(32) as usize) {
            *word = reader.u32()?;
        }
        // Bits behind the last number have no meaning.
        for place in count..count.next_multiple_of(32) {
            words[(place / 32) as usize] &= !(1 << (31 - place % 32));
        }
        Some(Self { base, count, words })
    }

    /// Appends the set in little-endian byte order.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        write_sequence(bytes, self.base);
        bytes.extend_from_slice(&self.count.to_le_bytes());
        for word in self.words.iter().take(self.count.div_ceil(32) as usize) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// Appends a sequence number in little-endian byte order.
pub(crate) fn write_sequence(bytes: &mut Vec<u8>, sequence: i64) {
    let high = (sequence >> 32) as i32;
    let low = sequence as u32;
    bytes.extend_from_slice(&high.to_le_bytes());
    bytes.extend_from_slice(&low.to_le_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_survives_its_bytes(
            base in 0..i64::MAX / 2,
            places in prop::collection::btree_set(0..256_i64, 0..40),
        ) {
            let mut set = SequenceSet::at(base);
            let numbers: BTreeSet<i64> = places.iter().map(|place| base + place).collect();
            for number in &numbers {
                prop_assert!(set.insert(*number));
            }
            prop_assert!(!set.insert(base + 256) && !set.insert(base - 1));
            let mut bytes = Vec::new();
            set.write(&mut bytes);
            let read = SequenceSet::read(&mut ByteReader::new(&bytes, true)).unwrap();
            prop_assert_eq!(read.numbers().collect::<BTreeSet<_>>(), numbers.clone());
            prop_assert_eq!(read.is_empty(), numbers.is_empty());
            prop_assert_eq!(read, set);
        }
    }

    #[test]
    fn a_set_of_too_many_numbers_is_refused() {
        let mut bytes = Vec::new();
        write_sequence(&mut bytes, 1);
        bytes.extend_from_slice(&257_u32.to_le_bytes());
        bytes.extend_from_slice(&[0; 64]);
        assert_eq!(SequenceSet::read(&mut ByteReader::new(&bytes, true)), None);
    }
}
