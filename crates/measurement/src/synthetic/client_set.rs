//! The connections of the synthetic service.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use tailbound_linux::polling::{Interest, Poller, Readiness};
use tailbound_time::Duration;

use super::ready_queue::{ReadyQueue, SyntheticJob};
use super::request_source::{RequestSource, answer_to, take_up};
use crate::protocol::ProtocolError;
use crate::protocol::frame::{FrameCutter, WorkRequest};
use crate::stream::Stream;

/// The poller's token of the listener; clients count from 1.
const LISTENER: u64 = 0;
/// How much may wait for a client that does not read its replies, before it is dropped.
const UNREAD_LIMIT: usize = 1 << 20;

/// Where clients come from.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

#[derive(Debug)]
struct ServedClient {
    stream: Stream,
    cutter: FrameCutter,
    unsent: Vec<u8>,
    watched_for_room: bool,
}

/// All connections.
#[derive(Debug)]
pub(super) struct ClientSet {
    listener: Listener,
    poller: Poller,
    clients: BTreeMap<u64, ServedClient>,
    last_token: u64,
    ready: Vec<Readiness>,
}

impl ClientSet {
    /// No connection yet.
    pub(super) fn new(listener: Listener) -> io::Result<Self> {
        let poller = Poller::new()?;
        match &listener {
            Listener::Unix(socket) => socket.set_nonblocking(true)?,
            Listener::Tcp(socket) => socket.set_nonblocking(true)?,
        }
        poller.add(&listener, LISTENER, Interest::Read)?;
        Ok(Self {
            listener,
            poller,
            clients: BTreeMap::new(),
            last_token: LISTENER,
            ready: Vec::new(),
        })
    }

    fn accept_all(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // The client was gone before we looked, or a signal came.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            self.last_token += 1;
            self.poller.add(&stream, self.last_token, Interest::Read)?;
            let client = ServedClient {
                stream,
                cutter: FrameCutter::default(),
                unsent: Vec::new(),
                watched_for_room: false,
            };
            self.clients.insert(self.last_token, client);
        }
    }
}

impl RequestSource for ClientSet {
    fn receive(&mut self, timeout: Duration, jobs: &mut ReadyQueue) -> io::Result<()> {
        self.ready.clear();
        self.ready
            .extend_from_slice(self.poller.wait(Some(timeout))?);
        for event in std::mem::take(&mut self.ready) {
            if event.token == LISTENER {
                self.accept_all()?;
                continue;
            }
            let Some(client) = self.clients.get_mut(&event.token) else {
                continue;
            };
            let mut alive = true;
            if event.writable {
                alive = client.flush(&self.poller, event.token).is_ok();
            }
            if alive && event.readable {
                alive = client.read(&self.poller, event.token, jobs);
            }
            if !alive {
                self.clients.remove(&event.token);
                jobs.forget(event.token);
            }
        }
        Ok(())
    }

    fn answer(&mut self, job: &SyntheticJob) -> io::Result<()> {
        if let Some(client) = self.clients.get_mut(&job.client) {
            client.unsent.extend_from_slice(&answer_to(job));
            if client.flush(&self.poller, job.client).is_err() {
                self.clients.remove(&job.client);
            }
        }
        Ok(())
    }
}

impl ServedClient {
    /// Reads what is there; false if the client is to be dropped.
    fn read(&mut self, poller: &Poller, token: u64, jobs: &mut ReadyQueue) -> bool {
        let mut buffer = [0; 4096];
        loop {
            let count = match self.stream.read_some(&mut buffer) {
                Ok(None) => return true,
                Ok(Some(0)) | Err(_) => return false,
                Ok(Some(count)) => count,
            };
            let Self { cutter, unsent, .. } = self;
            let taken = cutter.feed(&buffer[..count], |frame| {
                let refusal = take_up(WorkRequest::from_bytes(frame)?, token, jobs);
                unsent.extend(refusal.into_iter().flatten());
                Ok::<(), ProtocolError>(())
            });
            if taken.is_err() || self.flush(poller, token).is_err() {
                return false;
            }
            if count < buffer.len() {
                return true;
            }
        }
    }

    /// Writes what the kernel takes now, and asks to be told when it takes more.
    fn flush(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        let written = self.stream.write_some(&self.unsent)?;
        self.unsent.drain(..written);
        if self.unsent.len() > UNREAD_LIMIT {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let wants = !self.unsent.is_empty();
        if wants != self.watched_for_room {
            self.watched_for_room = wants;
            let interest = if wants {
                Interest::ReadWrite
            } else {
                Interest::Read
            };
            poller.change(&self.stream, token, interest)?;
        }
        Ok(())
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(socket) => Stream::of_unix(socket.accept()?.0),
            Self::Tcp(socket) => Stream::of_tcp(socket.accept()?.0),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}
