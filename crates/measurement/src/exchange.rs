//! Requests whose replies are waited for: setup and calibration.

use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::polling::{Interest, Poller};
use tailbound_model::Protocol;
use tailbound_time::{Clock, Duration, Instant};

use crate::connection::{Connection, ReadEnd};
use crate::protocol::Reply;
use crate::request::{Filling, RequestTemplate};
use crate::{Endpoint, MeasurementError};

/// The longest sleep: how soon `stop` is seen.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How much is written before replies are waited for.
const PIPELINED_BYTES: usize = 64 * 1024;

/// One connection on which replies are waited for.
pub(crate) struct Exchange<'a> {
    endpoint: &'a Endpoint,
    protocol: Protocol,
    stop: &'a AtomicBool,
    connection: Connection,
    poller: Poller,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    replies: Vec<Reply>,
    /// Requests without a reply.
    open: usize,
    /// Whether the peer closed after its last reply, as HTTP servers may.
    closed: bool,
}

/// When a request was sent, and when its reply was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    /// Just before the write.
    pub(crate) sent: Instant,
    /// Just after the read.
    pub(crate) replied: Instant,
}

impl RoundTrip {
    /// From one to the other.
    pub(crate) fn length(&self) -> Duration {
        self.replied.saturating_since(self.sent)
    }
}

impl<'a> Exchange<'a> {
    /// Connects.
    pub(crate) fn open(
        endpoint: &'a Endpoint,
        protocol: Protocol,
        stop: &'a AtomicBool,
    ) -> Result<Self, MeasurementError> {
        let (connection, poller) = connect(endpoint, protocol)?;
        Ok(Self {
            endpoint,
            protocol,
            stop,
            connection,
            poller,
            buffer: vec![0; 64 * 1024],
            scratch: Vec::new(),
            replies: Vec::new(),
            open: 0,
            closed: false,
        })
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// An error reply, a broken connection, `give_up` passing, a stop.
    pub(crate) fn request(
        &mut self,
        template: &RequestTemplate,
        filling: &mut Filling,
        step: &str,
        give_up: Instant,
    ) -> Result<RoundTrip, MeasurementError> {
        self.write(template, filling)?;
        let sent = Monotonic.now();
        self.await_replies(step, give_up)?;
        Ok(RoundTrip {
            sent,
            replied: Monotonic.now(),
        })
    }

    /// Sends one request; waits for replies only now and then.
    ///
    /// # Errors
    /// As [`Exchange::request`], for this one or an earlier one.
    pub(crate) fn pipeline(
        &mut self,
        template: &RequestTemplate,
        filling: &mut Filling,
        step: &str,
        give_up: Instant,
    ) -> Result<(), MeasurementError> {
        self.write(template, filling)?;
        if self.connection.out.len() >= PIPELINED_BYTES {
            self.await_replies(step, give_up)?;
        }
        Ok(())
    }

    /// Sends what is left to send and waits until every reply is there.
    ///
    /// # Errors
    /// As [`Exchange::request`].
    pub(crate) fn await_replies(
        &mut self,
        step: &str,
        give_up: Instant,
    ) -> Result<(), MeasurementError> {
        while self.open > 0 {
            self.connection
                .flush()
                .map_err(|cause| self.failed(step, cause.to_string()))?;
            self.watch_for_room(self.connection.wants_to_write())?;
            let left = give_up.saturating_since(Monotonic.now());
            if left.is_zero() {
                return Err(self.failed(step, "no answer in time".into()));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(MeasurementError::Stopped);
            }
            let ready = self.poller.wait(Some(left.min(LONGEST_WAIT)));
            let readable = ready
                .map(|events| events.iter().any(|event| event.readable))
                .map_err(|cause| self.failed(step, cause.to_string()))?;
            if readable || self.connection.has_news() {
                self.read(step)?;
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        template: &RequestTemplate,
        filling: &mut Filling,
    ) -> Result<(), MeasurementError> {
        if self.closed || (self.open == 0 && self.connection.is_going_away()) {
            (self.connection, self.poller) = connect(self.endpoint, self.protocol)?;
            self.closed = false;
        }
        self.connection.ask(template, &mut self.scratch, filling);
        self.open += 1;
        Ok(())
    }

    fn read(&mut self, step: &str) -> Result<(), MeasurementError> {
        self.replies.clear();
        let end = self.connection.read(&mut self.buffer, &mut self.replies);
        if let Some(text) = self.replies.iter().find_map(|reply| reply.refused.clone()) {
            return Err(self.failed(step, text));
        }
        if !self.connection.take_unprocessed().is_empty() {
            return Err(self.failed(step, "it takes no more requests on this connection".into()));
        }
        match self.open.checked_sub(self.replies.len()) {
            None => return Err(self.failed(step, "it answered what it was not asked".into())),
            Some(open) => self.open = open,
        }
        match end {
            ReadEnd::Drained => {}
            // An HTTP server may close after its answer; the next request opens anew.
            ReadEnd::Broken(_) if self.open == 0 && self.protocol == Protocol::Http => {
                self.closed = true;
            }
            ReadEnd::Broken(why) => return Err(self.failed(step, why)),
        }
        Ok(())
    }

    fn watch_for_room(&mut self, room: bool) -> Result<(), MeasurementError> {
        let interest = if room {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        self.poller
            .change(&self.connection, 0, interest)
            .map_err(|cause| self.failed("watching the connection", cause.to_string()))
    }

    fn failed(&self, step: &str, cause: String) -> MeasurementError {
        MeasurementError::Service {
            endpoint: self.endpoint.to_string(),
            step: step.into(),
            cause,
        }
    }
}

fn connect(
    endpoint: &Endpoint,
    protocol: Protocol,
) -> Result<(Connection, Poller), MeasurementError> {
    let connection = Connection::open(endpoint, protocol)?;
    let watched = Poller::new().and_then(|poller| {
        poller.add(&connection, 0, Interest::Read)?;
        Ok(poller)
    });
    let poller = watched.map_err(|cause| MeasurementError::Host {
        what: "watch a connection".into(),
        cause,
        remedy: "raise the limit of open files".into(),
    })?;
    Ok((connection, poller))
}
