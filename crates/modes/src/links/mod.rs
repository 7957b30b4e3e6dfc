//! The host's ends of the connections to agents.
//!
//! One thread waits for all of them, without a thread or an allocation per message that would make it
//! late. Who connects is checked by what the kernel, or a certificate, says of the peer; what it sends is bounded in
//! length and in number per look, so that no agent holds up the others.

mod commands;
mod connection;
mod doorman;
mod doors;
mod ports;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use tailbound_linux::control_socket::{PeerCredentials, peer_credentials, wait_readable};
use tailbound_linux::vsock::VsockListener;
use tailbound_time::{Clock, Duration, Instant};

use crate::manager::{AgentEvent, Agents, Asker, Order};
use crate::wire::{AgentMessage, HostMessage, Name, Text};
use connection::{AgentConnection, Heard};
use doors::{AgentPeer, Doors};
use refusals::{BurstAllowance, BurstLimit, Refusals};

pub use commands::Commands;
pub use doors::{WayError, Ways};

/// The most connections, with and without a domain.
const MOST_CONNECTIONS: usize = 256;
/// The most connections of one user, guest or certificate that have not said yet whose agents they are:
/// strangers must leave room for others.
const MOST_NAMELESS: usize = 16;
/// So many are taken per look, so that nobody who connects again and again holds up the others.
const MOST_COME: usize = 16;
/// No host has made more changes: a higher number, which all later ones would have to exceed, is a lie.
const MOST_CHANGES: u64 = 1 << 62;
/// How long a connection may take to say whose agent it is.
const HELLO_WITHIN: Duration = Duration::from_secs(2);

/// How long to look for an answer that is about to come: agents on one CPU answer one after another,
/// within some tens of microseconds each.
pub const LOOK_FOR: Duration = Duration::from_micros(250);

/// How often the agents of a domain may ask for modes: each request can be a mode change, and a line of
/// the log.
const REQUESTS: BurstLimit = BurstLimit {
    at_once: 16,
    pause: Duration::from_secs(1),
};

/// Whether a process may be the agent of a domain, or why not.
pub type Authority = Box<dyn Fn(&PeerCredentials, &str) -> Result<(), String> + Send>;

/// All connections of a host to agents.
pub struct AgentLinks<C> {
    listener: UnixListener,
    authority: Authority,
    doors: Doors,
    clock: C,
    /// Names this boot, by which agents' times compare with ours.
    boot: String,
    connections: Vec<AgentConnection>,
    inbox: VecDeque<AgentEvent>,
    commands: std::sync::mpsc::Receiver<(u64, String)>,
    woken: UnixStream,
    /// The other end of it, so that it never counts as ended when nobody is left to give commands.
    _wake: UnixStream,
    /// How long to look for an answer that is about to come before sleeping.
    look_for: Duration,
    /// Whether answers are about to come.
    expecting: bool,
    /// The latest change that each domain was told, with its mode.
    latest_changes: BTreeMap<String, (u64, String)>,
    /// What is left to the agents of each domain of their requests.
    requests: BTreeMap<String, BurstAllowance>,
    refusals: Refusals,
}

impl<C: Clock> AgentLinks<C> {
    /// Connections by way of a listening socket, and the end by which others ask for modes.
    ///
    /// # Errors
    /// If the kernel has no pair of sockets, or does not name its boot.
    pub fn new(
        listener: UnixListener,
        authority: Authority,
        clock: C,
    ) -> io::Result<(Self, Commands)> {
        listener.set_nonblocking(true)?;
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let (sender, commands) = std::sync::mpsc::channel();
        let refusals = Refusals::new(clock.now());
        let links = Self {
            listener,
            authority,
            doors: Doors::default(),
            clock,
            boot: tailbound_linux::process::boot_id()?,
            connections: Vec::new(),
            inbox: VecDeque::new(),
            commands,
            woken,
            _wake: wake.try_clone()?,
            look_for: Duration::ZERO,
            expecting: false,
            latest_changes: BTreeMap::new(),
            requests: BTreeMap::new(),
            refusals,
        };
        Ok((links, Commands { sender, wake }))
    }

    /// While answers are about to come, looks for each for so long before sleeping. Only for a thread on
    /// a CPU that no agent needs.
    pub fn look_for(&mut self, at_most: Duration) {
        self.look_for = at_most;
    }

    /// Lets agents in by other ways than the socket, too. A domain with a way of its own has no agent by
    /// another.
    ///
    /// # Errors
    /// Why one of the ways cannot be opened.
    pub fn open(&mut self, ways: Ways) -> Result<(), WayError> {
        self.doors = Doors::open(ways)?;
        Ok(())
    }

    /// Where agents with certificates connect, if they can.
    pub fn tls_address(&self) -> Option<std::net::SocketAddr> {
        self.doors.doorman.as_ref().map(doorman::Doorman::address)
    }

    /// Why somebody was refused since this was last asked; of those who are refused often, how often.
    pub fn take_reasons(&mut self) -> Vec<String> {
        self.refusals.take(self.clock.now())
    }

    fn refuse_for(&mut self, source: impl Into<String>, reason: String) {
        self.refusals.add(source.into(), reason, self.clock.now());
    }

    /// The domains whose agents are there.
    pub fn present(&self) -> Vec<&str> {
        let domains = self.connections.iter();
        domains.filter_map(|one| one.domain.as_deref()).collect()
    }

    /// Connections that were refused, or ended for what they sent.
    pub fn refused(&self) -> u64 {
        self.refusals.count
    }

    /// Tells the agent of a domain why it does not get the mode that it asked for.
    pub fn refuse(&mut self, domain: &str, mode: &str, reason: &str) {
        if let Ok(mode) = Name::try_from(mode.to_owned()) {
            let reason = Text::new(reason);
            self.write(domain, &HostMessage::Refused { mode, reason });
        }
    }

    fn write(&mut self, domain: &str, message: &HostMessage) -> bool {
        let place = |one: &AgentConnection| one.domain.as_deref() == Some(domain);
        let Some(place) = self.connections.iter().position(place) else {
            return false;
        };
        let sent = self.connections[place].send(message).is_ok();
        if !sent {
            self.end(place);
        }
        sent
    }

    /// Does what is due, and connects to ports; when something is due next.
    fn attend(&mut self, now: Instant) -> Option<Instant> {
        let mut due = None;
        let mut sooner = |at: Option<Instant>| due = due.into_iter().chain(at).min();
        for place in (0..self.connections.len()).rev() {
            match self.connections[place].nudge(now) {
                Ok(next) => sooner(next),
                Err(_) => self.end(place),
            }
        }
        for place in 0..self.doors.ports.len() {
            let port = &mut self.doors.ports[place];
            let peer = AgentPeer::Port(port.domain.clone());
            match port.connect(now) {
                Ok(Some(channel)) => self
                    .connections
                    .push(AgentConnection::new(channel, peer, now)),
                Ok(None) => {}
                Err(reason) => self.refuse_for(peer.source(), reason),
            }
            sooner(self.doors.ports[place].wake());
        }
        due
    }

    /// Looks once at everything, waiting until an instant for something to happen.
    fn look(&mut self, until: Option<Instant>) {
        let now = self.clock.now();
        let due = self.attend(now);
        let waiting = self.connections.iter();
        let waiting = waiting.filter(|one| one.domain.is_none() && !one.may_wait());
        let hello = waiting.map(|one| one.since.saturating_add(HELLO_WITHIN));
        let until = hello.chain(until).chain(due).min();
        let mut timeout = until.map(|until| until.saturating_since(now));
        let holding = self
            .connections
            .iter_mut()
            .map(|one| one.stream.holds_more());
        let holding: Vec<bool> = holding.collect();
        if holding.contains(&true) {
            timeout = Some(Duration::ZERO);
        }
        let mut polled: Vec<BorrowedFd<'_>> = vec![self.listener.as_fd(), self.woken.as_fd()];
        polled.extend(self.connections.iter().map(|one| one.stream.as_fd()));
        // Behind the connections, whose places are told by theirs.
        polled.extend(self.doors.guests.as_ref().map(AsFd::as_fd));
        polled.extend(self.doors.doorman.as_ref().map(AsFd::as_fd));
        // A failing poll must not become a busy loop; it fails for want of memory alone.
        let Ok(ready) = wait_readable(&polled, timeout) else {
            return;
        };
        let is_ready = |place: usize| {
            let readiness = ready.get(place);
            readiness.is_some_and(|readiness| readiness.readable || readiness.closed)
        };
        let talking: Vec<usize> = (0..self.connections.len())
            .filter(|place| holding[*place] || is_ready(place + 2))
            .collect();
        let visited = (self.connections.len() + 2..polled.len()).any(is_ready);
        let (accepts, commanded) = (is_ready(0), is_ready(1));
        // From the last on, since ending one moves those behind it.
        for place in talking.into_iter().rev() {
            self.hear(place);
        }
        if commanded {
            self.take_commands();
        }
        if accepts {
            self.accept();
        }
        if visited {
            self.let_in();
        }
        self.end_silent(now);
    }

    fn take_commands(&mut self) {
        let mut bytes = [0; 64];
        while io::Read::read(&mut &self.woken, &mut bytes).is_ok_and(|count| count == bytes.len()) {
        }
        while let Ok((number, mode)) = self.commands.try_recv() {
            let by = Asker::Command(number);
            self.inbox.push_back(AgentEvent::Asked { by, mode });
        }
    }

    fn accept(&mut self) {
        for _ in 0..MOST_COME {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            let credentials = peer_credentials(&stream);
            let opened = stream.set_nonblocking(true);
            let peer = credentials.map(AgentPeer::Process);
            match (peer, opened) {
                (Ok(peer), Ok(())) if self.has_room_for(&peer) => {
                    let now = self.clock.now();
                    self.connections
                        .push(AgentConnection::new(stream, peer, now));
                }
                _ => self.refusals.count += 1,
            }
        }
    }

    /// Whether one more connection of a user, a guest or a certificate may be made.
    fn has_room_for(&self, peer: &AgentPeer) -> bool {
        let source = peer.source();
        let nameless = self.connections.iter();
        let nameless = nameless.filter(|one| one.domain.is_none() && one.peer.source() == source);
        // Root is who starts agents.
        let is_root = matches!(peer, AgentPeer::Process(process) if process.uid == 0);
        let few = is_root || nameless.count() < MOST_NAMELESS;
        few && self.connections.len() < MOST_CONNECTIONS
    }

    /// Lets in who has come by another way than the socket.
    fn let_in(&mut self) {
        let now = self.clock.now();
        let mut come = Vec::new();
        for _ in 0..MOST_COME {
            let Some(Ok((stream, cid))) = self.doors.guests.as_ref().map(VsockListener::accept)
            else {
                break;
            };
            match self.doors.expects_guest(cid) {
                true => come.push(AgentConnection::new(stream, AgentPeer::Guest(cid), now)),
                false => self.refuse_for("guests", format!("no domain is the guest {cid}")),
            }
        }
        let visits = self.doors.doorman.as_mut().map(doorman::Doorman::visits);
        let (visits, stays) = visits.unwrap_or((Vec::new(), Some(())));
        if stays.is_none() {
            self.doors.doorman = None;
            let reason = "nobody is let in by TLS any more: its thread has ended";
            self.refuse_for("doorman", reason.to_owned());
        }
        for visit in visits {
            match visit {
                Ok((stream, certificate)) => {
                    let peer = AgentPeer::Certified(certificate);
                    come.push(AgentConnection::new(stream, peer, now));
                }
                Err(reason) => self.refuse_for("strangers", reason),
            }
        }
        for connection in come {
            match self.has_room_for(&connection.peer) {
                true => self.connections.push(connection),
                false => {
                    let peer = connection.peer.in_words();
                    let reason = format!("there are too many connections, of {peer} or of all");
                    self.refuse_for(connection.peer.source(), reason);
                }
            }
        }
    }

    /// Ends connections from which nothing has come for too long, as of `now`. What had come by then
    /// must have been read: this process may itself have been held up.
    fn end_silent(&mut self, now: Instant) {
        for place in (0..self.connections.len()).rev() {
            let one = &self.connections[place];
            let in_time = one.since.saturating_add(HELLO_WITHIN) > now;
            if one.is_silent(now) {
                self.end(place);
            } else if one.domain.is_none() && !one.may_wait() && !in_time {
                self.connections.swap_remove(place);
                self.refusals.count += 1;
            }
        }
    }

    /// Ends a connection; its domain is without an agent.
    fn end(&mut self, place: usize) {
        let ended = self.connections.swap_remove(place);
        if let AgentPeer::Port(of) = &ended.peer {
            let now = self.clock.now();
            let ports = self.doors.ports.iter_mut();
            for port in ports.filter(|port| port.domain == *of) {
                port.ended(now);
            }
        }
        if let Some(domain) = ended.domain {
            self.inbox.push_back(AgentEvent::Left { domain });
        }
    }

    /// Begins another session on a connection, or ends it where it has none.
    fn begin_anew(&mut self, place: usize, is_announced: bool) {
        if !is_announced && !self.connections[place].stream.begin_anew() {
            return self.end(place);
        }
        let now = self.clock.now();
        let one = &mut self.connections[place];
        let domain = one.domain.clone();
        one.forget(now);
        if let Some(domain) = domain {
            self.inbox.push_back(AgentEvent::Left { domain });
        }
    }

    fn hear(&mut self, place: usize) {
        let heard = self.connections[place].read(self.clock.now());
        for message in heard.messages {
            if let Err(reason) = self.take(place, message) {
                self.refuse_for(self.connections[place].peer.source(), reason);
                return self.begin_anew(place, false);
            }
        }
        match heard.ending {
            None => {}
            Some(Heard::End) => self.end(place),
            Some(Heard::Anew) => self.begin_anew(place, true),
            Some(Heard::Nonsense) => {
                let peer = &self.connections[place].peer;
                let reason = format!("{} sends what is no message", peer.in_words());
                self.refuse_for(peer.source(), reason);
                self.begin_anew(place, false);
            }
        }
    }

    /// Makes news of a message, or nothing.
    ///
    /// # Errors
    /// Why the connection is to be ended.
    fn take(&mut self, place: usize, message: AgentMessage) -> Result<(), String> {
        if let AgentMessage::Hello {
            domain,
            clock,
            change,
            ..
        } = message
        {
            if change > MOST_CHANGES {
                let peer = self.connections[place].peer.in_words();
                return Err(format!(
                    "{peer} tells a change number that no host has given"
                ));
            }
            let ours = clock.id == self.clock.id() && clock.boot.as_str() == self.boot;
            return self.welcome(place, domain.as_str(), change, ours);
        }
        let one = &self.connections[place];
        let Some(domain) = one.domain.clone() else {
            return Err(format!(
                "{} does not say first whose agent it is",
                one.peer.in_words()
            ));
        };
        let now = self.clock.now();
        // Times of another clock say nothing here; the arrival is no earlier.
        let time = |at: Instant| if one.same_clock { at.min(now) } else { now };
        let news = match message {
            AgentMessage::Done {
                change,
                received_ns,
                switched_ns,
            } => AgentEvent::Done {
                domain,
                number: change,
                received_at: time(received_ns),
                switched_at: time(switched_ns),
            },
            AgentMessage::Failed {
                change,
                reason,
                rolled_back,
            } => AgentEvent::Failed {
                domain,
                number: change,
                reason: reason.to_string(),
                rolled_back,
            },
            AgentMessage::Request { mode } => match self.may_ask(&domain, now) {
                true => AgentEvent::Asked {
                    by: Asker::Domain(domain),
                    mode: mode.to_string(),
                },
                false => {
                    let reason = "this agent asks for modes too often";
                    self.refuse(&domain, mode.as_str(), reason);
                    let refusal = format!("the agent of \"{domain}\" asks for modes too often");
                    self.refuse_for(format!("agent of {domain}"), refusal);
                    return Ok(());
                }
            },
            AgentMessage::Hello { .. }
            | AgentMessage::Withdrawn { .. }
            | AgentMessage::Pong { .. } => return Ok(()),
        };
        self.inbox.push_back(news);
        Ok(())
    }

    /// Whether the agents of a domain may ask once more for a mode.
    fn may_ask(&mut self, domain: &str, now: Instant) -> bool {
        let left = self.requests.entry(domain.to_owned());
        let left = left.or_insert_with(|| BurstAllowance::new(REQUESTS, now));
        left.take(now)
    }

    fn welcome(
        &mut self,
        place: usize,
        domain: &str,
        change: u64,
        same_clock: bool,
    ) -> Result<(), String> {
        let one = &self.connections[place];
        let peer = one.peer.in_words();
        if one.domain.is_some() {
            return Err(format!("{peer} says twice whose agent it is"));
        }
        let admitted = self.doors.admit(&one.peer, domain, &self.authority);
        admitted.map_err(|why| format!("{peer} is not the agent of \"{domain}\": {why}"))?;
        // An agent that was started anew takes the place of one that has not been missed yet.
        for old in &mut self.connections {
            if old.domain.as_deref() == Some(domain) {
                old.domain = None;
                old.since = Instant::ORIGIN;
            }
        }
        let (number, mode) = match self.latest_changes.get(domain) {
            Some((number, mode)) => (*number, Name::try_from(mode.clone()).ok()),
            None => (0, None),
        };
        let one = &mut self.connections[place];
        one.domain = Some(domain.to_owned());
        one.same_clock = same_clock;
        let name = Name::try_from(domain.to_owned()).map_err(|error| error.to_string())?;
        let number = number.max(change);
        one.send(&HostMessage::Welcome {
            domain: name,
            mode,
            change: number,
        })
        .map_err(|error| format!("{peer} takes nothing in: {error}"))?;
        let domain = domain.to_owned();
        self.inbox.push_back(AgentEvent::Joined { domain, number });
        Ok(())
    }
}

fn names(texts: Vec<String>) -> Option<Vec<Name>> {
    texts
        .into_iter()
        .map(|text| Name::try_from(text).ok())
        .collect()
}

impl<C: Clock> Agents for AgentLinks<C> {
    fn send(&mut self, domain: &str, order: Order) -> bool {
        let message = match order {
            Order::Withdraw { number } => Some(HostMessage::Withdraw { change: number }),
            Order::Change {
                number,
                mode,
                stop,
                start,
            } => {
                self.latest_changes
                    .insert(domain.to_owned(), (number, mode.clone()));
                let named = Name::try_from(mode).ok().zip(names(stop)).zip(names(start));
                named.map(|((mode, stop), start)| HostMessage::Change {
                    change: number,
                    mode,
                    start,
                    stop,
                })
            }
        };
        message.is_some_and(|message| self.write(domain, &message))
    }

    fn expect(&mut self, soon: bool) {
        self.expecting = soon;
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<AgentEvent> {
        let began = self.clock.now();
        loop {
            if let Some(news) = self.inbox.pop_front() {
                return Some(news);
            }
            let now = self.clock.now();
            if self.expecting && now.saturating_since(began) < self.look_for {
                self.look(Some(now));
                if self.inbox.is_empty() && until.is_some_and(|until| until <= now) {
                    return None;
                }
                continue;
            }
            if until.is_some_and(|until| until <= self.clock.now()) {
                // What is there already counts, however late it is.
                self.look(until);
                return self.inbox.pop_front();
            }
            self.look(until);
        }
    }
}
