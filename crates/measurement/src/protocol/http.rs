//! HTTP/1.1 responses to GET, on a connection that is kept (RFC 9112).
//!
//! Only what measuring needs: where a response ends, and its status. Bodies are skipped.

use super::{ProtocolError, Reply, printable};

/// The longest line taken.
const LINE_LIMIT: usize = 16 * 1024;
/// The most bytes taken in one response's header section, or trailer section.
const HEADER_LIMIT: usize = 64 * 1024;
/// The largest body, or chunk, taken.
const BODY_LIMIT: u64 = 1 << 40;

/// Finds the ends of HTTP responses in a stream.
#[derive(Debug, Default)]
pub struct HttpReader {
    state: State,
    line: Vec<u8>,
    header_bytes: usize,
    response: Response,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    StatusLine,
    Header,
    /// A body, or a chunk's data, with so many bytes to come.
    Body {
        missing: u64,
        chunk: bool,
    },
    ChunkSize,
    ChunkEnd,
    Trailer,
    UntilClose,
}

#[derive(Debug, Default)]
struct Response {
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

impl HttpReader {
    /// See [`super::ReplyReader::feed`].
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            match self.state {
                State::UntilClose => return Ok(()),
                State::Body { missing, chunk } => {
                    let here = missing.min(bytes.len() as u64);
                    bytes = &bytes[here as usize..];
                    match missing - here {
                        0 if chunk => self.state = State::ChunkEnd,
                        0 => self.finish(replies),
                        missing => self.state = State::Body { missing, chunk },
                    }
                }
                _ => {
                    bytes = self.take_line(bytes, replies)?;
                }
            }
        }
        Ok(())
    }

    /// See [`super::ReplyReader::end`].
    pub(super) fn end(&mut self) -> Option<Reply> {
        (self.state == State::UntilClose).then(|| self.take_reply())
    }

    fn take_line<'a>(
        &mut self,
        bytes: &'a [u8],
        replies: &mut Vec<Reply>,
    ) -> Result<&'a [u8], ProtocolError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        if self.line.len() + taken > LINE_LIMIT {
            return Err(ProtocolError::TooLarge {
                what: "a line",
                limit: LINE_LIMIT as u64,
            });
        }
        self.line.extend_from_slice(&bytes[..taken]);
        let Some(at) = end else {
            return Ok(&[]);
        };
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        let line = std::mem::take(&mut self.line);
        let outcome = self.end_line(&line, replies);
        self.line = line;
        self.line.clear();
        outcome.map(|()| &bytes[at + 1..])
    }

    fn end_line(&mut self, line: &[u8], replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        match self.state {
            State::StatusLine => {
                self.response = Response {
                    status: status(line)?,
                    ..Response::default()
                };
                self.header_bytes = 0;
                self.state = State::Header;
            }
            State::Header if line.is_empty() => return self.begin_body(replies),
            State::Header => {
                self.count_header(line)?;
                self.response.take_field(line)?;
            }
            State::ChunkSize => match chunk_size(line)? {
                0 => {
                    self.header_bytes = 0;
                    self.state = State::Trailer;
                }
                missing => {
                    self.state = State::Body {
                        missing,
                        chunk: true,
                    };
                }
            },
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => return Err(malformed("a chunk is longer than it says")),
            State::Trailer if line.is_empty() => self.finish(replies),
            State::Trailer => self.count_header(line)?,
            State::Body { .. } | State::UntilClose => {}
        }
        Ok(())
    }

    fn count_header(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        self.header_bytes += line.len() + 2;
        if self.header_bytes > HEADER_LIMIT {
            return Err(ProtocolError::TooLarge {
                what: "the header section",
                limit: HEADER_LIMIT as u64,
            });
        }
        Ok(())
    }

    fn begin_body(&mut self, replies: &mut Vec<Reply>) -> Result<(), ProtocolError> {
        match self.response.status {
            101 => return Err(malformed("the service switches protocols, unasked")),
            // Interim responses; the final one follows.
            100..=199 => self.state = State::StatusLine,
            204 | 304 => self.finish(replies),
            _ if self.response.chunked => self.state = State::ChunkSize,
            _ => match self.response.length {
                Some(0) => self.finish(replies),
                Some(missing) => {
                    self.state = State::Body {
                        missing,
                        chunk: false,
                    };
                }
                None => self.state = State::UntilClose,
            },
        }
        Ok(())
    }

    fn finish(&mut self, replies: &mut Vec<Reply>) {
        let reply = self.take_reply();
        replies.push(reply);
    }

    fn take_reply(&mut self) -> Reply {
        self.state = State::StatusLine;
        let status = self.response.status;
        let mut reply = Reply::good();
        if status >= 400 {
            reply.refused = Some(format!("HTTP status {status}"));
        }
        reply
    }
}

impl Response {
    fn take_field(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(malformed(format!(
                "\"{}\" is no header field",
                printable(line)
            )));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = decimal(value)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(malformed("two different lengths of one body"));
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or(value);
            self.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }
}

fn status(line: &[u8]) -> Result<u16, ProtocolError> {
    let bad = || malformed(format!("\"{}\" is no status line", printable(line)));
    let rest = line.strip_prefix(b"HTTP/1.").ok_or_else(bad)?;
    // One digit of minor version, a space, three digits, and a space or the end.
    let (b' ', Some(code)) = (*rest.get(1).ok_or_else(bad)?, rest.get(2..5)) else {
        return Err(bad());
    };
    let fine = rest[0].is_ascii_digit()
        && code.iter().all(u8::is_ascii_digit)
        && rest.get(5).is_none_or(|byte| *byte == b' ');
    let code = code.iter().fold(0_u16, |sum, digit| {
        sum * 10 + u16::from(digit.wrapping_sub(b'0')) % 10
    });
    (fine && code >= 100).then_some(code).ok_or_else(bad)
}

fn decimal(text: &[u8]) -> Result<u64, ProtocolError> {
    let bad = || malformed(format!("\"{}\" is no length", printable(text)));
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(text).map_err(|_| bad())?;
    within_limit(text.parse().unwrap_or(u64::MAX))
}

fn chunk_size(line: &[u8]) -> Result<u64, ProtocolError> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or(line);
    let size = size.trim_ascii();
    let bad = || malformed(format!("\"{}\" is no chunk size", printable(line)));
    if size.is_empty() || !size.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(size).map_err(|_| bad())?;
    within_limit(u64::from_str_radix(text, 16).unwrap_or(u64::MAX))
}

fn within_limit(size: u64) -> Result<u64, ProtocolError> {
    if size > BODY_LIMIT {
        return Err(ProtocolError::TooLarge {
            what: "a body",
            limit: BODY_LIMIT,
        });
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
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
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
    fn keeps_its_limits() {
        let line = "x".repeat(LINE_LIMIT + 1);
        let field = format!("a: {}\r\n", "x".repeat(1000)).repeat(70);
        let cases = [
            line,
            format!("HTTP/1.1 200 OK\r\n{field}"),
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n".into(),
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
