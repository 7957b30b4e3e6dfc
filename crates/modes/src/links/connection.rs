//! One connection to an agent.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use tailbound_linux::control_socket::PeerCredentials;
use tailbound_time::Instant;

use crate::frame::decode;
use crate::wire::{AgentMessage, Decoder, HostMessage, decoder, encode};

/// So many messages of one agent are taken per look; the rest waits until others were heard.
const MOST_MESSAGES: usize = 32;
/// So many bytes are read per look.
const READ_BYTES: usize = 16 * 1024;

/// A connection, perhaps before its agent has said whose it is.
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) peer: PeerCredentials,
    /// When it was opened.
    pub(super) since: Instant,
    /// Whose agent it is.
    pub(super) domain: Option<String>,
    /// Whether its times are of our clock.
    pub(super) same_clock: bool,
    decoder: Decoder,
}

/// Why nothing more will be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The agent has ended the connection.
    End,
    /// What it has sent is no message.
    Nonsense,
}

/// What was read.
pub(super) struct Reading {
    pub(super) messages: Vec<AgentMessage>,
    pub(super) ending: Option<Heard>,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, peer: PeerCredentials, since: Instant) -> Self {
        Self {
            stream,
            peer,
            since,
            domain: None,
            same_clock: false,
            decoder: decoder(),
        }
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

    /// Reads what is there, within bounds.
    pub(super) fn read(&mut self) -> Reading {
        let mut ending = None;
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => ending = Some(Heard::End),
            Ok(count) => self.decoder.push(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => ending = Some(Heard::End),
        }
        let mut messages = Vec::new();
        while ending != Some(Heard::Nonsense) {
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
