//! A participant of a domain with its sockets, its thread, and the ends of topics that the thread serves.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::datagrams::{
    DATAGRAMS_AT_ONCE, DatagramSlots, bind_shared, receive_datagrams,
};
use tailbound_linux::polling::{Interest, Poller};
use tailbound_messages::LONGEST_DATAGRAM;
use tailbound_rtps::{
    DiscoveryEffects, EndpointRecord, EntityId, GuidPrefix, HIGHEST_PARTICIPANT, MatchChange,
    Participant, ParticipantSettings, RtpsWriter, discovery_group, participant_port,
};
use tailbound_time::{Clock, Duration, Instant};

use super::refused;
use super::writer_changes::{WriterChange, WriterChanges};
use crate::TransportError;

/// The longest time for which the end of a reliable publisher waits until its last messages are confirmed.
const LINGER: Duration = Duration::from_secs(1);

/// The most datagrams of discovery that are taken in a row before others come to their turn.
const MOST_IN_A_ROW: usize = 64;

/// A participant of a domain, from joining to the end of the last of its users.
pub(super) struct Membership {
    core: Arc<MembershipCore>,
    thread: Option<JoinHandle<()>>,
}

/// The part that the thread of discovery and the users of the participant share.
struct MembershipCore {
    interface: Ipv4Addr,
    prefix: GuidPrefix,
    /// The socket for discovery by unicast and answers of readers, from which everything is sent.
    socket: UdpSocket,
    state: Mutex<MembershipState>,
    /// A byte here wakes the thread.
    alarm: UnixStream,
    ends: AtomicBool,
    numbers: AtomicU32,
    refusals: AtomicU64,
}

struct MembershipState {
    participant: Participant,
    writers: BTreeMap<EntityId, Arc<Mutex<RtpsWriter>>>,
    readers: BTreeMap<EntityId, Arc<WriterChanges>>,
    /// The writers without a publisher, which send again until the end of their time.
    ending: BTreeMap<EntityId, Instant>,
}

/// The receiving side of discovery, which the thread owns.
struct DiscoveryInlet {
    poller: Poller,
    group: UdpSocket,
    awakening: UnixStream,
    slots: DatagramSlots,
}

impl Membership {
    /// Joins a domain over the interface with this address.
    pub(super) fn join(domain: u16, interface: Ipv4Addr) -> Result<Self, TransportError> {
        let attempt = || format!("join domain {domain} over {interface}");
        let joined = Self::open(domain, interface).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                let reason = format!(
                    "the ports of all {} participants of this host are taken",
                    HIGHEST_PARTICIPANT + 1
                );
                refused(attempt(), reason)
            }
            _ => {
                let reason = format!("{error}; is there an interface with this address?");
                refused(attempt(), reason)
            }
        })?;
        Ok(joined)
    }

    fn open(domain: u16, interface: Ipv4Addr) -> io::Result<Self> {
        let (socket, address) = open_unicast(domain, interface)?;
        socket.set_nonblocking(true)?;
        // Participants share the group; a program that does not share is no participant.
        let address_of_group = discovery_group(domain);
        let group = bind_shared(address_of_group)
            .map_err(|error| io::Error::other(format!("{address_of_group}: {error}")))?;
        group.join_multicast_v4(address_of_group.ip(), &interface)?;
        let (alarm, awakening) = UnixStream::pair()?;
        alarm.set_nonblocking(true)?;
        awakening.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&socket, 0, Interest::Read)?;
        poller.add(&group, 1, Interest::Read)?;
        poller.add(&awakening, 2, Interest::Read)?;
        let inlet = DiscoveryInlet {
            poller,
            group,
            awakening,
            slots: DatagramSlots::new(DATAGRAMS_AT_ONCE, LONGEST_DATAGRAM),
        };
        let prefix = random_prefix();
        let settings = ParticipantSettings {
            prefix,
            domain,
            address,
        };
        let core = Arc::new(MembershipCore {
            interface,
            prefix,
            socket,
            state: Mutex::new(MembershipState {
                participant: Participant::new(&settings, Monotonic.now()),
                writers: BTreeMap::new(),
                readers: BTreeMap::new(),
                ending: BTreeMap::new(),
            }),
            alarm,
            ends: AtomicBool::new(false),
            numbers: AtomicU32::new(1),
            refusals: AtomicU64::new(0),
        });
        let for_thread = Arc::clone(&core);
        let thread = std::thread::Builder::new().name("rtps-discovery".to_owned());
        let thread = thread.spawn(move || for_thread.run(inlet))?;
        Ok(Self {
            core,
            thread: Some(thread),
        })
    }

    pub(super) fn prefix(&self) -> GuidPrefix {
        self.core.prefix
    }

    pub(super) fn interface(&self) -> Ipv4Addr {
        self.core.interface
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.core.socket
    }

    /// A number that no other endpoint of the participant has.
    pub(super) fn next_number(&self) -> u32 {
        self.core.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add_writer(&self, record: EndpointRecord, writer: Arc<Mutex<RtpsWriter>>) {
        let mut state = lock(&self.core.state);
        state.writers.insert(record.guid.entity, writer);
        self.core.add_endpoint(&mut state, record);
    }

    pub(super) fn add_reader(&self, record: EndpointRecord, changes: Arc<WriterChanges>) {
        let mut state = lock(&self.core.state);
        state.readers.insert(record.guid.entity, changes);
        self.core.add_endpoint(&mut state, record);
    }

    pub(super) fn remove_reader(&self, entity: EntityId) {
        let mut state = lock(&self.core.state);
        state.readers.remove(&entity);
        self.core.remove_endpoint(&mut state, entity);
    }

    /// Ends a writer, once its reliable readers have everything or its time is over.
    pub(super) fn end_writer(&self, entity: EntityId) {
        let mut state = lock(&self.core.state);
        let writer = state.writers.get(&entity);
        if writer.is_none_or(|writer| lock(writer).is_confirmed()) {
            state.writers.remove(&entity);
            self.core.remove_endpoint(&mut state, entity);
            return;
        }
        let end = Monotonic.now().saturating_add(LINGER);
        state.ending.insert(entity, end);
        drop(state);
        self.alarm();
    }

    /// Makes the thread look at what is due.
    pub(super) fn alarm(&self) {
        // A full pipe wakes the thread as well.
        let _ = (&self.core.alarm).write(&[0]);
    }

    pub(super) fn note_refusals(&self, count: u64) {
        self.core.refusals.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn refusals(&self) -> u64 {
        let of_discovery = lock(&self.core.state).participant.counts().total();
        of_discovery + self.core.refusals.load(Ordering::Relaxed)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.core.ends.store(true, Ordering::Release);
        self.alarm();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl MembershipCore {
    fn run(&self, mut inlet: DiscoveryInlet) {
        loop {
            let due = self.elapse();
            let limit = due.map(|due| due.saturating_since(Monotonic.now()));
            if limit.is_none() {
                return;
            }
            // Without its poller the thread would spin: the participant is silent from here on, and others see that.
            if inlet.poller.wait(limit).is_err() {
                return;
            }
            let mut byte = [0; 64];
            while inlet
                .awakening
                .read(&mut byte)
                .is_ok_and(|read| read == byte.len())
            {}
            self.receive(&self.socket, &mut inlet.slots);
            self.receive(&inlet.group, &mut inlet.slots);
        }
    }

    /// Takes the datagrams that wait in a socket.
    fn receive(&self, socket: &UdpSocket, slots: &mut DatagramSlots) {
        for _ in 0..MOST_IN_A_ROW / DATAGRAMS_AT_ONCE {
            // An error of the socket, such as an interface that goes down, passes or is met again.
            let received = receive_datagrams(socket, slots, 0, DATAGRAMS_AT_ONCE).unwrap_or(0);
            if received == 0 {
                return;
            }
            let mut state = lock(&self.state);
            let mut effects = DiscoveryEffects::default();
            for slot in 0..received {
                let datagram = slots.datagram(slot);
                state
                    .participant
                    .receive(Monotonic.now(), datagram, &mut effects);
            }
            self.carry_out(&mut state, effects);
        }
    }

    /// Does what is due. The time of the next due work; none at the end of the participant.
    fn elapse(&self) -> Option<Instant> {
        let now = Monotonic.now();
        let mut state = lock(&self.state);
        let mut effects = DiscoveryEffects::default();
        state.participant.elapse(now, &mut effects);
        self.carry_out(&mut state, effects);
        let mut due = state.participant.next_due();
        let mut ended = Vec::new();
        for (entity, writer) in &state.writers {
            let mut writer = lock(writer);
            writer.elapse(now, &mut self.send());
            due = writer.heartbeat_due().map_or(due, |next| next.min(due));
            if let Some(end) = state.ending.get(entity) {
                due = due.min(*end);
                if writer.is_confirmed() || *end <= now {
                    ended.push(*entity);
                }
            }
        }
        for entity in ended {
            state.writers.remove(&entity);
            state.ending.remove(&entity);
            self.remove_endpoint(&mut state, entity);
        }
        if self.ends.load(Ordering::Acquire) && state.ending.is_empty() {
            let mut effects = DiscoveryEffects::default();
            state.participant.end(&mut effects);
            self.carry_out(&mut state, effects);
            return None;
        }
        Some(due)
    }

    fn add_endpoint(&self, state: &mut MembershipState, record: EndpointRecord) {
        let mut effects = DiscoveryEffects::default();
        state
            .participant
            .add_endpoint(Monotonic.now(), record, &mut effects);
        self.carry_out(state, effects);
        // Others may have to confirm the announcement.
        let _ = (&self.alarm).write(&[0]);
    }

    fn remove_endpoint(&self, state: &mut MembershipState, entity: EntityId) {
        let mut effects = DiscoveryEffects::default();
        state
            .participant
            .remove_endpoint(Monotonic.now(), entity, &mut effects);
        self.carry_out(state, effects);
        let _ = (&self.alarm).write(&[0]);
    }

    fn send(&self) -> impl FnMut(SocketAddrV4, &[u8]) {
        |to: SocketAddrV4, datagram: &[u8]| {
            // A datagram that is not sent is one that is lost: discovery and reliable writers send again.
            let _ = self.socket.send_to(datagram, to);
        }
    }

    fn carry_out(&self, state: &mut MembershipState, effects: DiscoveryEffects) {
        let now = Monotonic.now();
        let mut send = self.send();
        for (to, datagram) in &effects.datagrams {
            send(*to, datagram);
        }
        for change in effects.matches {
            match change {
                MatchChange::ReaderMatched { writer, reader } => {
                    if let Some(writer) = state.writers.get(&writer) {
                        lock(writer).add_reader(now, reader, &mut send);
                    }
                }
                MatchChange::ReaderGone { writer, reader } => {
                    if let Some(writer) = state.writers.get(&writer) {
                        lock(writer).remove_reader(reader);
                    }
                }
                MatchChange::WriterMatched { reader, writer } => {
                    if let Some(changes) = state.readers.get(&reader) {
                        changes.add(WriterChange::Gained(writer));
                    }
                }
                MatchChange::WriterGone { reader, writer } => {
                    if let Some(changes) = state.readers.get(&reader) {
                        changes.add(WriterChange::Lost(writer));
                    }
                }
            }
        }
        for (source, answer) in &effects.answers {
            if let Some(writer) = state.writers.get(&answer.writer) {
                lock(writer).take_answer(now, *source, answer, &mut send);
            }
        }
    }
}

/// Locks a part that is shared with a thread. Its users leave it whole, also where one panics.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first free of the well-known ports of participants.
fn open_unicast(domain: u16, interface: Ipv4Addr) -> io::Result<(UdpSocket, SocketAddrV4)> {
    let mut number = 0;
    loop {
        let address = SocketAddrV4::new(interface, participant_port(domain, number));
        match UdpSocket::bind(address) {
            Ok(socket) => return Ok((socket, address)),
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && number < HIGHEST_PARTICIPANT =>
            {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// An identity that no other participant has. The first two bytes are those of the vendor.
fn random_prefix() -> GuidPrefix {
    let random = || RandomState::new().build_hasher().finish().to_le_bytes();
    let mut prefix = [0; 12];
    prefix[2..10].copy_from_slice(&random());
    prefix[10..].copy_from_slice(&random()[..2]);
    GuidPrefix(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_participants_differ() {
        let first = random_prefix();
        assert_ne!(first, random_prefix());
        assert_eq!(first.0[..2], [0, 0]);
    }
}
