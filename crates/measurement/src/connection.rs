//! One client's connection: never blocks, keeps what could not be written yet.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::control_socket::connect_non_blocking;
use tailbound_model::Protocol;
use tailbound_time::{Clock, Duration};

use crate::message_link::{self, MessageLink};
use crate::protocol::frame::FRAME_BYTES;
use crate::protocol::postgresql_login::{DatabaseUser, PostgresqlLogin};
use crate::protocol::{Reply, ReplyReader};
use crate::stream::Stream;
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
}

/// The two forms of a connection.
#[derive(Debug)]
enum ConnectionForm {
    /// Bytes in order.
    Stream(Stream),
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
    /// Connects to `endpoint`.
    ///
    /// # Errors
    /// [`MeasurementError::Connect`], [`MeasurementError::Service`] if a login fails.
    pub(crate) fn open(endpoint: &Endpoint, protocol: Protocol) -> Result<Self, MeasurementError> {
        let mut form = connect(endpoint).map_err(|cause| MeasurementError::Connect {
            endpoint: endpoint.to_string(),
            cause,
        })?;
        if let (Endpoint::Database(database), ConnectionForm::Stream(stream)) =
            (endpoint, &mut form)
        {
            log_in(stream, &database.user).map_err(|cause| MeasurementError::Service {
                endpoint: endpoint.to_string(),
                step: "the login".into(),
                cause,
            })?;
        }
        Ok(Self {
            form,
            reader: ReplyReader::new(protocol),
            out: Vec::with_capacity(4096),
            written: 0,
            awaiting: VecDeque::with_capacity(64),
        })
    }

    /// Writes what the kernel takes now of what is to be written.
    ///
    /// # Errors
    /// A broken connection.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let unsent = &self.out[self.written..];
        self.written += match &mut self.form {
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
            ConnectionForm::Stream(stream) => stream.end(),
            ConnectionForm::Messages(link) => link.end(),
        }
    }

    /// Whether something is left to write.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.written < self.out.len()
    }

    /// Reads what is there and appends the replies that it completes.
    pub(crate) fn read(&mut self, buffer: &mut [u8], replies: &mut Vec<Reply>) -> ReadEnd {
        let stream = match &mut self.form {
            ConnectionForm::Stream(stream) => stream,
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
                    if count < buffer.len() {
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
            ConnectionForm::Stream(stream) => stream.as_fd(),
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
