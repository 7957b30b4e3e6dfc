//! The writing end of a topic: values, the history for readers that ask again, heartbeats (DDSI-RTPS 2.3, section 8.4.9).
//!
//! A writer never waits. Each value goes once to each address of a matched reader. A reliable reader asks again for the values
//! that it lacks, and gets those that the history still has; for the others it gets the word not to wait.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::ops::Range;

use tailbound_time::{Duration, Instant};

use crate::{
    AckNack, DatagramBuilder, EntityId, Guid, GuidPrefix, RtpsGap, RtpsHeartbeat, SequenceSet,
    octet_payload,
};

/// The distance of heartbeats to readers that have not confirmed everything: the first one, doubled up to the longest.
const FIRST_HEARTBEAT: Duration = Duration::from_millis(10);
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(1);
/// The most values that an answer of a reader makes a writer send again. The reader asks for the rest after the heartbeat
/// behind them, so that no other user of the writer waits for long.
const MOST_RESENT: usize = 64;

/// A destination of datagrams, and one of them.
pub type SendDatagram<'a> = &'a mut dyn FnMut(SocketAddrV4, &[u8]);

/// A reader that a writer sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedReader {
    /// The reader.
    pub guid: Guid,
    /// The address at which it receives.
    pub address: SocketAddrV4,
    /// Whether it asks again for what it lacks.
    pub reliable: bool,
}

#[derive(Debug)]
struct ReaderProxy {
    reader: MatchedReader,
    /// The first number that the reader may ask for.
    first: i64,
    /// The number below which the reader has everything.
    confirmed_below: i64,
    latest_answer: Option<u32>,
}

#[derive(Debug)]
struct KeptValue {
    sequence: i64,
    key: Option<Guid>,
    gone: bool,
    payload: Vec<u8>,
}

/// An address of readers; several readers may share one.
#[derive(Clone, Copy, Debug)]
struct WriterDestination {
    address: SocketAddrV4,
    reliable: bool,
}

/// The writing end of a topic.
#[derive(Debug)]
pub struct RtpsWriter {
    guid: Guid,
    depth: usize,
    /// The parameter of the key in the payload of the end of an instance; only writers of announcements have one.
    key_parameter: Option<u16>,
    kept: VecDeque<KeptValue>,
    last: i64,
    proxies: Vec<ReaderProxy>,
    destinations: Vec<WriterDestination>,
    datagram: DatagramBuilder,
    heartbeats: u32,
    heartbeat_due: Option<Instant>,
    heartbeat_distance: Duration,
}

impl RtpsWriter {
    /// A writer that keeps the newest `depth` values for its reliable readers.
    pub fn new(guid: Guid, depth: usize) -> Self {
        Self {
            guid,
            depth: depth.max(1),
            key_parameter: None,
            kept: VecDeque::new(),
            last: 0,
            proxies: Vec::new(),
            destinations: Vec::new(),
            datagram: DatagramBuilder::new(guid.prefix),
            heartbeats: 0,
            heartbeat_due: None,
            heartbeat_distance: FIRST_HEARTBEAT,
        }
    }

    /// A writer of announcements: it keeps the newest value of each instance, for readers that come later, too.
    pub(crate) fn of_announcements(guid: Guid, key_parameter: u16) -> Self {
        Self {
            key_parameter: Some(key_parameter),
            ..Self::new(guid, usize::MAX)
        }
    }

    /// Begins to send to a reader. A reliable one hears at once which number comes next.
    pub fn add_reader(&mut self, now: Instant, reader: MatchedReader, send: SendDatagram<'_>) {
        self.proxies
            .retain(|proxy| proxy.reader.guid != reader.guid);
        let first = match self.key_parameter {
            Some(_) => 1,
            None => self.last + 1,
        };
        self.proxies.push(ReaderProxy {
            reader,
            first,
            confirmed_below: first,
            latest_answer: None,
        });
        self.note_destinations();
        if reader.reliable {
            self.send_heartbeat(self.proxies.len() - 1, false, send);
            if self.last >= first {
                self.expect_confirmation(now);
            }
        }
    }

    /// Sends to a reader no more.
    pub fn remove_reader(&mut self, reader: Guid) {
        self.proxies.retain(|proxy| proxy.reader.guid != reader);
        self.note_destinations();
    }

    /// Sends to the readers of a participant no more.
    pub(crate) fn remove_participant(&mut self, prefix: GuidPrefix) {
        self.proxies
            .retain(|proxy| proxy.reader.guid.prefix != prefix);
        self.note_destinations();
        self.forget_ends();
    }

    /// The number of readers.
    pub fn readers(&self) -> usize {
        self.proxies.len()
    }

    /// Writes a message of two parts as a value of the type of all topics.
    pub fn write(&mut self, now: Instant, first: &[u8], second: &[u8], send: SendDatagram<'_>) {
        let place = self.begin_value(|bytes| octet_payload::write(bytes, first, second));
        if self.destinations.iter().any(|one| one.reliable) {
            self.keep(None, place);
        }
        self.distribute(now, send);
    }

    /// Announces an instance, in place of an older announcement of it.
    pub(crate) fn announce(
        &mut self,
        now: Instant,
        key: Guid,
        payload: &[u8],
        send: SendDatagram<'_>,
    ) {
        self.kept.retain(|value| value.key != Some(key));
        let place = self.begin_value(|bytes| bytes.extend_from_slice(payload));
        self.keep(Some(key), place);
        self.distribute(now, send);
    }

    /// Announces the end of an instance.
    pub(crate) fn announce_end(&mut self, now: Instant, key: Guid, send: SendDatagram<'_>) {
        let Some(parameter) = self.key_parameter else {
            return;
        };
        self.kept.retain(|value| value.key != Some(key));
        self.last += 1;
        self.datagram.restart();
        let (writer, sequence) = (self.guid.entity, self.last);
        self.datagram
            .disposal(EntityId::UNKNOWN, writer, sequence, key, parameter);
        self.kept.push_back(KeptValue {
            sequence,
            key: Some(key),
            gone: true,
            payload: Vec::new(),
        });
        self.distribute(now, send);
        self.forget_ends();
    }

    /// Takes the answer of a reader of this participant.
    pub fn take_answer(
        &mut self,
        now: Instant,
        source: GuidPrefix,
        answer: &AckNack,
        send: SendDatagram<'_>,
    ) {
        let guid = source.with(answer.reader);
        let place = self
            .proxies
            .iter()
            .position(|proxy| proxy.reader.guid == guid && proxy.reader.reliable);
        let Some(place) = place else {
            return;
        };
        let last = self.last;
        let proxy = &mut self.proxies[place];
        // A reader that begins anew counts its answers from the beginning.
        let restarts = answer.missing.is_empty() && answer.missing.base() <= 1 && !answer.is_final;
        let is_old = |latest| !is_newer(answer.count, latest);
        if restarts {
            proxy.confirmed_below = proxy.first;
        } else if proxy.latest_answer.is_some_and(is_old) {
            return;
        }
        proxy.latest_answer = Some(answer.count);
        let base = answer.missing.base().min(last + 1);
        proxy.confirmed_below = proxy.confirmed_below.max(base);
        let asks = !answer.missing.is_empty();
        if asks {
            self.heartbeat_distance = FIRST_HEARTBEAT;
            self.heartbeat_due = Some(now.saturating_add(FIRST_HEARTBEAT));
            self.send_again(place, &answer.missing, send);
        }
        if asks || !answer.is_final {
            self.send_heartbeat(place, true, send);
        }
        if self.is_confirmed() {
            self.heartbeat_due = None;
        }
        self.forget_ends();
    }

    /// Whether all reliable readers have everything.
    pub fn is_confirmed(&self) -> bool {
        !self.proxies.iter().any(|proxy| self.lacks(proxy))
    }

    /// The time of the next heartbeat; none where every reader has everything.
    pub fn heartbeat_due(&self) -> Option<Instant> {
        self.heartbeat_due
    }

    /// Sends the heartbeats that are due.
    pub fn elapse(&mut self, now: Instant, send: SendDatagram<'_>) {
        if self.heartbeat_due.is_none_or(|due| due > now) {
            return;
        }
        if self.is_confirmed() {
            self.heartbeat_due = None;
            return;
        }
        for place in 0..self.proxies.len() {
            if self.lacks(&self.proxies[place]) {
                self.send_heartbeat(place, false, send);
            }
        }
        let distance = self
            .heartbeat_distance
            .saturating_add(self.heartbeat_distance);
        self.heartbeat_distance = distance.min(LONGEST_HEARTBEAT);
        self.heartbeat_due = Some(now.saturating_add(self.heartbeat_distance));
    }

    fn lacks(&self, proxy: &ReaderProxy) -> bool {
        proxy.reader.reliable && proxy.confirmed_below <= self.last
    }

    /// The first number that the history has; the next one, if it has none.
    fn oldest(&self) -> i64 {
        self.kept
            .front()
            .map_or(self.last + 1, |value| value.sequence)
    }

    fn begin_value(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        self.last += 1;
        self.datagram.restart();
        let (writer, sequence) = (self.guid.entity, self.last);
        self.datagram
            .value(EntityId::UNKNOWN, writer, sequence, write)
    }

    /// Keeps the value that stands at a place in the datagram, in the memory of the oldest one if the history is full.
    fn keep(&mut self, key: Option<Guid>, place: Range<usize>) {
        let mut payload = match self.kept.len() >= self.depth {
            true => self.kept.pop_front().map(|value| value.payload),
            false => None,
        }
        .unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(&self.datagram.bytes()[place]);
        self.kept.push_back(KeptValue {
            sequence: self.last,
            key,
            gone: false,
            payload,
        });
    }

    /// Sends the datagram to every address, with a heartbeat to those of reliable readers.
    fn distribute(&mut self, now: Instant, send: SendDatagram<'_>) {
        let length = self.datagram.length();
        let mut expects = false;
        for place in 0..self.destinations.len() {
            let destination = self.destinations[place];
            if destination.reliable {
                expects = true;
                let heartbeat = self.heartbeat(EntityId::UNKNOWN, self.oldest(), true);
                self.datagram.heartbeat(&heartbeat);
            }
            send(destination.address, self.datagram.bytes());
            self.datagram.truncate(length);
        }
        if expects {
            self.expect_confirmation(now);
        }
    }

    fn expect_confirmation(&mut self, now: Instant) {
        if self.heartbeat_due.is_none() {
            self.heartbeat_distance = FIRST_HEARTBEAT;
            self.heartbeat_due = Some(now.saturating_add(FIRST_HEARTBEAT));
        }
    }

    fn heartbeat(&mut self, reader: EntityId, first: i64, is_final: bool) -> RtpsHeartbeat {
        self.heartbeats = self.heartbeats.wrapping_add(1);
        RtpsHeartbeat {
            reader,
            writer: self.guid.entity,
            first,
            last: self.last,
            count: self.heartbeats,
            is_final,
        }
    }

    /// Sends a heartbeat to one reader, with the first number that the reader may ask for.
    fn send_heartbeat(&mut self, place: usize, is_final: bool, send: SendDatagram<'_>) {
        let (reader, first) = (self.proxies[place].reader, self.proxies[place].first);
        let first = first.max(self.oldest());
        let heartbeat = self.heartbeat(reader.guid.entity, first, is_final);
        self.datagram.restart();
        self.datagram.destination(reader.guid.prefix);
        self.datagram.heartbeat(&heartbeat);
        send(reader.address, self.datagram.bytes());
    }

    /// Sends values again that a reader lacks, and the word not to wait for those that are gone.
    fn send_again(&mut self, place: usize, missing: &SequenceSet, send: SendDatagram<'_>) {
        let (reader, first) = (self.proxies[place].reader, self.proxies[place].first);
        let first = first.max(self.oldest());
        let begin = missing.base().max(1);
        if begin < first {
            self.send_gap(&reader, begin, SequenceSet::at(first), send);
        }
        let mut gone: Option<(i64, SequenceSet)> = None;
        let mut count = 0;
        for sequence in missing.numbers() {
            if sequence < first || sequence > self.last || count == MOST_RESENT {
                continue;
            }
            match self
                .kept
                .binary_search_by_key(&sequence, |value| value.sequence)
            {
                Ok(kept) => {
                    count += 1;
                    self.send_kept(kept, &reader, send);
                }
                Err(_) => match &mut gone {
                    Some((_, more)) => {
                        more.insert(sequence);
                    }
                    None => gone = Some((sequence, SequenceSet::at(sequence + 1))),
                },
            }
        }
        if let Some((first, more)) = gone {
            self.send_gap(&reader, first, more, send);
        }
    }

    fn send_gap(
        &mut self,
        reader: &MatchedReader,
        first: i64,
        more: SequenceSet,
        send: SendDatagram<'_>,
    ) {
        self.datagram.restart();
        self.datagram.destination(reader.guid.prefix);
        self.datagram.gap(&RtpsGap {
            reader: reader.guid.entity,
            writer: self.guid.entity,
            first,
            more,
        });
        send(reader.address, self.datagram.bytes());
    }

    fn send_kept(&mut self, kept: usize, reader: &MatchedReader, send: SendDatagram<'_>) {
        let value = &self.kept[kept];
        let (to, writer) = (reader.guid.entity, self.guid.entity);
        self.datagram.restart();
        self.datagram.destination(reader.guid.prefix);
        match (value.key, self.key_parameter) {
            (Some(key), Some(parameter)) if value.gone => {
                self.datagram
                    .disposal(to, writer, value.sequence, key, parameter);
            }
            _ => {
                let payload = &value.payload;
                self.datagram.value(to, writer, value.sequence, |bytes| {
                    bytes.extend_from_slice(payload);
                });
            }
        }
        send(reader.address, self.datagram.bytes());
    }

    fn note_destinations(&mut self) {
        self.destinations.clear();
        for MatchedReader {
            address, reliable, ..
        } in self.proxies.iter().map(|proxy| proxy.reader)
        {
            let same = self
                .destinations
                .iter_mut()
                .find(|one| one.address == address);
            match same {
                Some(same) => same.reliable |= reliable,
                None => self
                    .destinations
                    .push(WriterDestination { address, reliable }),
            }
        }
    }

    /// Forgets ends of instances that all readers have, so that the history has no more than the instances that are there.
    fn forget_ends(&mut self) {
        let lowest = self.proxies.iter().map(|proxy| proxy.confirmed_below).min();
        let lowest = lowest.unwrap_or(i64::MAX);
        self.kept
            .retain(|value| !value.gone || value.sequence >= lowest);
    }
}

/// Whether a count is newer than another one; counts begin anew behind their end.
pub(crate) fn is_newer(count: u32, than: u32) -> bool {
    count.wrapping_sub(than).cast_signed() > 0
}
