//! The receiving side of a topic over RTPS.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::datagrams::{DATAGRAMS_AT_ONCE, DatagramSlots, grow_receive_buffer};
use tailbound_messages::{LONGEST_DATAGRAM, RawMessage};
use tailbound_rtps::{Delivery, EntityId, RtpsReader, octet_payload};
use tailbound_time::{Clock, Duration};

use super::membership::Membership;
use super::writer_changes::{WriterChange, WriterChanges};
use super::{NAME, endpoint, is_reliable, refused};
use crate::data_space::longest_message;
use crate::datagram_inlet::{DatagramInlet, give_room};
use crate::emptiness::Emptiness;
use crate::message_store::MessageStore;
use crate::{Receiver, Topic, TransportError};

/// The most memory for messages that wait for one subscriber, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// The least room in the kernel for a reliable topic, in bytes: that of a few datagrams.
const LEAST_ROOM: usize = 1 << 18;

/// Receives messages at a socket of its own.
pub(super) struct RtpsReceiver {
    membership: Arc<Membership>,
    entity: EntityId,
    inlet: DatagramInlet,
    changes: Arc<WriterChanges>,
    generation: u64,
    end: ReadingEnd,
    /// Whether what waits was received just now, for the call of `take` that follows `wait`.
    fresh: bool,
    emptiness: Emptiness,
    refusals: u64,
}

/// The protocol, and the messages that it has delivered.
struct ReadingEnd {
    reader: RtpsReader,
    waiting: MessageStore,
    garbage: u64,
}

impl RtpsReceiver {
    pub(super) fn open(membership: Arc<Membership>, topic: &Topic) -> Result<Self, TransportError> {
        let history = topic.quality.history as usize;
        let longest = longest_message(topic);
        if longest.saturating_mul(history) > MOST_MEMORY {
            return Err(TransportError::Lacks {
                transport: NAME,
                quality: format!("{} bytes for messages that wait", longest * history),
                remedy: format!(
                    "let history times size of topic `{}` be at most {MOST_MEMORY}",
                    topic.name
                ),
            });
        }
        let (socket, address) = open_socket(&membership, topic)?;
        let room = match is_reliable(topic) {
            true => reliable_room(&socket, topic)?,
            false => give_room(NAME, &socket, topic)?,
        };
        let slots = DatagramSlots::new(DATAGRAMS_AT_ONCE, LONGEST_DATAGRAM);
        let entity = EntityId::user_reader(membership.next_number());
        let changes = Arc::<WriterChanges>::default();
        let mut record = endpoint(&membership, entity, topic);
        record.address = Some(address);
        let end = ReadingEnd {
            reader: RtpsReader::new(record.guid),
            waiting: MessageStore::new(history, longest),
            garbage: 0,
        };
        membership.add_reader(record, Arc::clone(&changes));
        Ok(Self {
            membership,
            entity,
            inlet: DatagramInlet::new(NAME, socket, room, slots),
            changes,
            generation: 0,
            end,
            fresh: false,
            emptiness: Emptiness::unseen(),
            refusals: 0,
        })
    }

    /// Lets the protocol take the datagrams in the first slots.
    fn take_datagrams(&mut self, count: usize) {
        if self.changes.generation() != self.generation {
            self.generation = self.changes.generation();
            self.end.note_changes(self.changes.take());
        }
        let now = Monotonic.now();
        let socket = self.membership.socket();
        let mut send = |to: SocketAddrV4, datagram: &[u8]| {
            // An answer that is lost is asked for again.
            let _ = socket.send_to(datagram, to);
        };
        let ReadingEnd {
            reader,
            waiting,
            garbage,
        } = &mut self.end;
        for slot in 0..count {
            let datagram = self.inlet.slots.datagram(slot);
            let mut deliver = |delivery: Delivery<'_>| match octet_payload::read(delivery.payload) {
                Some(message) if !delivery.gone => waiting.push(message),
                _ => *garbage += 1,
            };
            reader.receive(now, datagram, &mut deliver, &mut send);
        }
        let refusals = reader.counts().total() + *garbage;
        if refusals != self.refusals {
            self.membership.note_refusals(refusals - self.refusals);
            self.refusals = refusals;
        }
    }

    /// Receives one datagram. Whether one came.
    fn receive_one(&mut self, waits: bool) -> Result<bool, TransportError> {
        let came = self.inlet.receive_one(0, waits)?;
        self.take_datagrams(usize::from(came));
        Ok(came)
    }

    /// Reads the socket until it is empty.
    fn drain(&mut self) -> Result<(), TransportError> {
        let mut emptiness = self.emptiness;
        let outcome = emptiness.look(|| self.read_all());
        self.emptiness = emptiness;
        outcome
    }

    /// Reads the datagrams in the socket; whether those were all.
    fn read_all(&mut self) -> Result<bool, TransportError> {
        let mut more = self.receive_one(false)?;
        let mut receptions = 1;
        while more && receptions < self.inlet.most_receptions {
            let received = self.inlet.receive(0, DATAGRAMS_AT_ONCE)?;
            self.take_datagrams(received);
            more = received == DATAGRAMS_AT_ONCE;
            receptions += 1;
        }
        Ok(!more)
    }

    /// Waits for a datagram and takes it, with newer ones if there may be any.
    fn receive_within(&mut self, limit: Option<Duration>) -> Result<(), TransportError> {
        if !self.inlet.waits_in_receive(limit)? {
            return match self.inlet.wait(limit)? {
                true => self.drain(),
                false => Ok(()),
            };
        }
        match self.receive_one(true)? && !self.emptiness.lasts() {
            true => self.drain(),
            false => Ok(()),
        }
    }
}

impl ReadingEnd {
    fn note_changes(&mut self, changes: Vec<WriterChange>) {
        let Self {
            reader, waiting, ..
        } = self;
        for change in changes {
            match change {
                WriterChange::Gained(writer) => reader.add_writer(writer),
                WriterChange::Lost(writer) => reader.depart(writer, &mut |delivery| {
                    if let Some(message) = octet_payload::read(delivery.payload) {
                        waiting.push(message);
                    }
                }),
            }
        }
    }
}

impl Receiver for RtpsReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        if !std::mem::take(&mut self.fresh) {
            self.drain()?;
        }
        match self.end.waiting.pop() {
            Some(message) => {
                visit(message.into());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if !self.end.waiting.is_empty() {
            return Ok(true);
        }
        let end = limit.map(|limit| Monotonic.now().saturating_add(limit));
        let mut left = limit;
        loop {
            // Heartbeats come without a message.
            self.receive_within(left)?;
            self.fresh = !self.end.waiting.is_empty();
            left = end.map(|end| end.saturating_since(Monotonic.now()));
            if self.fresh || left == Some(Duration::ZERO) {
                return Ok(self.fresh);
            }
        }
    }

    fn dropped(&self) -> Option<u64> {
        self.inlet.dropped()
    }
}

impl Drop for RtpsReceiver {
    fn drop(&mut self) {
        self.membership.remove_reader(self.entity);
    }
}

/// A socket at the interface, and its address.
fn open_socket(
    membership: &Membership,
    topic: &Topic,
) -> Result<(UdpSocket, SocketAddrV4), TransportError> {
    let attempt = || format!("receive topic `{}`", topic.name);
    let opened = UdpSocket::bind((membership.interface(), 0));
    let socket = opened.map_err(|error| refused(attempt(), error))?;
    match socket.local_addr() {
        Ok(SocketAddr::V4(address)) => Ok((socket, address)),
        Ok(_) => Err(refused(attempt(), "the socket has no IPv4 address")),
        Err(error) => Err(refused(attempt(), error)),
    }
}

/// Gives the socket of a reliable topic as much room as the host admits: messages that do not fit are sent again.
fn reliable_room(socket: &UdpSocket, topic: &Topic) -> Result<usize, TransportError> {
    if let Ok(room) = give_room(NAME, socket, topic) {
        return Ok(room);
    }
    let attempt = || format!("make room for topic `{}`", topic.name);
    grow_receive_buffer(socket, LEAST_ROOM).map_err(|error| refused(attempt(), error))
}
