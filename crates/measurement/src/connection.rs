//! One client's connection: never blocks, keeps what could not be written yet.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::control_socket::connect_non_blocking;
use tailbound_model::{HttpVersion, Protocol};
use tailbound_time::{Clock, Duration};

use crate::endpoint::WebEndpoint;
use crate::handshake::{await_settings, await_tls};
use crate::http2::Http2Link;
use crate::message_link::{self, MessageLink};
use crate::protocol::frame::FRAME_BYTES;
use crate::protocol::postgresql_login::{DatabaseUser, PostgresqlLogin};
use crate::protocol::{Reply, ReplyReader};
use crate::request::{Filling, RequestTemplate};
use crate::stream::Stream;
use crate::tls::{LastingTlsFault, TlsSession};
use crate::{Endpoint, MeasurementError};

/// How long a connection may take to be accepted into the service's queue.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long a login may take: the service may be throttled.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);
/// How long to wait before it is looked again for bytes of a login.
const LOGIN_LOOK: Duration = Duration::from_millis(1);

/// One connection, with the requests that it waits for.
#[derive(Debug)]
pub(crate) struct Connection {
    form: ConnectionForm,
    reader: ReplyReader,
    /// What is to be written, from `written` on.
    pub(crate) out: Vec<u8>,
    written: usize,
    /// The requests without a reply, in the order of sending.
    pub(crate) awaiting: VecDeque<usize>,
    /// Replies that were there before anything was read, such as to a request that cannot be sent.
    early: Vec<Reply>,
}

/// The forms of a connection.
#[derive(Debug)]
enum ConnectionForm {
    /// Bytes in order.
    Stream(Stream),
    /// A stream of HTTP/2 for each request and its reply.
    Http2(Box<Http2Link>),
    /// A message for each request and each reply.
    Messages(Box<dyn MessageLink>),
}

/// What reading a connection came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// There is no more for now.
    Drained,
    /// The peer closed, or the connection broke, or it answers garbage.
    Broken(String),
}

impl Connection {
    /// Connects to `endpoint`, and waits until requests can be sent: for a login, for the handshake of TLS, and for the
    /// settings of HTTP/2.
    ///
    /// # Errors
    /// [`MeasurementError::Connect`], [`MeasurementError::Service`] if a login or a handshake fails,
    /// [`MeasurementError::Handshake`] if it fails for good.
    pub(crate) fn open(endpoint: &Endpoint, protocol: Protocol) -> Result<Self, MeasurementError> {
        let Endpoint::Web(web) = endpoint else {
            return Self::begin(endpoint, protocol);
        };
        let connect = |cause| MeasurementError::Connect {
            endpoint: endpoint.to_string(),
            cause,
        };
        let mut stream = web_stream(web).map_err(connect)?;
        await_tls(&mut stream, web.version).map_err(|cause| {
            let (endpoint, reason) = (endpoint.to_string(), cause.to_string());
            match LastingTlsFault::is_cause_of(&cause) {
                true => MeasurementError::Handshake { endpoint, reason },
                false => failed_step(endpoint, "the handshake of TLS", reason),
            }
        })?;
        let mut form = web_form(web, stream).map_err(connect)?;
        if let ConnectionForm::Http2(link) = &mut form {
            await_settings(link).map_err(|cause| {
                failed_step(endpoint.to_string(), "the first ping", cause.to_string())
            })?;
        }
        Ok(Self::over(form, protocol))
    }

    /// Connects to `endpoint`. The handshake of TLS and the settings of HTTP/2 come with the first reads and writes, so that
    /// nobody but the first request of this connection waits for them.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub(crate) fn begin(endpoint: &Endpoint, protocol: Protocol) -> Result<Self, MeasurementError> {
        let mut form = connect(endpoint).map_err(|cause| MeasurementError::Connect {
            endpoint: endpoint.to_string(),
            cause,
        })?;
        if let (Endpoint::Database(database), ConnectionForm::Stream(stream)) =
            (endpoint, &mut form)
        {
            log_in(stream, &database.user)
                .map_err(|cause| failed_step(endpoint.to_string(), "the login", cause))?;
        }
        Ok(Self::over(form, protocol))
    }

    fn over(form: ConnectionForm, protocol: Protocol) -> Self {
        Self {
            form,
            reader: ReplyReader::new(protocol),
            out: Vec::with_capacity(4096),
            written: 0,
            awaiting: VecDeque::with_capacity(64),
            early: Vec::new(),
        }
    }

    /// Adds a request to what is to be written; `scratch` is overwritten.
    pub(crate) fn ask(
        &mut self,
        template: &RequestTemplate,
        scratch: &mut Vec<u8>,
        filling: &mut Filling,
    ) {
        let Some((link, host)) = self.streams().zip(template.host()) else {
            return template.write(&mut self.out, scratch, filling);
        };
        let number = filling.index;
        template.fill_path(scratch, filling);
        link.ask(number, host.clone(), scratch);
    }

    /// The request that a reply on this connection answers, if one is open.
    pub(crate) fn take_answered(&mut self, reply: &Reply) -> Option<usize> {
        let Some(number) = reply.id.map(usize::try_from) else {
            return self.awaiting.pop_front();
        };
        let number = number.ok()?;
        // Replies come nearly in the order of the requests.
        if let Some(place) = self.awaiting.iter().position(|open| *open == number) {
            self.awaiting.remove(place);
        }
        Some(number)
    }

    /// The requests that the service will not begin on this connection, in their order.
    pub(crate) fn take_unprocessed(&mut self) -> Vec<usize> {
        let Some(link) = self.streams() else {
            return Vec::new();
        };
        let mut numbers = link.take_unprocessed();
        numbers.sort_unstable();
        let numbers: Vec<usize> = numbers.iter().map(|number| *number as usize).collect();
        self.awaiting
            .retain(|open| numbers.binary_search(open).is_err());
        numbers
    }

    /// Whether the service takes no new requests on this connection, though it may answer those that it has.
    pub(crate) fn is_going_away(&self) -> bool {
        matches!(&self.form, ConnectionForm::Http2(link) if link.is_going_away())
    }

    /// Whether writing has brought replies, or the end, of which no event tells.
    pub(crate) fn has_news(&self) -> bool {
        let is_over = match &self.form {
            ConnectionForm::Http2(link) => link.end().is_some() || link.has_unprocessed(),
            _ => false,
        };
        is_over || !self.early.is_empty()
    }

    /// The most streams that were open at once; `None` where no streams are spoken.
    pub(crate) fn streams_at_once(&self) -> Option<u64> {
        match &self.form {
            ConnectionForm::Http2(link) => Some(link.most_streams()),
            _ => None,
        }
    }

    /// The streams of HTTP/2, where that is spoken.
    fn streams(&mut self) -> Option<&mut Http2Link> {
        match &mut self.form {
            ConnectionForm::Http2(link) => Some(link),
            _ => None,
        }
    }

    /// Writes what the kernel takes now of what is to be written.
    ///
    /// # Errors
    /// A broken connection.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let unsent = &self.out[self.written..];
        self.written += match &mut self.form {
            ConnectionForm::Http2(link) => {
                link.write(&mut self.early);
                return Ok(());
            }
            ConnectionForm::Stream(stream) => stream.write_some(unsent)?,
            ConnectionForm::Messages(link) => send_some(link.as_mut(), unsent)?,
        };
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        Ok(())
    }

    /// This end, as [`tailbound_linux::sockets`] names ends.
    ///
    /// # Errors
    /// What the kernel says of the descriptor.
    pub(crate) fn end(&self) -> io::Result<String> {
        match &self.form {
            ConnectionForm::Stream(stream) => stream.socket().end(),
            ConnectionForm::Http2(link) => link.socket().end(),
            ConnectionForm::Messages(link) => link.end(),
        }
    }

    /// Whether something is left to write.
    pub(crate) fn wants_to_write(&self) -> bool {
        match &self.form {
            ConnectionForm::Http2(link) => link.wants_to_write(),
            ConnectionForm::Stream(stream) => self.written < self.out.len() || stream.has_unsent(),
            ConnectionForm::Messages(_) => self.written < self.out.len(),
        }
    }

    /// Reads what is there and appends the replies that it completes.
    pub(crate) fn read(&mut self, buffer: &mut [u8], replies: &mut Vec<Reply>) -> ReadEnd {
        let stream = match &mut self.form {
            ConnectionForm::Stream(stream) => stream,
            ConnectionForm::Http2(link) => {
                replies.append(&mut self.early);
                link.read(replies);
                return match link.end() {
                    None => ReadEnd::Drained,
                    Some(why) => ReadEnd::Broken(why.to_owned()),
                };
            }
            ConnectionForm::Messages(link) => {
                return match receive_all(link.as_mut(), &mut self.reader, replies) {
                    Ok(()) => ReadEnd::Drained,
                    Err(why) => ReadEnd::Broken(why),
                };
            }
        };
        loop {
            match stream.read_some(buffer) {
                Ok(None) => return ReadEnd::Drained,
                Ok(Some(0)) => {
                    replies.extend(self.reader.end());
                    return ReadEnd::Broken("the service closed the connection".into());
                }
                Ok(Some(count)) => {
                    if let Err(error) = self.reader.feed(&buffer[..count], replies) {
                        return ReadEnd::Broken(error.to_string());
                    }
                    // A short read has emptied the socket; what comes later is reported later.
                    if count < buffer.len() && stream.is_emptied_by_short_read() {
                        return ReadEnd::Drained;
                    }
                }
                Err(error) => return ReadEnd::Broken(format!("the connection broke: {error}")),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.form {
            ConnectionForm::Stream(stream) => stream.socket().as_fd(),
            ConnectionForm::Http2(link) => link.socket().as_fd(),
            ConnectionForm::Messages(link) => link.watched(),
        }
    }
}

/// Sends frames as long as there is room; how many bytes of them that were.
fn send_some(link: &mut dyn MessageLink, frames: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while let Some(frame) = frames[sent..].first_chunk::<FRAME_BYTES>() {
        match link.send(frame) {
            Ok(()) => sent += FRAME_BYTES,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Reads every message that waits; the reason if the connection is broken.
fn receive_all(
    link: &mut dyn MessageLink,
    reader: &mut ReplyReader,
    replies: &mut Vec<Reply>,
) -> Result<(), String> {
    loop {
        let frame = match link.receive() {
            Ok(None) => return Ok(()),
            Ok(Some(frame)) => frame,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("the connection broke: {error}")),
        };
        let before = replies.len();
        reader
            .feed(&frame.bytes, replies)
            .map_err(|error| error.to_string())?;
        for reply in &mut replies[before..] {
            reply.at = frame.at;
        }
    }
}

/// Logs in to a database; the reason if that fails.
fn log_in(stream: &mut Stream, user: &DatabaseUser) -> Result<(), String> {
    let (mut login, mut out) = PostgresqlLogin::begin(user).map_err(|cause| cause.to_string())?;
    let mut buffer = [0; 4096];
    let give_up = Monotonic.now() + LOGIN_LIMIT;
    while Monotonic.now() < give_up {
        let broken = |cause: io::Error| format!("the connection broke: {cause}");
        let written = stream.write_some(&out).map_err(broken)?;
        out.drain(..written);
        match stream.read_some(&mut buffer).map_err(broken)? {
            Some(0) => return Err("the service closed the connection".into()),
            Some(count) => match login.feed(&buffer[..count], &mut out) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(cause) => return Err(cause.to_string()),
            },
            None => sleep_until(Monotonic.now() + LOGIN_LOOK).map_err(broken)?,
        }
    }
    Err(format!("no answer within {LOGIN_LIMIT}"))
}

fn connect(endpoint: &Endpoint) -> io::Result<ConnectionForm> {
    let stream = match endpoint {
        Endpoint::Database(database) => return connect(&database.address),
        Endpoint::Web(web) => return web_form(web, web_stream(web)?),
        Endpoint::Messages(endpoint) => {
            return message_link::open(endpoint).map(ConnectionForm::Messages);
        }
        Endpoint::Tcp(address) => {
            let limit = std::time::Duration::from_nanos(CONNECT_LIMIT.as_nanos());
            Stream::of_tcp(TcpStream::connect_timeout(address, limit)?)
        }
        Endpoint::Unix(path) => connect_unix(path),
    };
    stream.map(ConnectionForm::Stream)
}

/// Connects to a service of HTTP, and begins TLS where it is described.
fn web_stream(web: &WebEndpoint) -> io::Result<Stream> {
    let ConnectionForm::Stream(stream) = connect(&web.address)? else {
        return Err(io::Error::other("HTTP needs a stream"));
    };
    match &web.tls {
        None => Ok(stream),
        Some(client) => Ok(stream.encrypted(TlsSession::begin(client)?)),
    }
}

/// The form that the version of HTTP gives to a connection.
fn web_form(web: &WebEndpoint, stream: Stream) -> io::Result<ConnectionForm> {
    match web.version {
        HttpVersion::One => Ok(ConnectionForm::Stream(stream)),
        HttpVersion::Two => Http2Link::begin(stream)
            .map(|link| ConnectionForm::Http2(Box::new(link)))
            .map_err(io::Error::other),
    }
}

fn failed_step(endpoint: String, step: &str, cause: String) -> MeasurementError {
    MeasurementError::Service {
        endpoint,
        step: step.into(),
        cause,
    }
}

fn connect_unix(path: &Path) -> io::Result<Stream> {
    let give_up = Monotonic.now() + CONNECT_LIMIT;
    loop {
        match connect_non_blocking(path) {
            // The queue of the listener is full; it may be throttled.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Monotonic.now() < give_up =>
            {
                sleep_until(Monotonic.now() + Duration::from_millis(1))?;
            }
            outcome => return Stream::of_unix(outcome?),
        }
    }
}
