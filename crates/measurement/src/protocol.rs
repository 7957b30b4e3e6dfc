//! What is spoken with services: the readers of replies, and the synthetic service's frames.
//!
//! Every reader takes bytes in pieces of any size, keeps at most one line of them, and stops for
//! good at the first byte that its protocol does not allow: whoever answers is not trusted.

pub mod frame;
pub mod http;
pub mod postgresql;
pub mod postgresql_login;
pub mod resp;

use tailbound_model::Protocol;
use tailbound_time::Instant;

/// One complete reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request that it answers, where the protocol says so; otherwise the oldest one open.
    pub id: Option<u64>,
    /// The text of the error, if it is one.
    pub refused: Option<String>,
    /// When it came, where that is known more exactly than by when it was read.
    pub at: Option<Instant>,
}

impl Reply {
    fn good() -> Self {
        Self {
            id: None,
            refused: None,
            at: None,
        }
    }
}

/// Why bytes are no reply of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The bytes break the protocol's grammar.
    #[error("not {protocol}: {what}; does the service speak {protocol}?")]
    Malformed {
        /// Which protocol.
        protocol: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The reply is larger than is taken from an untrusted peer.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// What of it.
        what: &'static str,
        /// How much is taken.
        limit: u64,
    },
}

/// Reads one connection's replies.
#[derive(Debug)]
pub struct ReplyReader {
    grammar: Grammar,
    broken: Option<ProtocolError>,
}

#[derive(Debug)]
enum Grammar {
    Resp(resp::RespReader),
    Frame(frame::ReplyFrameReader),
    Echo(frame::EchoFrameReader),
    Http(http::HttpReader),
    Postgresql(postgresql::PostgresqlReader),
}

impl ReplyReader {
    /// A reader for a new connection.
    pub fn new(protocol: Protocol) -> Self {
        let grammar = match protocol {
            Protocol::Redis => Grammar::Resp(resp::RespReader::default()),
            Protocol::Synthetic => Grammar::Frame(frame::ReplyFrameReader::default()),
            Protocol::IcmpEcho => Grammar::Echo(frame::EchoFrameReader::default()),
            Protocol::Http => Grammar::Http(http::HttpReader::default()),
            Protocol::Postgresql => Grammar::Postgresql(postgresql::PostgresqlReader::default()),
        };
        Self {
            grammar,
            broken: None,
        }
    }

    /// Takes `bytes` as they came and appends the replies that they complete.
    ///
    /// # Errors
    /// The first breach of the protocol, and the same one ever after.
    pub fn feed(&mut self, bytes: &[u8], replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let outcome = match &mut self.grammar {
            Grammar::Resp(reader) => reader.feed(bytes, replies),
            Grammar::Frame(reader) => reader.feed(bytes, replies),
            Grammar::Echo(reader) => reader.feed(bytes, replies),
            Grammar::Http(reader) => reader.feed(bytes, replies),
            Grammar::Postgresql(reader) => reader.feed(bytes, replies),
        };
        if let Err(error) = &outcome {
            self.broken = Some(error.clone());
        }
        outcome
    }

    /// The peer closed: the reply that this completes, if there is one (HTTP without a length, an error of PostgreSQL).
    pub fn end(&mut self) -> Option<Reply> {
        match (&mut self.grammar, &self.broken) {
            (Grammar::Http(reader), None) => reader.end(),
            (Grammar::Postgresql(reader), None) => reader.end(),
            _ => None,
        }
    }
}

/// An error text from a peer, in a form that can be printed: one line, at most 200 characters.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() { '.' } else { c })
        .take(200)
        .collect()
}

#[cfg(test)]
pub(crate) mod splitting {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// What a reader makes of `pieces`, fed one after the other.
    pub(crate) fn read_all(
        protocol: Protocol,
        pieces: &[&[u8]],
    ) -> (Vec<Reply>, Result<(), ProtocolError>) {
        let mut reader = ReplyReader::new(protocol);
        let mut replies = Vec::new();
        for piece in pieces {
            if let Err(error) = reader.feed(piece, &mut replies) {
                assert_eq!(
                    reader.feed(b"+OK\r\n", &mut replies),
                    Err(error.clone()),
                    "an error stays"
                );
                return (replies, Err(error));
            }
        }
        (replies, Ok(()))
    }

    /// Asserts that `bytes` mean the same in one piece, byte by byte, and cut at every place.
    pub(crate) fn assert_same_however_split(protocol: Protocol, bytes: &[u8]) {
        let whole = read_all(protocol, &[bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read_all(protocol, &single), whole, "byte by byte");
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(read_all(protocol, &[left, right]), whole, "cut at {cut}");
        }
    }
}
