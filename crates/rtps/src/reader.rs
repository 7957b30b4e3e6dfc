//! The reading end of a topic: order, values that are held back, answers to heartbeats (DDSI-RTPS 2.3, section 8.4.12).

use std::net::SocketAddrV4;

use tailbound_time::{Duration, Instant};

use crate::writer::{SendDatagram, is_newer};
use crate::{
    AckNack, Addressed, DataSubmessage, DatagramBuilder, EntityId, Guid, GuidPrefix, MessageFault,
    RtpsGap, RtpsHeartbeat, RtpsMessage, SequencePlace, SequenceSet, SequenceTrack, Submessage,
};

/// The least time between two requests for the same number, unless the writer asks.
const REQUEST_DISTANCE: Duration = Duration::from_millis(10);
/// The most writers that are gone of which the last values may still be on their way.
const MOST_DEPARTED: usize = 16;
/// The most values of a reliable writer that wait for one before them.
const MOST_HELD: usize = 256;

/// A writer that a reader listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedWriter {
    /// The writer.
    pub guid: Guid,
    /// The address at which the writer receives answers.
    pub address: SocketAddrV4,
    /// Whether the writer sends again, and the reader asks for it.
    pub reliable: bool,
}

/// A value or the end of an instance, as a reader delivers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The writer.
    pub writer: Guid,
    /// Whether the instance is gone.
    pub gone: bool,
    /// The key of the instance, where it is an identity.
    pub key: Option<Guid>,
    /// The value or the key, with its encapsulation.
    pub payload: &'a [u8],
}

/// Datagrams and submessages that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams of other protocols.
    pub foreign: u64,
    /// Datagrams of other versions of RTPS.
    pub other_versions: u64,
    /// Submessages and announcements that were truncated or made no sense.
    pub malformed: u64,
    /// Submessages of kinds that are not read here: fragments, security, those of vendors.
    pub other_kinds: u64,
    /// Values of writers that are not matched.
    pub of_strangers: u64,
    /// Participants and endpoints for which there was no room.
    pub beyond_memory: u64,
    /// Endpoints of a topic of ours whose qualities do not match.
    pub mismatches: u64,
}

impl DatagramCounts {
    /// Counts a datagram that is no message.
    pub(crate) fn note(&mut self, fault: MessageFault) {
        match fault {
            MessageFault::Foreign => self.foreign += 1,
            MessageFault::Version { .. } => self.other_versions += 1,
        }
    }

    /// The number of all that were dropped.
    pub fn total(&self) -> u64 {
        let Self {
            foreign,
            other_versions,
            malformed,
            other_kinds,
            of_strangers,
            beyond_memory,
            mismatches,
        } = *self;
        foreign
            + other_versions
            + malformed
            + other_kinds
            + of_strangers
            + beyond_memory
            + mismatches
    }
}

#[derive(Debug)]
struct WriterProxy {
    writer: MatchedWriter,
    track: SequenceTrack,
    latest_heartbeat: Option<u32>,
    answers: u32,
    latest_request: Option<(i64, Instant)>,
    departed: bool,
}

#[derive(Debug)]
struct HeldValue {
    writer: Guid,
    sequence: i64,
    gone: bool,
    key: Option<Guid>,
    payload: Vec<u8>,
}

/// A reception of deliveries.
pub type Deliver<'a> = &'a mut dyn FnMut(Delivery<'_>);

/// The reading end of a topic.
#[derive(Debug)]
pub struct RtpsReader {
    guid: Guid,
    proxies: Vec<WriterProxy>,
    held: Vec<HeldValue>,
    /// Memory of values that were held, to be used again.
    spare: Vec<Vec<u8>>,
    datagram: DatagramBuilder,
    counts: DatagramCounts,
}

impl RtpsReader {
    /// A reader without writers.
    pub fn new(guid: Guid) -> Self {
        Self {
            guid,
            proxies: Vec::new(),
            held: Vec::new(),
            spare: Vec::new(),
            datagram: DatagramBuilder::new(guid.prefix),
            counts: DatagramCounts::default(),
        }
    }

    /// The datagrams and submessages that were dropped.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Begins to listen to a writer.
    pub fn add_writer(&mut self, writer: MatchedWriter) {
        if let Some(proxy) = self.proxy(writer.guid) {
            proxy.writer = writer;
            proxy.departed = false;
            return;
        }
        self.proxies.push(WriterProxy {
            writer,
            track: SequenceTrack::new(),
            latest_heartbeat: None,
            answers: 0,
            latest_request: None,
            departed: false,
        });
    }

    /// Notes that a writer is gone. Values that are on their way are still delivered, and none waits for another.
    pub fn depart(&mut self, writer: Guid, deliver: Deliver<'_>) {
        let held = self.held.iter().filter(|value| value.writer == writer);
        let last = held.map(|value| value.sequence).max();
        let Some(place) = self.place(writer) else {
            return;
        };
        let proxy = &mut self.proxies[place];
        proxy.departed = true;
        proxy.writer.reliable = false;
        if let Some(last) = last {
            proxy.track.skip_to(last + 1);
            self.release(place, deliver);
        }
        let mut departed = self.proxies.iter().filter(|proxy| proxy.departed);
        let oldest = departed.next().map(|proxy| proxy.writer.guid);
        if departed.count() >= MOST_DEPARTED {
            self.proxies
                .retain(|proxy| Some(proxy.writer.guid) != oldest);
        }
    }

    /// Forgets the writers of a participant.
    pub(crate) fn remove_participant(&mut self, prefix: GuidPrefix) {
        self.proxies
            .retain(|proxy| proxy.writer.guid.prefix != prefix);
        self.held.retain(|value| value.writer.prefix != prefix);
    }

    /// Asks a writer for its numbers, with an answer to a heartbeat that has not come.
    pub(crate) fn greet(&mut self, writer: Guid, send: SendDatagram<'_>) {
        if let Some(place) = self.place(writer) {
            self.send_answer(place, SequenceSet::at(1), false, send);
        }
    }

    /// Takes a datagram.
    pub fn receive(
        &mut self,
        now: Instant,
        datagram: &[u8],
        deliver: Deliver<'_>,
        send: SendDatagram<'_>,
    ) {
        let message = match RtpsMessage::parse(datagram) {
            Ok(message) => message,
            Err(fault) => return self.counts.note(fault),
        };
        for submessage in Addressed::to(self.guid.prefix, &message) {
            match submessage {
                Ok((source, submessage)) => {
                    self.take(now, source, &submessage, deliver, send);
                }
                Err(_) => self.counts.malformed += 1,
            }
        }
    }

    /// Takes a submessage of a participant.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        source: GuidPrefix,
        submessage: &Submessage<'_>,
        deliver: Deliver<'_>,
        send: SendDatagram<'_>,
    ) {
        let (reader, writer) = match submessage {
            Submessage::Data(data) => (data.reader, data.writer),
            Submessage::Heartbeat(heartbeat) => (heartbeat.reader, heartbeat.writer),
            Submessage::Gap(gap) => (gap.reader, gap.writer),
            _ => {
                self.counts.other_kinds += 1;
                return;
            }
        };
        if reader != self.guid.entity && reader != EntityId::UNKNOWN {
            return;
        }
        let Some(place) = self.place(source.with(writer)) else {
            self.counts.of_strangers += 1;
            return;
        };
        match submessage {
            Submessage::Data(data) => self.take_data(place, data, deliver),
            Submessage::Heartbeat(heartbeat) => {
                self.take_heartbeat(now, place, heartbeat, deliver, send);
            }
            Submessage::Gap(gap) => self.take_gap(place, gap, deliver),
            _ => {}
        }
    }

    fn take_data(&mut self, place: usize, data: &DataSubmessage<'_>, deliver: Deliver<'_>) {
        let proxy = &mut self.proxies[place];
        let delivery = Delivery {
            writer: proxy.writer.guid,
            gone: data.gone,
            key: data.key,
            payload: data.payload.unwrap_or(&[]),
        };
        match proxy.track.place(data.sequence) {
            SequencePlace::Settled => {}
            // Without requests, a number that is missing stays so.
            _ if !proxy.writer.reliable => {
                proxy.track.skip_to(data.sequence.saturating_add(1));
                deliver(delivery);
            }
            SequencePlace::Next => {
                proxy.track.arrive(data.sequence);
                deliver(delivery);
                self.release(place, deliver);
            }
            SequencePlace::Ahead if self.held.len() < MOST_HELD => {
                proxy.track.arrive(data.sequence);
                let mut payload = self.spare.pop().unwrap_or_default();
                payload.clear();
                payload.extend_from_slice(delivery.payload);
                self.held.push(HeldValue {
                    writer: delivery.writer,
                    sequence: data.sequence,
                    gone: data.gone,
                    key: data.key,
                    payload,
                });
            }
            // The writer sends the value again.
            SequencePlace::Ahead | SequencePlace::Beyond => {}
        }
    }

    fn take_heartbeat(
        &mut self,
        now: Instant,
        place: usize,
        heartbeat: &RtpsHeartbeat,
        deliver: Deliver<'_>,
        send: SendDatagram<'_>,
    ) {
        let proxy = &mut self.proxies[place];
        let count = heartbeat.count;
        let is_old = |latest| !is_newer(count, latest);
        if !proxy.writer.reliable || proxy.latest_heartbeat.is_some_and(is_old) {
            return;
        }
        proxy.latest_heartbeat = Some(count);
        proxy.track.announce(heartbeat.first, heartbeat.last);
        let missing = proxy.track.missing();
        let again = proxy.latest_request.is_some_and(|(base, at)| {
            base == missing.base() && now.saturating_since(at) < REQUEST_DISTANCE
        });
        self.release(place, deliver);
        if heartbeat.is_final && (missing.is_empty() || again) {
            return;
        }
        if !missing.is_empty() {
            self.proxies[place].latest_request = Some((missing.base(), now));
        }
        self.send_answer(place, missing, true, send);
    }

    fn take_gap(&mut self, place: usize, gap: &RtpsGap, deliver: Deliver<'_>) {
        let track = &mut self.proxies[place].track;
        track.settle(gap.first, gap.more.base());
        for number in gap.more.numbers() {
            track.settle(number, number.saturating_add(1));
        }
        self.release(place, deliver);
    }

    /// Delivers the values that are held back for no number any more, in order.
    fn release(&mut self, place: usize, deliver: Deliver<'_>) {
        let (writer, next) = (
            self.proxies[place].writer.guid,
            self.proxies[place].track.next(),
        );
        loop {
            let ready = self
                .held
                .iter()
                .enumerate()
                .filter(|(_, value)| value.writer == writer && value.sequence < next);
            let first = ready.min_by_key(|(_, value)| value.sequence);
            let Some((place, _)) = first else {
                return;
            };
            let value = self.held.swap_remove(place);
            deliver(Delivery {
                writer,
                gone: value.gone,
                key: value.key,
                payload: &value.payload,
            });
            self.spare.push(value.payload);
        }
    }

    fn send_answer(
        &mut self,
        place: usize,
        missing: SequenceSet,
        is_final: bool,
        send: SendDatagram<'_>,
    ) {
        let proxy = &mut self.proxies[place];
        proxy.answers = proxy.answers.wrapping_add(1);
        let MatchedWriter { guid, address, .. } = proxy.writer;
        let answer = AckNack {
            reader: self.guid.entity,
            writer: guid.entity,
            missing,
            count: proxy.answers,
            is_final,
        };
        self.datagram.restart();
        self.datagram.destination(guid.prefix);
        self.datagram.ack_nack(&answer);
        send(address, self.datagram.bytes());
    }

    fn place(&self, writer: Guid) -> Option<usize> {
        self.proxies
            .iter()
            .position(|proxy| proxy.writer.guid == writer)
    }

    fn proxy(&mut self, writer: Guid) -> Option<&mut WriterProxy> {
        self.proxies
            .iter_mut()
            .find(|proxy| proxy.writer.guid == writer)
    }
}
