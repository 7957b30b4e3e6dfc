//! The numbers of topics and instances in headers.

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
