//! One request for what an application reports of itself, over HTTP/1.1, with or without TLS.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::connect_within;
use tailbound_time::{Clock, Duration, Instant};

use crate::endpoint::TlsClient;
use crate::protocol::ProtocolError;
use crate::protocol::http::HttpReader;
use crate::socket_watch::SocketWatch;
use crate::stream::Stream;
use crate::tls::TlsSession;

/// How much is read at once, in bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// The status of an answer with a report.
const STATUS_GOOD: u16 = 200;

/// The socket at which an application answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportSocket<'a> {
    /// The first of these addresses that takes a connection.
    Tcp(&'a [SocketAddr]),
    /// A Unix socket.
    Unix(&'a Path),
}

/// `ReportRequest` is a request for a report, on a connection of its own.
#[derive(Clone, Debug)]
pub struct ReportRequest<'a> {
    /// The socket.
    pub socket: ReportSocket<'a>,
    /// What the connection knows of TLS; nothing is encrypted without.
    pub tls: Option<&'a Arc<TlsClient>>,
    /// The host, and the port if it is no usual one, as the head of the request has them.
    pub host: &'a str,
    /// The path with its query.
    pub path: &'a str,
    /// The media types that are taken.
    pub accept: &'a str,
    /// The time from the connection to the end of the answer.
    pub within: Duration,
    /// The longest report that is taken, in bytes.
    pub limit_bytes: usize,
}

/// Why a request has no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportRequestError {
    /// The application did not answer in time.
    #[error("no whole answer within {0}")]
    TooLate(Duration),
    /// Nobody takes connections, or the connection breaks.
    #[error("{0}")]
    Connection(io::Error),
    /// The answer is not HTTP, or too long.
    #[error("{0}")]
    Answer(ProtocolError),
    /// The answer is no report.
    #[error("the answer has status {0}")]
    Status(u16),
    /// The connection ended within the answer.
    #[error("the answer ends early")]
    EndsEarly,
}

/// Asks an application for a report; the report is the body of the answer.
///
/// # Errors
/// Why there is no report.
pub fn fetch_report(request: &ReportRequest<'_>) -> Result<Vec<u8>, ReportRequestError> {
    let give_up = Monotonic.now().saturating_add(request.within);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            ReportRequestError::TooLate(request.within)
        }
        _ => ReportRequestError::Connection(error),
    };
    let mut stream = request.connect(give_up).map_err(failed)?;
    let left = left_until(give_up).map_err(failed)?;
    let mut watch = SocketWatch::begin(stream.socket(), left).map_err(failed)?;
    request.send(&mut stream, &mut watch).map_err(failed)?;
    let mut reader = HttpReader::of_body(request.limit_bytes);
    let (mut replies, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    while replies.is_empty() {
        match stream.read_some(&mut piece).map_err(failed)? {
            None => watch
                .wait(stream.socket(), stream.has_unsent())
                .map_err(failed)?,
            Some(0) => {
                let last = reader.end().ok_or(ReportRequestError::EndsEarly)?;
                replies.push(last);
            }
            // An application that sends without end is not waited for longer than one that sends nothing.
            Some(count) => {
                left_until(give_up).map_err(failed)?;
                let fed = reader.feed(&piece[..count], &mut replies);
                fed.map_err(ReportRequestError::Answer)?;
            }
        }
    }
    match reader.into_response() {
        (STATUS_GOOD, body) => Ok(body),
        (status, _) => Err(ReportRequestError::Status(status)),
    }
}

/// The time that is left.
fn left_until(give_up: Instant) -> io::Result<Duration> {
    match give_up.saturating_since(Monotonic.now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

impl ReportRequest<'_> {
    fn connect(&self, give_up: Instant) -> io::Result<Stream> {
        let stream = match self.socket {
            ReportSocket::Unix(path) => Stream::of_unix(connect_within(path, self.within)?)?,
            ReportSocket::Tcp(addresses) => Stream::of_tcp(connected(addresses, give_up)?)?,
        };
        match self.tls {
            None => Ok(stream),
            Some(client) => Ok(stream.encrypted(TlsSession::begin(client)?)),
        }
    }

    fn send(&self, stream: &mut Stream, watch: &mut SocketWatch) -> io::Result<()> {
        while !stream.shake_hands()? {
            watch.wait(stream.socket(), stream.has_unsent())?;
        }
        let text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tailbound\r\nAccept: {}\r\nConnection: close\r\n\r\n",
            self.path, self.host, self.accept
        );
        let mut unsent = text.as_bytes();
        loop {
            let taken = stream.write_some(unsent)?;
            unsent = &unsent[taken..];
            if unsent.is_empty() && !stream.has_unsent() {
                return Ok(());
            }
            watch.wait(stream.socket(), true)?;
        }
    }
}

/// A connection to the first address that takes one.
fn connected(addresses: &[SocketAddr], give_up: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in addresses {
        let left = std::time::Duration::from_nanos(left_until(give_up)?.as_nanos());
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
