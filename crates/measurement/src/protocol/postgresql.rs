//! Replies of PostgreSQL, protocol 3.0 (<https://www.postgresql.org/docs/current/protocol-message-formats.html>), to simple
//! queries.
//!
//! Only what measuring needs: where a reply ends, and whether it is an error. Rows are skipped, not kept, so a reply of any
//! size costs no memory.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    BACKEND_KEY_DATA_TAG, COMMAND_COMPLETE_TAG, COPY_DATA_TAG, COPY_DONE_TAG, COPY_IN_RESPONSE_TAG,
    COPY_OUT_RESPONSE_TAG, DATA_ROW_TAG, EMPTY_QUERY_RESPONSE_TAG, ERROR_RESPONSE_TAG,
    ErrorResponseBody, Header, Message, NOTICE_RESPONSE_TAG, NOTIFICATION_RESPONSE_TAG,
    PARAMETER_STATUS_TAG, READY_FOR_QUERY_TAG, ROW_DESCRIPTION_TAG,
};

use super::{ProtocolError, Reply, printable};

/// The bytes of a message's type and length.
const HEADER: usize = 5;
/// The longest error taken.
const ERROR_LIMIT: u64 = 64 * 1024;
/// The longest message taken: the server's own limit of an allocation.
const MESSAGE_LIMIT: u64 = 1 << 30;

/// Finds the ends of replies in a stream.
#[derive(Debug, Default)]
pub struct PostgresqlReader {
    header: Vec<u8>,
    /// The type of the message that is under way, and how much of its body is to come.
    body: Option<(u8, u64)>,
    /// The body of an error so far, or of the message that ends a reply.
    kept: BytesMut,
    refused: Option<String>,
}

pub(super) fn malformed(what: impl Into<String>) -> ProtocolError {
    ProtocolError::Malformed {
        protocol: "PostgreSQL",
        what: what.into(),
    }
}

impl PostgresqlReader {
    /// See [`super::ReplyReader::feed`].
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            let Some((kind, missing)) = self.body else {
                let taken = bytes.len().min(HEADER - self.header.len());
                self.header.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                if self.header.len() == HEADER {
                    self.begin_message(replies)?;
                }
                continue;
            };
            let taken = missing.min(bytes.len() as u64) as usize;
            if [ERROR_RESPONSE_TAG, READY_FOR_QUERY_TAG].contains(&kind) {
                self.kept.extend_from_slice(&bytes[..taken]);
            }
            bytes = &bytes[taken..];
            self.body = Some((kind, missing - taken as u64));
            self.end_message(replies)?;
        }
        Ok(())
    }

    /// The server closed: the reply that an error ends, if the last message was one, as where it ends a connection.
    pub(super) fn end(&mut self) -> Option<Reply> {
        let refused = self.refused.take()?;
        Some(Reply {
            id: None,
            at: None,
            refused: Some(refused),
        })
    }

    fn begin_message(&mut self, replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        let header = Header::parse(&self.header).map_err(|cause| malformed(cause.to_string()))?;
        let Some(header) = header else {
            return Ok(());
        };
        let length = u64::try_from(header.len()).unwrap_or_default() - 4;
        let limit = match header.tag() {
            ERROR_RESPONSE_TAG => ERROR_LIMIT,
            READY_FOR_QUERY_TAG if length != 1 => {
                return Err(malformed(format!("the end of a reply has {length} bytes")));
            }
            ROW_DESCRIPTION_TAG
            | DATA_ROW_TAG
            | COMMAND_COMPLETE_TAG
            | EMPTY_QUERY_RESPONSE_TAG
            | NOTICE_RESPONSE_TAG
            | NOTIFICATION_RESPONSE_TAG
            | PARAMETER_STATUS_TAG
            | BACKEND_KEY_DATA_TAG
            | COPY_OUT_RESPONSE_TAG
            | COPY_DATA_TAG
            | COPY_DONE_TAG
            | READY_FOR_QUERY_TAG => MESSAGE_LIMIT,
            COPY_IN_RESPONSE_TAG => {
                return Err(malformed(
                    "a request asks for data to copy, and none is sent",
                ));
            }
            other => {
                let shown = printable(&[other]);
                return Err(malformed(format!("a message of type \"{shown}\"")));
            }
        };
        if length > limit {
            let what = "a message";
            return Err(ProtocolError::TooLarge { what, limit });
        }
        self.body = Some((header.tag(), length));
        self.end_message(replies)
    }

    /// Ends the message under way if all of it is there.
    fn end_message(&mut self, replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        let Some((kind, 0)) = self.body else {
            return Ok(());
        };
        let mut message = BytesMut::from(self.header.as_slice());
        message.unsplit(self.kept.split());
        (self.body, self.kept) = (None, BytesMut::new());
        self.header.clear();
        match kind {
            READY_FOR_QUERY_TAG => replies.push(Reply {
                id: None,
                at: None,
                refused: self.refused.take(),
            }),
            ERROR_RESPONSE_TAG => {
                let text = error_text(&mut message)?;
                self.refused.get_or_insert(text);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The text of an error message.
fn error_text(message: &mut BytesMut) -> Result<String, ProtocolError> {
    match Message::parse(message) {
        Ok(Some(Message::ErrorResponse(body))) => error_words(&body),
        Ok(_) => Err(malformed("an error that is none")),
        Err(cause) => Err(malformed(cause.to_string())),
    }
}

/// The words of an error, with the code that SQL has for it.
pub(super) fn error_words(body: &ErrorResponseBody) -> Result<String, ProtocolError> {
    let (mut code, mut words) = (String::new(), String::new());
    let mut fields = body.fields();
    while let Some(field) = fields
        .next()
        .map_err(|cause| malformed(cause.to_string()))?
    {
        match field.type_() {
            b'C' => code = printable(field.value_bytes()),
            b'M' => words = printable(field.value_bytes()),
            _ => {}
        }
    }
    Ok(match code.is_empty() {
        true => words,
        false => format!("{words} ({code})"),
    })
}

/// Appends a simple query. A zero byte would end the text, and all from it on is left out.
pub fn write_query(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    out.push(b'Q');
    out.extend_from_slice(&(text.len() as u32 + 5).to_be_bytes());
    out.extend_from_slice(text);
    out.push(0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;
    use tailbound_model::Protocol;

    use super::super::splitting::{assert_same_however_split, read_all};
    use super::*;

    /// What PostgreSQL 15 sent for `SELECT 1; SELECT nothing` in one request, and then for an empty one.
    const RECORDED: &[u8] = b"T\0\0\0\x21\0\x01?column?\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0\
        D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0\
        E\0\0\0\x6bSERROR\0VERROR\0C42703\0Mcolumn \"nothing\" does not exist\0P18\0Fparse_relation.c\0L3665\0RerrorMissingColumn\0\0\
        Z\0\0\0\x05II\0\0\0\x04Z\0\0\0\x05I";

    #[test]
    fn a_reply_ends_where_the_server_takes_the_next_query() {
        let (replies, outcome) = read_all(Protocol::Postgresql, &[RECORDED]);
        assert_eq!(outcome, Ok(()));
        let refused: Vec<Option<String>> = replies.into_iter().map(|one| one.refused).collect();
        let absent = "column \"nothing\" does not exist (42703)";
        assert_eq!(refused, [Some(absent.to_string()), None]);
        assert_same_however_split(Protocol::Postgresql, RECORDED);
    }

    #[test]
    fn an_error_that_ends_the_connection_is_a_reply() {
        let mut reader = PostgresqlReader::default();
        let mut replies = Vec::new();
        let bytes = b"E\0\0\0\x20SFATAL\0C57P01\0Mterminating\0\0";
        reader.feed(bytes, &mut replies).unwrap();
        assert!(replies.is_empty());
        let refused = reader.end().unwrap().refused;
        assert_eq!(refused.as_deref(), Some("terminating (57P01)"));
        assert_eq!(reader.end(), None);
    }

    #[test]
    fn refuses_what_is_not_postgresql_and_keeps_its_limits() {
        let malformed: [&[u8]; 5] = [
            b"+OK\r\n",
            b"Z\0\0\0\x04",
            b"G\0\0\0\x07\0\0\0",
            b"D\0\0\0\x03",
            b"E\0\0\0\x05x",
        ];
        for bytes in malformed {
            let outcome = read_all(Protocol::Postgresql, &[bytes]).1;
            let is_malformed = matches!(outcome, Err(ProtocolError::Malformed { .. }));
            assert!(is_malformed, "{bytes:?}: {outcome:?}");
        }
        for bytes in [b"D\x7f\xff\xff\xff", b"E\0\x01\0\x05"] {
            let outcome = read_all(Protocol::Postgresql, &[bytes]).1;
            assert!(matches!(outcome, Err(ProtocolError::TooLarge { .. })));
        }
    }

    #[test]
    fn a_query_ends_with_a_zero_byte() {
        let mut out = Vec::new();
        write_query(&mut out, b"SELECT 1\0; DROP");
        assert_eq!(out, b"Q\0\0\0\x0dSELECT 1\0");
    }

    proptest! {
        #[test]
        fn mutated_replies_never_panic(at: prop::sample::Index, byte: u8) {
            let mut bytes = RECORDED.to_vec();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            assert_same_however_split(Protocol::Postgresql, &bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            assert_same_however_split(Protocol::Postgresql, &bytes);
        }
    }
}
