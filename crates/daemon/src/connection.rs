//! One connection, from its first byte to its end, however the client behaves.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time;

use tailbound_control::control_frame::{
    self, ControlDecoder, FrameError, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};
use tailbound_control::deadline::{is_timeout, remaining, std_duration, write_within};
use tailbound_control::protocol::{ControlRequest, Refusal, RefusalKind, Response};
use tailbound_time::Duration;

use crate::leases::{ConnectionId, LeasedReservations};
use crate::service::{Counters, DaemonService};

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct ClientPatience {
    /// From the first byte of a frame to its last, and for taking in an answer.
    pub frame: Duration,
    /// Between two frames, for users who may change things. A connection that a reservation is
    /// leased to may be silent for ever.
    pub idle_trusted: Duration,
    /// Between two frames, for the others.
    pub idle_others: Duration,
}

impl Default for ClientPatience {
    fn default() -> Self {
        Self {
            frame: Duration::from_secs(5),
            idle_trusted: Duration::from_secs(600),
            idle_others: Duration::from_secs(10),
        }
    }
}

/// How a connection came to its end.
#[derive(Debug)]
pub enum End {
    /// The client closed it, or was killed.
    ClientLeft,
    /// The client was silent for too long.
    Idle,
    /// The client sent something that is no request, or sent or read too slowly.
    Misbehaved,
    /// The client asked the daemon to end.
    Shutdown,
}

/// Why no request came.
enum NoRequest {
    Left,
    Idle,
    Slow,
    Bad(FrameError),
}

/// Answers the requests of one connection until it ends, then takes back what was leased to it.
pub fn serve<R: LeasedReservations + Send + 'static>(
    stream: &UnixStream,
    service: &DaemonService<R>,
    id: ConnectionId,
    trusted: bool,
    patience: ClientPatience,
) -> End {
    let connection = ClientConnection {
        stream,
        service,
        id,
        trusted,
        patience,
    };
    // Dropped at the end of this function even if a request panics: a lease never outlives its
    // connection.
    connection.run()
}

struct ClientConnection<'a, R: LeasedReservations + Send + 'static> {
    stream: &'a UnixStream,
    service: &'a DaemonService<R>,
    id: ConnectionId,
    trusted: bool,
    patience: ClientPatience,
}

impl<R: LeasedReservations + Send + 'static> Drop for ClientConnection<'_, R> {
    fn drop(&mut self) {
        self.service.disconnect(self.id);
    }
}

impl<R: LeasedReservations + Send + 'static> ClientConnection<'_, R> {
    fn run(self) -> End {
        let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
        loop {
            let request = match self.next_request(&mut decoder) {
                Ok(request) => request,
                Err(NoRequest::Left) => return End::ClientLeft,
                Err(NoRequest::Idle) => return End::Idle,
                Err(NoRequest::Slow) => {
                    return self.give_up(
                        RefusalKind::BadRequest,
                        &format!("a frame has to be complete within {}", self.patience.frame),
                    );
                }
                Err(NoRequest::Bad(error)) => {
                    let kind = match error {
                        FrameError::Version { .. } => RefusalKind::Version,
                        _ => RefusalKind::BadRequest,
                    };
                    return self.give_up(kind, &error.to_string());
                }
            };
            let ends = self.trusted && request == ControlRequest::Shutdown {};
            let response = self.service.answer(self.id, self.trusted, request);
            let sent = self.send(&response);
            if ends {
                return End::Shutdown;
            }
            match sent {
                Ok(()) => {}
                Err(error) if is_timeout(&error) => {
                    Counters::count(&self.service.counters().bad_frames);
                    return End::Misbehaved;
                }
                Err(_) => return End::ClientLeft,
            }
        }
    }

    fn give_up(&self, kind: RefusalKind, message: &str) -> End {
        Counters::count(&self.service.counters().bad_frames);
        // The client may be gone or deaf; the connection ends in any case.
        let _ = self.send(&Response::Refused {
            refusal: Refusal::new(kind, message),
        });
        End::Misbehaved
    }

    fn next_request(&self, decoder: &mut ControlDecoder) -> Result<ControlRequest, NoRequest> {
        let mut deadline = None;
        let mut bytes = [0; 16 * 1024];
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => {
                    return control_frame::decode(&payload).map_err(NoRequest::Bad);
                }
                Ok(None) => {}
                Err(error) => return Err(NoRequest::Bad(error)),
            }
            if decoder.is_within_frame() && deadline.is_none() {
                deadline = Some(time::Instant::now() + std_duration(self.patience.frame));
            }
            let limit = match deadline {
                Some(deadline) => Some(remaining(deadline).ok_or(NoRequest::Slow)?),
                None => self.idle_limit(),
            };
            match receive(self.stream, &mut bytes, limit) {
                Ok(0) => return Err(NoRequest::Left),
                Ok(count) => decoder.push(&bytes[..count]),
                Err(error) if is_timeout(&error) && deadline.is_some() => {
                    return Err(NoRequest::Slow);
                }
                Err(error) if is_timeout(&error) => return Err(NoRequest::Idle),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(NoRequest::Left),
            }
        }
    }

    fn idle_limit(&self) -> Option<time::Duration> {
        if self.service.leases().holds_lease(self.id) {
            None
        } else if self.trusted {
            Some(std_duration(self.patience.idle_trusted))
        } else {
            Some(std_duration(self.patience.idle_others))
        }
    }

    fn send(&self, response: &Response) -> io::Result<()> {
        let bytes = control_frame::encode(response, RESPONSE_BYTES_MAX).or_else(|error| {
            let refusal = Refusal::new(RefusalKind::BadRequest, format!("the answer: {error}"));
            control_frame::encode(&Response::Refused { refusal }, RESPONSE_BYTES_MAX)
        });
        let bytes = bytes.map_err(io::Error::other)?;
        write_within(self.stream, &bytes, self.patience.frame)
    }
}

fn receive(
    mut stream: &UnixStream,
    bytes: &mut [u8],
    limit: Option<time::Duration>,
) -> io::Result<usize> {
    stream.set_read_timeout(limit)?;
    stream.read(bytes)
}
