//! The numbers of topics and instances in headers, and the groups of topics.

use std::net::Ipv4Addr;

/// The number of a topic in headers: a hash of its name and of the name of its type, so that a message of another type is
/// a message of another topic.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, FNV-1a in 64 bits; it is the same on every host and in every version.
pub fn topic_number(name: &str, type_name: &str) -> u64 {
    let separator = [0];
    let bytes = name.bytes().chain(separator).chain(type_name.bytes());
    hash(bytes)
}

/// The number of an instance in headers: a hash of its key, never 0, which is the number of messages without a key.
pub fn instance_number(key: &[u8]) -> u64 {
    hash(key.iter().copied()).max(1)
}

/// The multicast group of a topic over UDP: one of the 262,144 from 239.192.0.0 on, by a hash of its name.
pub fn multicast_group(name: &str) -> Ipv4Addr {
    const FIRST: u32 = u32::from_be_bytes([239, 192, 0, 0]);
    const COUNT: u64 = 1 << 18;
    let number = topic_number(name, "") % COUNT;
    Ipv4Addr::from_bits(FIRST + u32::try_from(number).unwrap_or(0))
}

fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // A vector of the authors' test suite.
        assert_eq!(instance_number(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_type_makes_another_topic() {
        assert_ne!(topic_number("a", "bc"), topic_number("ab", "c"));
        assert_ne!(topic_number("people", "v1"), topic_number("people", "v2"));
    }
}
