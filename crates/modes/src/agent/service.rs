//! The agent at work: one thread, one connection at a time, until it is told to end.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use tailbound_control::frame::{self, FrameError};
use tailbound_linux::polling::{Interest, Poller};
use tailbound_time::{Clock, Duration, Instant};

use crate::agent::controls::AgentHandle;
use crate::agent::engine::TaskEngine;
use crate::agent::link::{ConnectError, Connector, Pauses};
use crate::agent::session::{Ignored, Session, SessionStep};
use crate::wire::{self, AgentClock, AgentMessage, HostMessage, ModeDecoder, Name, Text};

const LINK: u64 = 0;
const HANDLE: u64 = 1;
const END: u64 = 2;
/// After so many reads in a row it looks whether it is to end, even if more comes.
const READS_IN_A_ROW: u32 = 32;
/// How much one read takes.
const READ_BYTES: usize = 4096;

/// How long the agent waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the host's answer to `hello`, and for the host to take a message in.
    pub answer: Duration,
    /// For anything at all from the host, before the connection counts as dead; none where the link
    /// itself tells, as Unix sockets do.
    pub silence: Option<Duration>,
    /// The first pause before it connects again; each is twice as long as the one before.
    pub pause_least: Duration,
    /// The longest pause.
    pub pause_most: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            silence: None,
            pause_least: Duration::from_millis(10),
            pause_most: Duration::from_secs(2),
        }
    }
}

/// What happened, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// There is no connection.
    NotConnected(ConnectError),
    /// A connection has begun.
    Begun,
    /// A connection has ended.
    Lost(LinkError),
    /// A change or a withdrawal was answered.
    Answered(AgentMessage),
    /// A message was passed over.
    Ignored(Ignored),
    /// The host refuses a request.
    Refused {
        /// The mode that was asked for.
        mode: Name,
        /// Why not.
        reason: Text,
    },
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The host closed it, or was killed.
    #[error("the host closed the connection")]
    Closed,
    /// The host does not answer, or takes nothing in.
    #[error("the host was silent, or took nothing in, for {0}")]
    Silent(Duration),
    /// The host serves another domain at this address.
    #[error(
        "the host takes this agent for that of domain \"{0}\"; give the agent the same --domain"
    )]
    OtherDomain(Name),
    /// What came is no message of this protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The link failed.
    #[error("the link to the host: {0}")]
    Broken(#[from] io::Error),
}

/// Why the agent leaves a connection.
enum Left {
    Lost(LinkError),
    /// It was told to end.
    Ended,
}

impl<E: Into<LinkError>> From<E> for Left {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

/// An agent: a domain's session, its tasks, and the way to its host.
///
/// It works in the thread that calls [`Agent::run`]. A host that raises the agent for the moment of
/// a message finds it as the process at the other end of the socket, so call it from the process's
/// first thread.
pub struct Agent<C, E, T> {
    session: Session,
    connector: C,
    engine: E,
    clock: T,
    patience: Patience,
    pauses: Pauses,
    decoder: ModeDecoder,
    poller: Poller,
    handle: AgentHandle,
    end: Option<OwnedFd>,
    ended: bool,
}

impl<C: Connector, E: TaskEngine, T: Clock> Agent<C, E, T> {
    /// An agent of `domain`, whose instants are read from `clock`; `boot` names what that counts
    /// from.
    ///
    /// # Errors
    /// What the kernel says, such as too many open files.
    pub fn new(
        domain: Name,
        boot: &str,
        connector: C,
        engine: E,
        clock: T,
        patience: Patience,
    ) -> io::Result<Self> {
        let agent = Text::new(concat!("tailbound-agent ", env!("CARGO_PKG_VERSION")));
        let agent_clock = AgentClock {
            id: clock.id(),
            boot: Text::new(boot),
        };
        let poller = Poller::new()?;
        let handle = AgentHandle::new()?;
        poller.add(&handle, HANDLE, Interest::Read)?;
        Ok(Self {
            session: Session::new(domain, agent, agent_clock),
            connector,
            engine,
            clock,
            patience,
            pauses: Pauses::new(patience.pause_least, patience.pause_most),
            decoder: wire::decoder(),
            poller,
            handle,
            end: None,
            ended: false,
        })
    }

    /// Steers it from other threads.
    pub fn handle(&self) -> AgentHandle {
        self.handle.clone()
    }

    /// Ends it, too, once there is something to read from `descriptor`.
    ///
    /// # Errors
    /// If the kernel cannot poll it.
    pub fn end_on(&mut self, descriptor: OwnedFd) -> io::Result<()> {
        self.poller.add(&descriptor, END, Interest::Read)?;
        self.end = Some(descriptor);
        Ok(())
    }

    /// Serves the host until it is told to end, connecting again for as long as it takes. Tasks
    /// stay as they are, at the end and while there is no connection. While tasks are being
    /// switched it hears nothing, the order to end included.
    ///
    /// # Errors
    /// If the kernel cannot wait for descriptors.
    pub fn run(&mut self, observe: &mut dyn FnMut(Event)) -> io::Result<()> {
        while !self.ended {
            match self.connector.connect() {
                Ok(mut link) => {
                    let began = self.clock.now();
                    self.poller.add(&link, LINK, Interest::Read)?;
                    let left = self.serve(&mut link, observe);
                    self.poller.remove(&link)?;
                    if self.session.is_welcomed() {
                        let lived = self.clock.now().saturating_since(began);
                        self.pauses.connection_ended(lived);
                    }
                    match left {
                        Ok(()) | Err(Left::Ended) => return Ok(()),
                        Err(Left::Lost(error)) => observe(Event::Lost(error)),
                    }
                }
                Err(error) => observe(Event::NotConnected(error)),
            }
            self.pause()?;
        }
        Ok(())
    }

    /// Waits before the next attempt to connect, or until told to end.
    fn pause(&mut self) -> io::Result<()> {
        let until = self.clock.now().saturating_add(self.pauses.take());
        loop {
            let left = until.saturating_since(self.clock.now());
            if left.is_zero() || self.ended {
                return Ok(());
            }
            self.wait(Some(left))?;
        }
    }

    /// Waits until something happens; whether the link is writable. Notes when to end.
    fn wait(&mut self, at_most: Option<Duration>) -> io::Result<bool> {
        let (mut writable, mut woken, mut told_to_end) = (false, false, false);
        for ready in self.poller.wait(at_most)? {
            match ready.token {
                LINK => writable |= ready.writable || ready.hung_up,
                HANDLE => woken = true,
                _ => told_to_end = true,
            }
        }
        if woken {
            self.handle.quieten();
        }
        self.ended |= told_to_end || self.handle.is_ended();
        Ok(writable)
    }

    /// Serves one connection to its end.
    fn serve(&mut self, link: &mut C::Link, observe: &mut dyn FnMut(Event)) -> Result<(), Left> {
        self.decoder.clear();
        let hello = self
            .session
            .connected(self.engine.tasks(), self.engine.started());
        self.send(link, &hello)?;
        let mut last_heard = self.clock.now();
        let mut reads = 0;
        let mut bytes = [0; READ_BYTES];
        while !self.ended {
            self.take_in(link, last_heard, observe)?;
            self.pass_requests_on(link)?;
            match link.read(&mut bytes) {
                Ok(0) => return Err(LinkError::Closed.into()),
                Ok(count) => {
                    last_heard = self.clock.now();
                    self.decoder.push(bytes.get(..count).unwrap_or_default());
                    reads += 1;
                    if reads % READS_IN_A_ROW == 0 {
                        self.wait(Some(Duration::ZERO))?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_for_host(last_heard)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(closed_or_broken(error).into()),
            }
        }
        Err(Left::Ended)
    }

    fn wait_for_host(&mut self, last_heard: Instant) -> Result<(), Left> {
        let limit = match self.session.is_welcomed() {
            true => self.patience.silence,
            false => Some(self.patience.answer),
        };
        let Some(limit) = limit else {
            self.wait(None)?;
            return Ok(());
        };
        let left = limit.saturating_sub(self.clock.now().saturating_since(last_heard));
        if left.is_zero() {
            return Err(LinkError::Silent(limit).into());
        }
        self.wait(Some(left))?;
        Ok(())
    }

    /// Does what the whole messages received until `received` say.
    fn take_in(
        &mut self,
        link: &mut C::Link,
        received: Instant,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), Left> {
        while let Some(payload) = self.decoder.next_payload()? {
            let message: HostMessage = frame::decode(&payload)?;
            match self.session.receive(message, received) {
                SessionStep::Send(answer) => self.answer(link, answer, observe)?,
                SessionStep::Switch(lists) => {
                    let result = self.engine.switch(&lists);
                    if let Some(answer) = self.session.switched(result, self.clock.now()) {
                        self.answer(link, answer, observe)?;
                    }
                }
                SessionStep::Begun => observe(Event::Begun),
                SessionStep::Ignore(why) => observe(Event::Ignored(why)),
                SessionStep::Refused { mode, reason } => observe(Event::Refused { mode, reason }),
                SessionStep::Leave { other } => return Err(LinkError::OtherDomain(other).into()),
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        link: &mut C::Link,
        answer: AgentMessage,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), Left> {
        self.send(link, &answer)?;
        if !matches!(answer, AgentMessage::Pong { .. }) {
            observe(Event::Answered(answer));
        }
        Ok(())
    }

    fn pass_requests_on(&mut self, link: &mut C::Link) -> Result<(), Left> {
        while self.session.is_welcomed() {
            let Some(mode) = self.handle.take_request() else {
                return Ok(());
            };
            if let Some(message) = self.session.request(mode) {
                self.send(link, &message)?;
            }
        }
        Ok(())
    }

    /// Sends a message; waits for a host that takes nothing in as long as its patience is.
    fn send(&mut self, link: &mut C::Link, message: &AgentMessage) -> Result<(), Left> {
        let frame = wire::encode(message)?;
        let mut left = frame.as_slice();
        while !left.is_empty() {
            match link.write(left) {
                Ok(0) => return Err(LinkError::Closed.into()),
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_writable(link)?;
                }
                Err(error) => return Err(closed_or_broken(error).into()),
            }
        }
        Ok(())
    }

    fn wait_writable(&mut self, link: &mut C::Link) -> Result<(), Left> {
        self.poller
            .change(link.as_fd(), LINK, Interest::ReadWrite)?;
        let limit = self.patience.answer;
        let until = self.clock.now().saturating_add(limit);
        loop {
            let left = until.saturating_since(self.clock.now());
            if left.is_zero() {
                return Err(LinkError::Silent(limit).into());
            }
            if self.wait(Some(left))? {
                break;
            }
            if self.ended {
                return Err(Left::Ended);
            }
        }
        self.poller.change(link.as_fd(), LINK, Interest::Read)?;
        Ok(())
    }
}

/// A host that was killed with messages of ours unread shows as an error, too.
fn closed_or_broken(error: io::Error) -> LinkError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => LinkError::Closed,
        _ => LinkError::Broken(error),
    }
}
