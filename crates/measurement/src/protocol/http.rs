//! HTTP/1.1 responses to GET, on a connection that is kept (RFC 9112).
//!
//! `httparse` reads heads, trailers and chunk sizes. This module adds the framing: where a response ends, and
//! its status. Bodies are skipped, except that of a report.

use httparse::{EMPTY_HEADER, Header, Status};

use super::{ProtocolError, Reply, printable};

/// The most bytes taken of one head, trailer section or chunk size.
const SECTION_LIMIT: usize = 64 * 1024;
/// The most fields taken of one head or trailer section.
const FIELD_LIMIT: usize = 256;
/// The largest body, or chunk, taken.
const BODY_LIMIT: u64 = 1 << 40;
/// The number of bytes by which a section grows that came in several pieces: few are read a second time.
const PIECE: usize = 1024;

/// Finds the ends of HTTP responses in a stream.
#[derive(Debug, Default)]
pub struct HttpReader {
    state: HttpState,
    /// The part that has come of a section that is not complete.
    section: Vec<u8>,
    status: u16,
    kept: Option<KeptBody>,
}

/// The body of the one response that is read for its body.
#[derive(Debug)]
struct KeptBody {
    bytes: Vec<u8>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HttpState {
    #[default]
    Head,
    /// A body, or the data of a chunk, with so many bytes to come.
    Body {
        missing: u64,
        chunk: bool,
    },
    ChunkSize,
    ChunkEnd,
    Trailer,
    UntilClose,
}

/// A part of a response that ends with an end of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseSection {
    Head(ResponseHead),
    ChunkSize(u64),
    ChunkEnd,
    Trailer,
}

/// The fields of a head that say where the response ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ResponseHead {
    status: u16,
    length: Option<u64>,
    chunked: bool,
}

fn malformed(what: impl Into<String>) -> ProtocolError {
    ProtocolError::Malformed {
        protocol: "HTTP/1.1",
        what: what.into(),
    }
}

fn too_large(what: &'static str, limit: u64) -> ProtocolError {
    ProtocolError::TooLarge { what, limit }
}

impl HttpReader {
    /// A reader of one response, which keeps its body of so many bytes at most.
    pub(crate) fn of_body(limit: usize) -> Self {
        let bytes = Vec::new();
        Self {
            kept: Some(KeptBody { bytes, limit }),
            ..Self::default()
        }
    }

    /// The status and the body of the response of which [`Self::feed`] or [`Self::end`] has told, with the reader from
    /// [`Self::of_body`].
    pub(crate) fn into_response(self) -> (u16, Vec<u8>) {
        (
            self.status,
            self.kept.map_or_else(Vec::new, |kept| kept.bytes),
        )
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        if kept.bytes.len() + bytes.len() > kept.limit {
            return Err(too_large("the body", kept.limit as u64));
        }
        kept.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// See [`super::ReplyReader::feed`].
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            match self.state {
                // What follows the response is none of the report.
                _ if self.kept.is_some() && !replies.is_empty() => return Ok(()),
                HttpState::UntilClose => return self.keep(bytes),
                HttpState::Body { missing, chunk } => {
                    let here = missing.min(bytes.len() as u64);
                    self.keep(&bytes[..here as usize])?;
                    bytes = &bytes[here as usize..];
                    match missing - here {
                        0 if chunk => self.state = HttpState::ChunkEnd,
                        0 => self.finish(replies),
                        missing => self.state = HttpState::Body { missing, chunk },
                    }
                }
                _ => bytes = self.take_section(bytes, replies)?,
            }
        }
        Ok(())
    }

    /// See [`super::ReplyReader::end`].
    pub(crate) fn end(&mut self) -> Option<Reply> {
        (self.state == HttpState::UntilClose).then(|| self.take_reply())
    }

    /// Takes bytes of the section that the state expects, and returns the rest.
    fn take_section<'a>(
        &mut self,
        bytes: &'a [u8],
        replies: &mut Vec<Reply>,
    ) -> Result<&'a [u8], ProtocolError> {
        let earlier = self.section.len();
        let room = SECTION_LIMIT - earlier;
        let piece = if earlier == 0 { room } else { room.min(PIECE) };
        let (now, rest) = bytes.split_at(piece.min(bytes.len()));
        let section = if earlier == 0 {
            read_section(self.state, now)?
        } else {
            self.section.extend_from_slice(now);
            read_section(self.state, &self.section)?
        };
        if let Some((length, section)) = section {
            self.section.clear();
            self.end_section(section, replies)?;
            return Ok(&bytes[length - earlier..]);
        }
        if earlier == 0 {
            self.section.extend_from_slice(now);
        }
        if self.section.len() == SECTION_LIMIT {
            return Err(too_large("the header section", SECTION_LIMIT as u64));
        }
        Ok(rest)
    }

    fn end_section(
        &mut self,
        section: ResponseSection,
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        match section {
            ResponseSection::Head(head) => return self.begin_body(head, replies),
            ResponseSection::ChunkSize(0) => self.state = HttpState::Trailer,
            ResponseSection::ChunkSize(missing) => {
                self.state = HttpState::Body {
                    missing,
                    chunk: true,
                };
            }
            ResponseSection::ChunkEnd => self.state = HttpState::ChunkSize,
            ResponseSection::Trailer => self.finish(replies),
        }
        Ok(())
    }

    fn begin_body(
        &mut self,
        head: ResponseHead,
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        self.status = head.status;
        match head.status {
            101 => return Err(malformed("the service switches protocols, unasked")),
            // Interim responses; the final one follows.
            100..=199 => self.state = HttpState::Head,
            204 | 304 => self.finish(replies),
            _ if head.chunked => self.state = HttpState::ChunkSize,
            _ => match head.length {
                Some(0) => self.finish(replies),
                Some(missing) => {
                    self.state = HttpState::Body {
                        missing,
                        chunk: false,
                    };
                }
                None => self.state = HttpState::UntilClose,
            },
        }
        Ok(())
    }

    fn finish(&mut self, replies: &mut Vec<Reply>) {
        let reply = self.take_reply();
        replies.push(reply);
    }

    fn take_reply(&mut self) -> Reply {
        self.state = HttpState::Head;
        let mut reply = Reply::good();
        if self.status >= 400 {
            reply.refused = Some(format!("HTTP status {}", self.status));
        }
        reply
    }
}

/// The section at the start of `bytes` with its length; `None` if more bytes are to come.
fn read_section(
    state: HttpState,
    bytes: &[u8],
) -> Result<Option<(usize, ResponseSection)>, ProtocolError> {
    let mut fields = [EMPTY_HEADER; FIELD_LIMIT];
    match state {
        HttpState::ChunkSize => match httparse::parse_chunk_size(bytes) {
            Ok(Status::Complete((length, size))) => Ok(Some((
                length,
                ResponseSection::ChunkSize(within_limit(size)?),
            ))),
            Ok(Status::Partial) => Ok(None),
            Err(_) => Err(malformed("a chunk without a size")),
        },
        HttpState::ChunkEnd => match bytes {
            [b'\n', ..] => Ok(Some((1, ResponseSection::ChunkEnd))),
            [b'\r', b'\n', ..] => Ok(Some((2, ResponseSection::ChunkEnd))),
            [b'\r'] => Ok(None),
            _ => Err(malformed("a chunk is longer than it says")),
        },
        HttpState::Trailer => match httparse::parse_headers(bytes, &mut fields).map_err(refusal)? {
            Status::Complete((length, _)) => Ok(Some((length, ResponseSection::Trailer))),
            Status::Partial => Ok(None),
        },
        HttpState::Head | HttpState::Body { .. } | HttpState::UntilClose => {
            let mut response = httparse::Response::new(&mut fields);
            let Status::Complete(length) = response.parse(bytes).map_err(refusal)? else {
                return Ok(None);
            };
            let head = ResponseHead::new(response.code.unwrap_or_default(), response.headers)?;
            Ok(Some((length, ResponseSection::Head(head))))
        }
    }
}

fn refusal(error: httparse::Error) -> ProtocolError {
    match error {
        httparse::Error::TooManyHeaders => {
            too_large("the number of header fields", FIELD_LIMIT as u64)
        }
        error => malformed(error.to_string()),
    }
}

impl ResponseHead {
    fn new(status: u16, fields: &[Header<'_>]) -> Result<Self, ProtocolError> {
        if status < 100 {
            return Err(malformed(format!("{status} is no status")));
        }
        let mut head = Self {
            status,
            ..Self::default()
        };
        for field in fields {
            let value = field.value.trim_ascii();
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = decimal(value)?;
                if head.length.is_some_and(|before| before != length) {
                    return Err(malformed("two different lengths of one body"));
                }
                head.length = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or(value);
                head.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            }
        }
        Ok(head)
    }
}

fn decimal(text: &[u8]) -> Result<u64, ProtocolError> {
    let bad = || malformed(format!("\"{}\" is no length", printable(text)));
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(text).map_err(|_| bad())?;
    within_limit(text.parse().unwrap_or(u64::MAX))
}

fn within_limit(size: u64) -> Result<u64, ProtocolError> {
    if size > BODY_LIMIT {
        return Err(too_large("a body", BODY_LIMIT));
    }
    Ok(size)
}

/// Appends a GET request for `path` that keeps the connection.
pub fn write_get(out: &mut Vec<u8>, path: &[u8], host: &[u8]) {
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(path);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\nUser-Agent: tailbound\r\nAccept: */*\r\n\r\n");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;
    use tailbound_model::Protocol;

    use super::super::splitting::{assert_same_however_split, read_all};
    use super::*;

    const SEVERAL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.0 503 Busy\r\ncontent-length: 0\r\n\r\n\
        HTTP/1.1 200\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\
        Trailer: x\r\n\r\nHTTP/1.1 304 Same\r\nContent-Length: 99\r\n\r\n";

    #[test]
    fn finds_the_end_of_every_kind() {
        let (replies, outcome) = read_all(Protocol::Http, &[SEVERAL]);
        assert_eq!(outcome, Ok(()));
        let refused: Vec<_> = replies
            .iter()
            .map(|reply| reply.refused.as_deref())
            .collect();
        assert_eq!(refused, [None, None, Some("HTTP status 503"), None, None]);
        assert_same_however_split(Protocol::Http, SEVERAL);
    }

    #[test]
    fn a_response_without_length_ends_with_the_connection() {
        let mut reader = HttpReader::default();
        let mut replies = Vec::new();
        reader
            .feed(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200", &mut replies)
            .unwrap();
        assert!(replies.is_empty());
        assert_eq!(reader.end(), Some(Reply::good()));
        assert_eq!(reader.end(), None);
    }

    #[test]
    fn refuses_what_is_not_http() {
        let cases = [
            "+OK\r\n",
            "HTTP/2 200\r\n",
            "HTTP/1.1 2x0 OK\r\n",
            "HTTP/1.1 2000\r\n",
            "HTTP/1.1 200 OK\r\nno field\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 099 Early\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 101 Switch\r\n\r\n",
        ];
        for text in cases {
            let outcome = read_all(Protocol::Http, &[text.as_bytes()]).1;
            assert!(
                matches!(outcome, Err(ProtocolError::Malformed { .. })),
                "{text:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn the_body_of_a_report_is_kept() {
        let read = |text: &str, limit: usize| {
            let mut reader = HttpReader::of_body(limit);
            let mut replies = Vec::new();
            for byte in text.as_bytes() {
                reader.feed(&[*byte], &mut replies)?;
            }
            replies.extend(reader.end());
            Ok((replies.len(), reader.into_response()))
        };
        let head = "HTTP/1.1 200 OK\r\n";
        for (rest, body) in [
            ("Content-Length: 5\r\n\r\nhellotail", "hello"),
            ("\r\nuntil the end", "until the end"),
            (
                "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                "hello",
            ),
            ("Content-Length: 0\r\n\r\n", ""),
        ] {
            let text = format!("{head}{rest}");
            assert_eq!(read(&text, 13), Ok((1, (200, body.into()))));
        }
        let long = format!("{head}\r\n12345");
        assert!(matches!(
            read(&long, 4),
            Err(ProtocolError::TooLarge { .. })
        ));
        let early = read(&format!("{head}Content-Length: 9\r\n\r\nshort"), 9);
        assert_eq!(early.map(|(replies, _)| replies), Ok(0));
    }

    #[test]
    fn keeps_its_limits() {
        let line = format!("HTTP/1.1 200 {}", "x".repeat(SECTION_LIMIT));
        let fields = "a: b\r\n".repeat(FIELD_LIMIT + 1);
        let field = format!("a: {}\r\n", "x".repeat(1000)).repeat(70);
        let cases = [
            line,
            format!("HTTP/1.1 200 OK\r\n{field}"),
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n".into(),
        ];
        for text in cases {
            let outcome = read_all(Protocol::Http, &[text.as_bytes()]).1;
            assert!(matches!(outcome, Err(ProtocolError::TooLarge { .. })));
        }
    }

    proptest! {
        #[test]
        fn mutated_responses_never_panic(at: prop::sample::Index, byte: u8) {
            let mut bytes = SEVERAL.to_vec();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            assert_same_however_split(Protocol::Http, &bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            assert_same_however_split(Protocol::Http, &bytes);
        }
    }
}
