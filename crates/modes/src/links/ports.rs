//! Ports of virtual machines: the host connects to the Unix socket that the emulator joins to the
//! guest's port.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tailbound_linux::control_socket::connect_non_blocking;
use tailbound_linux::control_socket::peer_credentials;
use tailbound_time::{Duration, Instant};

use super::connection::Channel;
use crate::preamble::{ASKS, PortInput, Scanner, new_session, preamble};

/// How often it is tried to connect to a port whose machine does not run.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// The first time, and the longest, after which a guest is told the session again: its agent may not
/// have been there.
const TELL_AFTER: Duration = Duration::from_millis(500);
const TELL_AFTER_AT_MOST: Duration = Duration::from_secs(30);

/// The port of one domain's machine.
pub(super) struct Port {
    pub(super) domain: String,
    path: PathBuf,
    owners: BTreeSet<u32>,
    /// When it is tried again.
    retry: Instant,
    /// Whether there is a connection.
    pub(super) connected: bool,
    last_trouble: String,
}

impl Port {
    pub(super) fn new(domain: String, path: PathBuf, owners: BTreeSet<u32>) -> Self {
        Self {
            domain,
            path,
            owners,
            retry: Instant::ORIGIN,
            connected: false,
            last_trouble: String::new(),
        }
    }

    /// When it is to be connected to, if it is not.
    pub(super) fn wake(&self) -> Option<Instant> {
        (!self.connected).then_some(self.retry)
    }

    /// Connects, if it is time; what is wrong, if that is news.
    pub(super) fn connect(&mut self, now: Instant) -> Result<Option<PortChannel>, String> {
        if self.connected || now < self.retry {
            return Ok(None);
        }
        self.retry = now.saturating_add(RETRY_AFTER);
        match self.try_connect() {
            Ok(stream) => {
                self.connected = true;
                self.last_trouble.clear();
                Ok(Some(PortChannel::new(stream, now)))
            }
            Err(trouble) if trouble == self.last_trouble => Ok(None),
            Err(trouble) => {
                self.last_trouble.clone_from(&trouble);
                Err(trouble)
            }
        }
    }

    /// The connection has ended.
    pub(super) fn ended(&mut self, now: Instant) {
        self.connected = false;
        self.retry = now.saturating_add(RETRY_AFTER);
    }

    fn try_connect(&self) -> Result<UnixStream, String> {
        let (domain, path) = (&self.domain, self.path.display());
        let wrong = |error: io::Error| format!("the port of domain \"{domain}\", {path}: {error}");
        let stream = connect_non_blocking(&self.path).map_err(wrong)?;
        let owner = peer_credentials(&stream).map_err(wrong)?.uid;
        match self.owners.contains(&owner) {
            true => Ok(stream),
            false => Err(format!(
                "the port of domain \"{domain}\", {path}, belongs to user {owner}, who does not run \
                 its machine"
            )),
        }
    }
}

/// A connection to a port, in sessions.
pub(super) struct PortChannel {
    stream: UnixStream,
    scanner: Scanner,
    /// The session that is told, or has begun.
    session: u64,
    begun: bool,
    ready: VecDeque<u8>,
    /// The guest asks for another session, which nobody has been told yet.
    anew: bool,
    /// When it is told again; `None` for a pause from the next look on.
    tell: Option<Instant>,
    pause: Duration,
}

impl PortChannel {
    pub(super) fn new(stream: UnixStream, now: Instant) -> Self {
        Self {
            stream,
            scanner: Scanner::default(),
            session: new_session(),
            begun: false,
            ready: VecDeque::new(),
            anew: false,
            // A guest that sees the connection asks by itself.
            tell: Some(now.saturating_add(TELL_AFTER)),
            pause: TELL_AFTER,
        }
    }

    /// Takes what was found; whether another session has to be told.
    fn take(&mut self, inputs: Vec<PortInput>) -> bool {
        let mut restarted = false;
        for one in inputs {
            match one {
                PortInput::Bytes(bytes) if self.begun => self.ready.extend(bytes),
                PortInput::Session(ASKS) => {
                    self.restart();
                    restarted = true;
                }
                PortInput::Session(session) if session == self.session => self.begun = true,
                // Of a session that is over.
                PortInput::Bytes(_) | PortInput::Session(_) => {}
            }
        }
        restarted
    }

    /// Begins another session, which is to be told.
    fn restart(&mut self) {
        self.anew |= self.begun;
        self.begun = false;
        self.ready.clear();
        self.session = new_session();
        self.pause = TELL_AFTER;
        self.tell = None;
    }

    fn tell(&mut self) -> io::Result<()> {
        let bytes = preamble(self.session);
        match self.stream.write(&bytes)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Channel for PortChannel {
    fn nudge(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        if self.begun {
            return Ok(None);
        }
        let mut due = self.tell.unwrap_or(now.saturating_add(self.pause));
        if now >= due {
            self.tell()?;
            let longer = self.pause.saturating_add(self.pause);
            self.pause = longer.min(TELL_AFTER_AT_MOST);
            due = now.saturating_add(self.pause);
        }
        self.tell = Some(due);
        Ok(self.tell)
    }

    fn holds_more(&mut self) -> bool {
        !self.ready.is_empty()
    }

    fn begin_anew(&mut self) -> bool {
        self.restart();
        self.tell().is_ok()
    }
}

impl Read for PortChannel {
    /// `ConnectionAborted` where another session begins.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() {
            let count = self.stream.read(buffer)?;
            if count == 0 {
                return Ok(0);
            }
            // A guest that asks again and again in one breath is told once, of the last session.
            let inputs = self.scanner.push(&buffer[..count]);
            if self.take(inputs) {
                match self.tell() {
                    // It takes nothing in now, and is told again later.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    outcome => outcome?,
                }
            }
            if std::mem::take(&mut self.anew) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        match self.ready.read(buffer)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for PortChannel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for PortChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn announced_sessions(guest: &mut UnixStream) -> Vec<u64> {
        let mut bytes = vec![0; 1 << 20];
        let count = guest.read(&mut bytes).unwrap_or(0);
        let inputs = Scanner::default().push(&bytes[..count]);
        let session = |one| match one {
            PortInput::Session(session) => Some(session),
            PortInput::Bytes(_) => None,
        };
        inputs.into_iter().filter_map(session).collect()
    }

    #[test]
    fn a_guest_that_asks_many_times_at_once_is_told_one_session() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        guest.set_nonblocking(true).unwrap();
        let now = Instant::ORIGIN;
        let mut port = PortChannel::new(host, now);
        let mut buffer = [0; 16 * 1024];
        for _ in 0..3 {
            guest.write_all(&preamble(ASKS).repeat(500)).unwrap();
            assert!(port.read(&mut buffer).is_err(), "there is no frame");
            let sessions = announced_sessions(&mut guest);
            assert_eq!(sessions.len(), 1);
            guest.write_all(&preamble(sessions[0])).unwrap();
            guest.write_all(b"frames").unwrap();
            assert_eq!(port.read(&mut buffer).unwrap(), 6);
            // The next asks end this session.
        }
        assert_eq!(port.nudge(now).unwrap(), None, "nothing is to be told");
    }

    #[test]
    fn a_session_that_a_guest_missed_is_told_again() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        guest.set_nonblocking(true).unwrap();
        let mut port = PortChannel::new(host, Instant::ORIGIN);
        guest.write_all(&preamble(ASKS)).unwrap();
        assert!(port.read(&mut [0; 1024]).is_err());
        let first = announced_sessions(&mut guest);
        let later = Instant::from_nanos(60_000_000_000);
        let due = port.nudge(later).unwrap().unwrap();
        assert!(
            announced_sessions(&mut guest).is_empty(),
            "it has just been told"
        );
        assert_eq!(due, later.saturating_add(TELL_AFTER));
        port.nudge(due).unwrap();
        assert_eq!(announced_sessions(&mut guest), first);
    }
}
