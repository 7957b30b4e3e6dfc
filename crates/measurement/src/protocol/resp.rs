//! Replies of the Redis protocol, RESP2 (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//!
//! Only what measuring needs: where a reply ends, and whether it is an error. Values are skipped,
//! not kept, so a reply of any size costs no memory.

use super::{ProtocolError, Reply, printable};

/// The longest line taken: Redis's own limit for inline text.
const LINE_LIMIT: usize = 64 * 1024;
/// The longest bulk string taken: Redis's own limit.
const BULK_LIMIT: u64 = 512 * 1024 * 1024;
/// The deepest nesting of arrays taken.
const DEPTH_LIMIT: usize = 32;
/// The most elements taken in one reply, all arrays together.
const ELEMENT_LIMIT: u64 = 1 << 24;

/// Finds the ends of RESP2 replies in a stream.
#[derive(Debug, Default)]
pub struct RespReader {
    state: RespState,
    line: Vec<u8>,
    /// Elements still missing from each open array, the outermost first.
    open: Vec<u64>,
    /// Elements announced in this reply so far.
    elements: u64,
    refused: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RespState {
    /// In a line, its type byte included.
    #[default]
    Line,
    /// After a line's carriage return.
    LineFeed,
    /// In a bulk string with so many bytes to come.
    Bulk(u64),
    /// After a bulk string: the carriage return.
    BulkReturn,
    /// After a bulk string: the line feed.
    BulkFeed,
}

fn malformed(what: impl Into<String>) -> ProtocolError {
    ProtocolError::Malformed {
        protocol: "RESP2",
        what: what.into(),
    }
}

impl RespReader {
    /// See [`super::ReplyReader::feed`].
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        while let Some(&first) = bytes.first() {
            match self.state {
                RespState::Line => bytes = self.take_line(bytes)?,
                RespState::Bulk(missing) => {
                    let here = missing.min(bytes.len() as u64);
                    bytes = &bytes[here as usize..];
                    self.state = match missing - here {
                        0 => RespState::BulkReturn,
                        rest => RespState::Bulk(rest),
                    };
                }
                RespState::LineFeed if first == b'\n' => {
                    bytes = &bytes[1..];
                    self.state = RespState::Line;
                    self.end_line(replies)?;
                    self.line.clear();
                }
                RespState::BulkReturn if first == b'\r' => {
                    bytes = &bytes[1..];
                    self.state = RespState::BulkFeed;
                }
                RespState::BulkFeed if first == b'\n' => {
                    bytes = &bytes[1..];
                    self.state = RespState::Line;
                    self.end_element(replies);
                }
                RespState::LineFeed | RespState::BulkFeed => {
                    return Err(malformed("a carriage return without a line feed"));
                }
                RespState::BulkReturn => {
                    return Err(malformed("a bulk string is longer than it says"));
                }
            }
        }
        Ok(())
    }

    /// Takes bytes up to a carriage return; returns the rest.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
        if self.line.is_empty() && !b"+-:$*".contains(&bytes[0]) {
            let shown = printable(&bytes[..1]);
            return Err(malformed(format!("a reply cannot begin with \"{shown}\"")));
        }
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\r' || *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        if self.line.len() + taken > LINE_LIMIT {
            return Err(ProtocolError::TooLarge {
                what: "a line",
                limit: LINE_LIMIT as u64,
            });
        }
        self.line.extend_from_slice(&bytes[..taken]);
        match end {
            None => Ok(&[]),
            Some(at) if bytes[at] == b'\n' => {
                Err(malformed("a line feed without a carriage return"))
            }
            Some(at) => {
                self.state = RespState::LineFeed;
                Ok(&bytes[at + 1..])
            }
        }
    }

    fn end_line(&mut self, replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        let Some((&kind, text)) = self.line.split_first() else {
            return Err(malformed("an empty line"));
        };
        match kind {
            b'+' => self.end_element(replies),
            b'-' => {
                // An error inside an array (EXEC) is a value of a reply that is none itself.
                if self.open.is_empty() {
                    self.refused = Some(printable(text));
                }
                self.end_element(replies);
            }
            b':' => {
                integer(text)?;
                self.end_element(replies);
            }
            b'$' => match length(text, "a bulk string", BULK_LIMIT)? {
                None => self.end_element(replies),
                Some(0) => self.state = RespState::BulkReturn,
                Some(size) => self.state = RespState::Bulk(size),
            },
            b'*' => match length(text, "an array", ELEMENT_LIMIT)? {
                None | Some(0) => self.end_element(replies),
                Some(count) => self.open_array(count)?,
            },
            _ => return Err(malformed("an unknown type of reply")),
        }
        Ok(())
    }

    fn open_array(&mut self, count: u64) -> Result<(), ProtocolError> {
        if self.open.len() == DEPTH_LIMIT {
            return Err(ProtocolError::TooLarge {
                what: "the nesting of arrays",
                limit: DEPTH_LIMIT as u64,
            });
        }
        self.elements += count;
        if self.elements > ELEMENT_LIMIT {
            return Err(ProtocolError::TooLarge {
                what: "the number of elements",
                limit: ELEMENT_LIMIT,
            });
        }
        self.open.push(count);
        Ok(())
    }

    fn end_element(&mut self, replies: &mut Vec<Reply>) {
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.open.pop();
        }
        self.elements = 0;
        replies.push(Reply {
            id: None,
            at: None,
            refused: self.refused.take(),
        });
    }
}

fn integer(text: &[u8]) -> Result<i64, ProtocolError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed(format!("\"{}\" is no integer", printable(text))))
}

/// A length of `what`; `None` for -1, which stands for a null.
fn length(text: &[u8], what: &'static str, limit: u64) -> Result<Option<u64>, ProtocolError> {
    match integer(text)? {
        -1 => Ok(None),
        count => match u64::try_from(count) {
            Ok(count) if count <= limit => Ok(Some(count)),
            Ok(_) => Err(ProtocolError::TooLarge { what, limit }),
            Err(_) => Err(malformed(format!("{what} of length {count}"))),
        },
    }
}

/// Appends the beginning of a command of so many `arguments`: commands are arrays of bulk strings.
pub fn write_array_header(out: &mut Vec<u8>, arguments: usize) {
    write_header(out, b'*', arguments);
}

/// Appends one argument.
pub fn write_bulk(out: &mut Vec<u8>, argument: &[u8]) {
    write_header(out, b'$', argument.len());
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

fn write_header(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;
    use tailbound_model::Protocol;

    use super::super::splitting::{assert_same_however_split, read_all};
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<Option<String>> {
        let (replies, outcome) = read_all(Protocol::Redis, &[bytes]);
        assert_eq!(outcome, Ok(()));
        replies.into_iter().map(|reply| reply.refused).collect()
    }

    #[test]
    fn finds_the_end_of_every_type() {
        let bytes = b"+OK\r\n:-12\r\n$5\r\na\r\nb!\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n\
            *3\r\n:1\r\n*2\r\n+a\r\n$-1\r\n$1\r\nx\r\n-ERR no\r\n";
        let expected: Vec<Option<String>> = std::iter::repeat_n(None, 8)
            .chain([Some("ERR no".to_string())])
            .collect();
        assert_eq!(texts(bytes), expected);
        assert_same_however_split(Protocol::Redis, bytes);
    }

    #[test]
    fn an_error_inside_an_array_is_a_value() {
        assert_eq!(texts(b"*2\r\n-ERR inner\r\n+OK\r\n+OK\r\n"), [None, None]);
    }

    #[test]
    fn refuses_what_is_not_resp() {
        let cases: [&[u8]; 9] = [
            b"HTTP/1.1 200 OK\r\n",
            b"\r\n",
            b"+OK\n",
            b"+OK\rx",
            b":12a\r\n",
            b":\r\n",
            b"$-2\r\n",
            b"$2\r\nabc\r\n",
            b"$1\r\na\rb",
        ];
        for bytes in cases {
            let outcome = read_all(Protocol::Redis, &[bytes]).1;
            assert!(
                matches!(outcome, Err(ProtocolError::Malformed { .. })),
                "{bytes:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn keeps_its_limits() {
        let deep = b"*1\r\n".repeat(DEPTH_LIMIT + 1);
        let long_line = [b"+".as_slice(), &vec![b'a'; LINE_LIMIT + 1]].concat();
        let many = format!("*2\r\n*{ELEMENT_LIMIT}\r\n");
        let cases: [&[u8]; 5] = [
            &deep,
            &long_line,
            many.as_bytes(),
            b"$536870913\r\n",
            b"*16777217\r\n",
        ];
        for bytes in cases {
            let outcome = read_all(Protocol::Redis, &[bytes]).1;
            assert!(matches!(outcome, Err(ProtocolError::TooLarge { .. })));
        }
        let just_deep_enough = [b"*1\r\n".repeat(DEPTH_LIMIT), b"+x\r\n".to_vec()].concat();
        assert_eq!(texts(&just_deep_enough), [None]);
    }

    #[test]
    fn keeps_nothing_of_a_large_value() {
        let mut reader = RespReader::default();
        let mut replies = Vec::new();
        reader.feed(b"$100000000\r\n", &mut replies).unwrap();
        for _ in 0..100 {
            reader.feed(&[b'x'; 1_000_000], &mut replies).unwrap();
        }
        reader.feed(b"\r\n", &mut replies).unwrap();
        assert_eq!(replies.len(), 1);
        assert!(reader.line.capacity() <= LINE_LIMIT);
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        let line = "[ -~]{0,20}";
        let leaf = prop_oneof![
            line.prop_map(|text| format!("+{text}\r\n").into_bytes()),
            line.prop_map(|text| format!("-{text}\r\n").into_bytes()),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| {
                [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
            }),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop::collection::vec(inner, 0..5).prop_map(|items| {
                [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat()
            })
        })
    }

    proptest! {
        #[test]
        fn counts_generated_replies(values in prop::collection::vec(value(), 0..6)) {
            let bytes = values.concat();
            let (replies, outcome) = read_all(Protocol::Redis, &[&bytes]);
            prop_assert_eq!(outcome, Ok(()));
            prop_assert_eq!(replies.len(), values.len());
            for (reply, value) in replies.iter().zip(&values) {
                prop_assert_eq!(reply.refused.is_some(), value[0] == b'-');
            }
            assert_same_however_split(Protocol::Redis, &bytes);
        }

        #[test]
        fn mutated_replies_never_panic(
            values in prop::collection::vec(value(), 1..4),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let mut bytes = values.concat();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            assert_same_however_split(Protocol::Redis, &bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            assert_same_however_split(Protocol::Redis, &bytes);
        }

        #[test]
        fn near_misses_never_panic(text in "[-+:$*0-9\r\n ]{0,40}") {
            assert_same_however_split(Protocol::Redis, text.as_bytes());
        }
    }
}
