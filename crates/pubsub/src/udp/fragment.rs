//! Fragments of messages that do not fit into a datagram, and their assembly in fixed memory.

use super::LONGEST_DATAGRAM;

/// The length of an encoded head of a fragment, in bytes.
pub const FRAGMENT_HEAD: usize = 32;
/// The longest part of a message in a fragment, in bytes.
pub const LONGEST_PART: usize = LONGEST_DATAGRAM - FRAGMENT_HEAD;
const MAGIC: [u8; 2] = *b"tf";
const VERSION: u8 = 1;

/// The head of a fragment: which part of which message follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The sender, drawn at random.
    pub stream: u64,
    /// The sender's number of the message.
    pub number: u64,
    /// The length of the whole message with its header, in bytes.
    pub message_length: u32,
    /// The place of the part in the message, in bytes.
    pub offset: u32,
}

impl Fragment {
    /// Writes the head, in little-endian byte order.
    pub fn encode(&self) -> [u8; FRAGMENT_HEAD] {
        let mut bytes = [0; FRAGMENT_HEAD];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[8..12].copy_from_slice(&self.message_length.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stream.to_le_bytes());
        bytes[24..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads the head of a fragment, and yields it with its part; nothing, if the bytes are no fragment of this version.
    pub fn decode(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, part) = datagram.split_first_chunk::<FRAGMENT_HEAD>()?;
        if bytes[..2] != MAGIC || bytes[2] != VERSION {
            return None;
        }
        let (small, large) = bytes[8..].split_first_chunk::<8>()?;
        let [small, large] = [small.as_slice(), large];
        let small = |place: usize| Some(u32::from_le_bytes(*small[place..].first_chunk()?));
        let large = |place: usize| Some(u64::from_le_bytes(*large[place..].first_chunk()?));
        let head = Self {
            message_length: small(0)?,
            offset: small(4)?,
            stream: large(0)?,
            number: large(8)?,
        };
        Some((head, part))
    }
}

/// Puts fragments together, with memory for one message of each of a fixed number of streams. Fragments must come in order;
/// a message with a fragment that is missing or out of order never becomes whole, and is lost.
#[derive(Debug)]
pub struct FragmentAssembly {
    streams: Vec<FragmentStream>,
    longest: usize,
    turn: u64,
}

#[derive(Debug)]
struct FragmentStream {
    stream: u64,
    number: u64,
    message_length: usize,
    bytes: Vec<u8>,
    latest_turn: u64,
}

impl FragmentAssembly {
    /// Memory for messages of at most `longest` bytes with their headers, of this number of streams. Another stream takes
    /// the place of the one that was silent the longest.
    pub fn new(streams: usize, longest: usize) -> Self {
        let stream = || FragmentStream {
            stream: 0,
            number: 0,
            message_length: 0,
            bytes: Vec::with_capacity(longest),
            latest_turn: 0,
        };
        Self {
            streams: (0..streams).map(|_| stream()).collect(),
            longest,
            turn: 0,
        }
    }

    /// Adds a fragment; the message, if it is whole now.
    pub fn add(&mut self, head: &Fragment, part: &[u8]) -> Option<&[u8]> {
        let (message_length, offset) = (head.message_length as usize, head.offset as usize);
        if message_length > self.longest || offset.checked_add(part.len())? > message_length {
            return None;
        }
        self.turn += 1;
        let place = self
            .streams
            .iter()
            .position(|stream| stream.stream == head.stream);
        let oldest = || {
            let places = self.streams.iter().enumerate();
            places.min_by_key(|(_, stream)| stream.latest_turn)
        };
        let place = place.or_else(|| oldest().map(|(place, _)| place))?;
        let stream = &mut self.streams[place];
        if offset == 0 {
            stream.stream = head.stream;
            stream.number = head.number;
            stream.message_length = message_length;
            stream.bytes.clear();
        }
        let continues = stream.stream == head.stream
            && stream.number == head.number
            && stream.message_length == message_length
            && stream.bytes.len() == offset;
        if !continues {
            return None;
        }
        stream.latest_turn = self.turn;
        stream.bytes.extend_from_slice(part);
        (stream.bytes.len() == message_length).then_some(stream.bytes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn head(stream: u64, number: u64, message_length: u32, offset: u32) -> Fragment {
        Fragment {
            stream,
            number,
            message_length,
            offset,
        }
    }

    #[test]
    fn a_head_survives_its_bytes() {
        let head = head(0x0102_0304_0506_0708, 9, 70_000, 65_475);
        let mut bytes = head.encode().to_vec();
        bytes.extend(b"part");
        assert_eq!(Fragment::decode(&bytes), Some((head, &b"part"[..])));
        bytes[2] = 2;
        assert_eq!(Fragment::decode(&bytes), None);
    }

    #[test]
    fn streams_do_not_mix_and_a_gap_loses_the_message() {
        let mut assembly = FragmentAssembly::new(2, 10);
        assert_eq!(assembly.add(&head(1, 0, 4, 0), b"ab"), None);
        assert_eq!(assembly.add(&head(2, 0, 4, 0), b"AB"), None);
        assert_eq!(assembly.add(&head(1, 0, 4, 2), b"cd"), Some(&b"abcd"[..]));
        // The end of stream 2 is missing; its next message is whole.
        assert_eq!(assembly.add(&head(2, 1, 4, 2), b"YZ"), None);
        assert_eq!(assembly.add(&head(2, 1, 4, 0), b"WX"), None);
        assert_eq!(assembly.add(&head(2, 1, 4, 2), b"YZ"), Some(&b"WXYZ"[..]));
        assert_eq!(assembly.add(&head(3, 0, 11, 0), b"too long"), None);
        assert_eq!(assembly.add(&head(3, 0, 4, u32::MAX), b"beyond"), None);
    }

    #[test]
    fn a_fragment_out_of_order_is_left_out() {
        let mut assembly = FragmentAssembly::new(1, 10);
        assert_eq!(assembly.add(&head(1, 0, 6, 0), b"ab"), None);
        assert_eq!(assembly.add(&head(1, 0, 6, 4), b"ef"), None);
        assert_eq!(assembly.add(&head(1, 0, 6, 2), b"cd"), None);
        assert_eq!(assembly.add(&head(1, 0, 6, 4), b"ef"), Some(&b"abcdef"[..]));
    }

    proptest! {
        #[test]
        fn arbitrary_fragments_never_grow_the_memory(
            fragments in prop::collection::vec(
                (0_u64..4, 0_u64..3, 0_u32..40, 0_u32..40, 0_usize..40), 1..200),
        ) {
            let mut assembly = FragmentAssembly::new(2, 32);
            for (stream, number, message_length, offset, length) in fragments {
                let head = head(stream, number, message_length, offset);
                if let Some(message) = assembly.add(&head, &[1; 40][..length]) {
                    prop_assert_eq!(message.len(), message_length as usize);
                }
                for stream in &assembly.streams {
                    prop_assert!(stream.bytes.len() <= stream.bytes.capacity());
                    prop_assert_eq!(stream.bytes.capacity(), 32);
                }
            }
        }
    }
}
