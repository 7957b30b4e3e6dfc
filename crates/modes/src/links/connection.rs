//! One connection to an agent.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use tailbound_control::frame::decode;
use tailbound_linux::vsock::VsockStream;
use tailbound_time::{Duration, Instant};

use super::doors::AgentPeer;
use crate::tls::TlsStream;
use crate::wire::{AgentMessage, HostMessage, ModeDecoder, decoder, encode};

/// So many messages of one agent are taken per look; the rest waits until others were heard.
const MOST_MESSAGES: usize = 32;
/// So many bytes are read per look.
const READ_BYTES: usize = 16 * 1024;
/// How often an agent is asked whether it is there, where the link does not tell.
const PING_AFTER: Duration = Duration::from_secs(1);
/// How long one may be silent there: the virtual CPUs of a machine may have to wait for their budget.
const SILENT_FOR: Duration = Duration::from_secs(10);
/// So many pings it may leave unanswered, each for [`PING_AFTER`] and with a look at what has come since.
/// Time alone does not tell: it passes as well while the host cannot ask.
const UNANSWERED_PINGS: u32 = 3;

/// What a connection goes over; it never blocks.
pub(super) trait Channel: Read + Write + AsFd + Send {
    /// Does what is due by now; when something is due next.
    fn nudge(&mut self, _: Instant) -> io::Result<Option<Instant>> {
        Ok(None)
    }

    /// Whether it holds more to be read, which its descriptor does not tell.
    fn holds_more(&mut self) -> bool {
        false
    }

    /// Begins another session in place of one that went wrong; whether it can.
    fn begin_anew(&mut self) -> bool {
        false
    }
}

impl Channel for UnixStream {}

impl Channel for VsockStream {}

impl Channel for TlsStream {
    fn holds_more(&mut self) -> bool {
        TlsStream::holds_more(self)
    }
}

/// A connection, perhaps before its agent has said whose it is.
pub(super) struct AgentConnection {
    pub(super) stream: Box<dyn Channel>,
    pub(super) peer: AgentPeer,
    /// When it was opened.
    pub(super) since: Instant,
    /// Whose agent it is.
    pub(super) domain: Option<String>,
    /// Whether its times are of our clock.
    pub(super) same_clock: bool,
    decoder: ModeDecoder,
    heard: Instant,
    pinged: Instant,
    /// So many pings were sent since it was heard.
    unanswered: u32,
}

/// Why nothing more will be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The agent has ended the connection.
    End,
    /// What it has sent is no message.
    Nonsense,
    /// Another session begins.
    Anew,
}

/// What was read.
pub(super) struct Reading {
    pub(super) messages: Vec<AgentMessage>,
    pub(super) ending: Option<Heard>,
}

impl AgentConnection {
    pub(super) fn new(stream: impl Channel + 'static, peer: AgentPeer, since: Instant) -> Self {
        Self {
            stream: Box::new(stream),
            peer,
            since,
            domain: None,
            same_clock: false,
            decoder: decoder(),
            heard: since,
            pinged: since,
            unanswered: 0,
        }
    }

    /// Whether it may be silent for good: a port whose machine has no agent yet.
    pub(super) fn may_wait(&self) -> bool {
        matches!(self.peer, AgentPeer::Port(_))
    }

    /// Whether the link does not tell that an agent has gone.
    fn is_pinged(&self) -> bool {
        self.domain.is_some() && !matches!(self.peer, AgentPeer::Process(_))
    }

    /// Whether the agent has been silent for too long, as of `now`. What had come by then was read.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        // The last ping has just been sent, and is none that was left unanswered.
        let unanswered = self.unanswered > UNANSWERED_PINGS;
        self.is_pinged() && unanswered && now >= self.heard.saturating_add(SILENT_FOR)
    }

    /// Asks an agent that may have gone unnoticed whether it is there; when something is due next.
    ///
    /// # Errors
    /// If it takes nothing in any more.
    pub(super) fn nudge(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let due = self.stream.nudge(now)?;
        if !self.is_pinged() {
            return Ok(due);
        }
        if now >= self.pinged.saturating_add(PING_AFTER) {
            self.pinged = now;
            self.unanswered = self.unanswered.saturating_add(1);
            self.send(&HostMessage::Ping {
                nonce: now.as_nanos(),
            })?;
        }
        let next = self.pinged.saturating_add(PING_AFTER);
        Ok(Some(due.map_or(next, |due| due.min(next))))
    }

    /// Forgets a session; another one follows on the same connection.
    pub(super) fn forget(&mut self, now: Instant) {
        self.decoder.clear();
        self.domain = None;
        self.same_clock = false;
        self.since = now;
        self.heard = now;
        self.pinged = now;
        self.unanswered = 0;
    }

    /// Sends a message; it is short, and an agent that does not read for so long that it does not fit is
    /// as good as gone.
    pub(super) fn send(&mut self, message: &HostMessage) -> io::Result<()> {
        let frame = encode(message).map_err(io::Error::other)?;
        match self.stream.write(&frame)? {
            sent if sent == frame.len() => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Reads what is there at `now`, within bounds.
    pub(super) fn read(&mut self, now: Instant) -> Reading {
        let mut ending = None;
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => ending = Some(Heard::End),
            Ok(count) => {
                self.heard = now;
                self.unanswered = 0;
                self.decoder.push(&bytes[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                ending = Some(Heard::Anew);
            }
            Err(_) => ending = Some(Heard::End),
        }
        let mut messages = Vec::new();
        while !matches!(ending, Some(Heard::Nonsense | Heard::Anew)) {
            let payload = match self.decoder.next_payload() {
                Ok(None) => break,
                Ok(Some(payload)) => payload,
                Err(_) => {
                    ending = Some(Heard::Nonsense);
                    break;
                }
            };
            match decode::<AgentMessage>(&payload) {
                Ok(message) if messages.len() < MOST_MESSAGES => messages.push(message),
                // More at once than any agent has to say.
                Ok(_) | Err(_) => ending = Some(Heard::Nonsense),
            }
        }
        Reading { messages, ending }
    }
}
