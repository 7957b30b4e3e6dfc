//! The type of all topics, `tailbound::Octets`: a length in bytes, and a sequence of 64-bit words that hold the bytes.
//!
//! Words in place of octets, since decoders of some bindings of DDS read a sequence element by element: a message of 64 KiB
//! takes an eighth of the steps. The words are little-endian, so that the bytes stay in order.

/// The name of the type in announcements.
pub const TYPE_NAME: &str = "tailbound::Octets";

/// The length of a word, in bytes.
const WORD: usize = size_of::<u64>();
/// The encapsulation: CDR in little-endian byte order, without options.
const ENCAPSULATION: [u8; 4] = [0, 1, 0, 0];
/// The bytes before the message: encapsulation, length and count of words.
pub const HEAD: usize = 12;

/// Appends a message of two parts. The length of what is appended is a multiple of 4.
pub fn write(bytes: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    let length = first.len() + second.len();
    let integer = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    bytes.extend_from_slice(&ENCAPSULATION);
    bytes.extend_from_slice(&integer(length));
    bytes.extend_from_slice(&integer(length.div_ceil(WORD)));
    bytes.extend_from_slice(first);
    bytes.extend_from_slice(second);
    let padding = length.next_multiple_of(WORD) - length;
    bytes.extend_from_slice(&[0; WORD][..padding]);
}

/// Reads a message; `None` if the bytes are of another encapsulation, or the lengths contradict each other.
pub fn read(payload: &[u8]) -> Option<&[u8]> {
    let (encapsulation, rest) = payload.split_first_chunk::<4>()?;
    // The last two bytes are options, which say how many bytes of padding follow.
    if encapsulation[..2] != ENCAPSULATION[..2] {
        return None;
    }
    let (length, rest) = rest.split_first_chunk()?;
    let (words, bytes) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let words = usize::try_from(u32::from_le_bytes(*words)).ok()?;
    let padded = words.checked_mul(WORD)?;
    let is_whole = padded == length.checked_next_multiple_of(WORD)?
        && (padded..padded.checked_add(4)?).contains(&bytes.len());
    is_whole.then(|| &bytes[..length])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_a_message_are_those_of_the_type() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"abc", b"defghi");
        let expected = b"\0\x01\0\0\x09\0\0\0\x02\0\0\0abcdefghi\0\0\0\0\0\0\0";
        assert_eq!(bytes, expected);
        assert_eq!(read(&bytes), Some(&b"abcdefghi"[..]));
        bytes[1] = 0;
        assert_eq!(read(&bytes), None, "big-endian");
    }

    #[test]
    fn lengths_that_contradict_each_other_are_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"abc", b"");
        for (place, value) in [(4, 9), (8, 2), (11, 0x20)] {
            let mut other = bytes.clone();
            other[place] = value;
            assert_eq!(read(&other), None, "{place}");
        }
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read(b"\0\x01\0\0"), None);
    }

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(first in any::<Vec<u8>>(), second in any::<Vec<u8>>()) {
            let mut bytes = Vec::new();
            write(&mut bytes, &first, &second);
            prop_assert_eq!(bytes.len() % 4, 0);
            let message = [first, second].concat();
            prop_assert_eq!(read(&bytes), Some(message.as_slice()));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read(bytes in any::<Vec<u8>>()) {
            if let Some(message) = read(&bytes) {
                prop_assert!(message.len() <= bytes.len());
            }
        }
    }
}
