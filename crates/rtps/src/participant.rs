//! Discovery: participants announce themselves by multicast, and their endpoints to each other by unicast
//! (DDSI-RTPS 2.3, section 8.5).
//!
//! The participant owns its announcements and the memory of those of others. The ends of topics are elsewhere: the
//! participant says which of them match, and passes answers of readers on.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use tailbound_time::{Duration, Instant};

use crate::parameter_list::parameter;
use crate::{
    AckNack, Addressed, DataSubmessage, DatagramBuilder, DatagramCounts, Delivery,
    EndpointQualities, EndpointRecord, EntityId, Guid, GuidPrefix, MatchedReader, MatchedWriter,
    ParticipantRecord, RtpsMessage, RtpsReader, RtpsWriter, Submessage, discovery_group,
};

/// The time after which a participant that says nothing is gone.
const LEASE: Duration = Duration::from_secs(10);
/// The distance of announcements of a participant, and the shorter one of its first few.
const ANNOUNCEMENT_DISTANCE: Duration = Duration::from_secs(3);
const EARLY_DISTANCE: Duration = Duration::from_millis(100);
const EARLY_ANNOUNCEMENTS: i64 = 10;

/// The most participants and endpoints of others that are remembered, and the longest names.
const MOST_PARTICIPANTS: usize = 256;
const MOST_ENDPOINTS: usize = 4_096;
const LONGEST_NAME: usize = 1_024;

/// The identity and the place of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantSettings {
    /// The identity, which no other participant has.
    pub prefix: GuidPrefix,
    /// The domain.
    pub domain: u16,
    /// The address at which the participant receives discovery and answers of readers.
    pub address: SocketAddrV4,
}

/// A pair of endpoints that speak to each other from now on, or no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchChange {
    /// A writer of this participant has another reader.
    ReaderMatched {
        /// The writer.
        writer: EntityId,
        /// The reader.
        reader: MatchedReader,
    },
    /// A writer of this participant has lost a reader.
    ReaderGone {
        /// The writer.
        writer: EntityId,
        /// The reader.
        reader: Guid,
    },
    /// A reader of this participant has another writer.
    WriterMatched {
        /// The reader.
        reader: EntityId,
        /// The writer.
        writer: MatchedWriter,
    },
    /// A reader of this participant has lost a writer.
    WriterGone {
        /// The reader.
        reader: EntityId,
        /// The writer.
        writer: Guid,
    },
}

/// The work that discovery leaves to its caller.
#[derive(Debug, Default)]
pub struct DiscoveryEffects {
    /// Datagrams to send, in order.
    pub datagrams: Vec<(SocketAddrV4, Vec<u8>)>,
    /// Changes to the ends of topics, in order.
    pub matches: Vec<MatchChange>,
    /// Answers of readers, for the writers of topics.
    pub answers: Vec<(GuidPrefix, AckNack)>,
}

impl DiscoveryEffects {
    fn send(&mut self) -> impl FnMut(SocketAddrV4, &[u8]) {
        move |to: SocketAddrV4, datagram: &[u8]| self.datagrams.push((to, datagram.to_vec()))
    }
}

#[derive(Debug)]
struct RemoteParticipant {
    record: ParticipantRecord,
    lease_end: Instant,
}

/// An announcement of a writer or a reader, or of its end.
#[derive(Debug)]
struct EndpointNews {
    source: GuidPrefix,
    gone: bool,
    key: Option<Guid>,
    payload: Vec<u8>,
}

/// A participant in a domain.
#[derive(Debug)]
pub struct Participant {
    record: ParticipantRecord,
    domain: u16,
    remotes: BTreeMap<GuidPrefix, RemoteParticipant>,
    own: Vec<EndpointRecord>,
    endpoints: BTreeMap<Guid, EndpointRecord>,
    publications: RtpsWriter,
    subscriptions: RtpsWriter,
    publications_reader: RtpsReader,
    subscriptions_reader: RtpsReader,
    announcements: i64,
    announcement_due: Instant,
    counts: DatagramCounts,
}

impl Participant {
    /// A participant without endpoints, which announces itself as soon as time passes.
    pub fn new(settings: &ParticipantSettings, now: Instant) -> Self {
        let ParticipantSettings {
            prefix,
            domain,
            address,
        } = *settings;
        let writer =
            |entity| RtpsWriter::of_announcements(prefix.with(entity), parameter::ENDPOINT_GUID);
        Self {
            record: ParticipantRecord::own(prefix, domain, address, LEASE),
            domain,
            remotes: BTreeMap::new(),
            own: Vec::new(),
            endpoints: BTreeMap::new(),
            publications: writer(EntityId::PUBLICATIONS_WRITER),
            subscriptions: writer(EntityId::SUBSCRIPTIONS_WRITER),
            publications_reader: RtpsReader::new(prefix.with(EntityId::PUBLICATIONS_READER)),
            subscriptions_reader: RtpsReader::new(prefix.with(EntityId::SUBSCRIPTIONS_READER)),
            announcements: 0,
            announcement_due: now,
            counts: DatagramCounts::default(),
        }
    }

    /// The identity.
    pub fn prefix(&self) -> GuidPrefix {
        self.record.prefix
    }

    /// The datagrams, submessages and announcements that were dropped.
    pub fn counts(&self) -> DatagramCounts {
        let mut counts = self.counts;
        for reader in [&self.publications_reader, &self.subscriptions_reader] {
            let of_reader = reader.counts();
            counts.malformed += of_reader.malformed;
            counts.other_kinds += of_reader.other_kinds;
            counts.of_strangers += of_reader.of_strangers;
        }
        counts
    }

    /// The number of other participants.
    pub fn participants(&self) -> usize {
        self.remotes.len()
    }

    /// The number of endpoints of other participants.
    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    /// The next time at which [`elapse`](Self::elapse) has work.
    pub fn next_due(&self) -> Instant {
        let leases = self.remotes.values().map(|remote| remote.lease_end);
        let heartbeats = [&self.publications, &self.subscriptions]
            .into_iter()
            .filter_map(RtpsWriter::heartbeat_due);
        let due = leases.chain(heartbeats).min();
        due.map_or(self.announcement_due, |due| due.min(self.announcement_due))
    }

    /// Announces the participant, sends heartbeats, and lets participants go, as is due.
    pub fn elapse(&mut self, now: Instant, effects: &mut DiscoveryEffects) {
        if self.announcement_due <= now {
            self.announce(discovery_group(self.domain), effects);
            let distance = match self.announcements < EARLY_ANNOUNCEMENTS {
                true => EARLY_DISTANCE,
                false => ANNOUNCEMENT_DISTANCE,
            };
            self.announcement_due = now.saturating_add(distance);
        }
        self.publications.elapse(now, &mut effects.send());
        self.subscriptions.elapse(now, &mut effects.send());
        let ended = self.remotes.iter();
        let ended = ended.filter(|(_, remote)| remote.lease_end <= now);
        let ended: Vec<GuidPrefix> = ended.map(|(prefix, _)| *prefix).collect();
        for prefix in ended {
            self.remove_participant(prefix, effects);
        }
    }

    /// Announces an endpoint of this participant, and matches it with those that are there.
    pub fn add_endpoint(
        &mut self,
        now: Instant,
        endpoint: EndpointRecord,
        effects: &mut DiscoveryEffects,
    ) {
        let payload = endpoint.encode();
        let announcer = self.announcer(&endpoint);
        announcer.announce(now, endpoint.guid, &payload, &mut effects.send());
        let others: Vec<EndpointRecord> = self.endpoints.values().cloned().collect();
        for other in others.iter().chain(&self.own.clone()) {
            self.match_pair(&endpoint, other, effects);
        }
        // Both ends of a topic may be here.
        for own in self.own.clone() {
            self.match_pair(&own, &endpoint, effects);
        }
        self.own.push(endpoint);
    }

    /// Announces the end of an endpoint of this participant.
    pub fn remove_endpoint(
        &mut self,
        now: Instant,
        entity: EntityId,
        effects: &mut DiscoveryEffects,
    ) {
        let place = self.own.iter().position(|own| own.guid.entity == entity);
        let Some(place) = place else {
            return;
        };
        let endpoint = self.own.swap_remove(place);
        self.announcer(&endpoint)
            .announce_end(now, endpoint.guid, &mut effects.send());
        self.part(&endpoint, effects);
    }

    /// Announces the end of the participant.
    pub fn end(&mut self, effects: &mut DiscoveryEffects) {
        let guid = self.record.prefix.with(EntityId::PARTICIPANT);
        let mut datagram = DatagramBuilder::new(self.record.prefix);
        self.announcements += 1;
        datagram.disposal(
            EntityId::UNKNOWN,
            EntityId::PARTICIPANT_WRITER,
            self.announcements,
            guid,
            parameter::PARTICIPANT_GUID,
        );
        let addresses = self.remotes.values().map(|remote| remote.record.discovery);
        for to in addresses.chain([discovery_group(self.domain)]) {
            effects.datagrams.push((to, datagram.bytes().to_vec()));
        }
    }

    /// Takes a datagram that came to the address of discovery or to the group of the domain.
    pub fn receive(&mut self, now: Instant, datagram: &[u8], effects: &mut DiscoveryEffects) {
        let message = match RtpsMessage::parse(datagram) {
            Ok(message) => message,
            Err(fault) => return self.counts.note(fault),
        };
        // What this participant sends to the group comes back.
        if message.source == self.record.prefix {
            let addressed = Addressed::to(self.record.prefix, &message).flatten();
            effects.answers.extend(addressed.filter_map(own_answer));
            return;
        }
        if let Some(remote) = self.remotes.get_mut(&message.source) {
            remote.lease_end = now.saturating_add(remote.record.lease);
        }
        for submessage in Addressed::to(self.record.prefix, &message) {
            match submessage {
                Ok((source, submessage)) => self.take(now, source, &submessage, effects),
                Err(_) => self.counts.malformed += 1,
            }
        }
    }

    fn take(
        &mut self,
        now: Instant,
        source: GuidPrefix,
        submessage: &Submessage<'_>,
        effects: &mut DiscoveryEffects,
    ) {
        let writer = match submessage {
            Submessage::Data(data) if data.writer == EntityId::PARTICIPANT_WRITER => {
                return self.take_participant(now, source, data, effects);
            }
            Submessage::AckNack(answer) => {
                return self.take_answer(now, source, answer, effects);
            }
            Submessage::Data(data) => data.writer,
            Submessage::Heartbeat(heartbeat) => heartbeat.writer,
            Submessage::Gap(gap) => gap.writer,
            _ => {
                self.counts.other_kinds += 1;
                return;
            }
        };
        let reader = match writer {
            EntityId::PUBLICATIONS_WRITER => &mut self.publications_reader,
            EntityId::SUBSCRIPTIONS_WRITER => &mut self.subscriptions_reader,
            // Built-in writers of other vendors, such as those of liveliness and of types.
            _ => {
                self.counts.other_kinds += 1;
                return;
            }
        };
        let mut news = Vec::new();
        let mut deliver = |delivery: Delivery<'_>| {
            news.push(EndpointNews {
                source: delivery.writer.prefix,
                gone: delivery.gone,
                key: delivery.key,
                payload: delivery.payload.to_vec(),
            });
        };
        reader.take(now, source, submessage, &mut deliver, &mut effects.send());
        for one in news {
            self.take_endpoint(&one, writer, effects);
        }
    }

    fn take_answer(
        &mut self,
        now: Instant,
        source: GuidPrefix,
        answer: &AckNack,
        effects: &mut DiscoveryEffects,
    ) {
        let announcer = match answer.writer {
            EntityId::PUBLICATIONS_WRITER => &mut self.publications,
            EntityId::SUBSCRIPTIONS_WRITER => &mut self.subscriptions,
            _ => return effects.answers.push((source, *answer)),
        };
        announcer.take_answer(now, source, answer, &mut effects.send());
    }

    /// Takes the announcement of a participant, or of its end.
    fn take_participant(
        &mut self,
        now: Instant,
        source: GuidPrefix,
        data: &DataSubmessage<'_>,
        effects: &mut DiscoveryEffects,
    ) {
        let payload = data.payload.unwrap_or(&[]);
        if data.gone {
            let key = data.key.map(|key| key.prefix);
            match key.or_else(|| ParticipantRecord::decode_prefix(payload)) {
                Some(prefix) if prefix == source => self.remove_participant(prefix, effects),
                _ => self.counts.malformed += 1,
            }
            return;
        }
        let record = ParticipantRecord::decode(payload);
        let Some(record) = record.filter(|record| record.prefix == source) else {
            self.counts.malformed += 1;
            return;
        };
        let is_elsewhere = |domain| domain != u32::from(self.domain);
        if record.domain.is_some_and(is_elsewhere) || !record.discovers_endpoints() {
            return;
        }
        let lease_end = now.saturating_add(record.lease);
        if let Some(remote) = self.remotes.get_mut(&source) {
            remote.lease_end = lease_end;
            return;
        }
        if self.remotes.len() == MOST_PARTICIPANTS {
            self.counts.beyond_memory += 1;
            return;
        }
        self.introduce(now, &record, effects);
        self.remotes
            .insert(source, RemoteParticipant { record, lease_end });
    }

    /// Makes this participant and another one exchange their endpoints.
    fn introduce(
        &mut self,
        now: Instant,
        record: &ParticipantRecord,
        effects: &mut DiscoveryEffects,
    ) {
        // The other one may not have heard of this participant, and drops what comes from strangers.
        self.announce(record.discovery, effects);
        let reader = |entity| MatchedReader {
            guid: record.prefix.with(entity),
            address: record.discovery,
            reliable: true,
        };
        let writer = |entity| MatchedWriter {
            guid: record.prefix.with(entity),
            address: record.discovery,
            reliable: true,
        };
        let mut send = effects.send();
        let detectors = [
            (&mut self.publications, EntityId::PUBLICATIONS_READER),
            (&mut self.subscriptions, EntityId::SUBSCRIPTIONS_READER),
        ];
        for (announcer, entity) in detectors {
            announcer.add_reader(now, reader(entity), &mut send);
        }
        let announcers = [
            (&mut self.publications_reader, EntityId::PUBLICATIONS_WRITER),
            (
                &mut self.subscriptions_reader,
                EntityId::SUBSCRIPTIONS_WRITER,
            ),
        ];
        for (detector, entity) in announcers {
            let writer = writer(entity);
            detector.add_writer(writer);
            detector.greet(writer.guid, &mut send);
        }
    }

    /// Takes the announcement of an endpoint, or of its end, from a built-in writer.
    fn take_endpoint(
        &mut self,
        news: &EndpointNews,
        writer: EntityId,
        effects: &mut DiscoveryEffects,
    ) {
        if news.gone {
            let guid = news
                .key
                .or_else(|| EndpointRecord::decode_guid(&news.payload));
            match guid.filter(|guid| guid.prefix == news.source) {
                Some(guid) => self.forget_endpoint(guid, effects),
                None => self.counts.malformed += 1,
            }
            return;
        }
        let record = EndpointRecord::decode(&news.payload);
        let record = record.filter(|record| record.guid.prefix == news.source);
        let Some(record) = record else {
            self.counts.malformed += 1;
            return;
        };
        let is_expected = match writer {
            EntityId::PUBLICATIONS_WRITER => record.guid.entity.is_keyless_writer(),
            _ => record.guid.entity.is_keyless_reader(),
        };
        // Endpoints with keys and built-in ones match none of ours.
        if !is_expected || self.endpoints.get(&record.guid) == Some(&record) {
            return;
        }
        self.forget_endpoint(record.guid, effects);
        let is_long = record.topic.len() > LONGEST_NAME || record.type_name.len() > LONGEST_NAME;
        if self.endpoints.len() == MOST_ENDPOINTS || is_long {
            self.counts.beyond_memory += 1;
            return;
        }
        for own in self.own.clone() {
            self.match_pair(&own, &record, effects);
        }
        self.endpoints.insert(record.guid, record);
    }

    fn forget_endpoint(&mut self, guid: Guid, effects: &mut DiscoveryEffects) {
        if let Some(endpoint) = self.endpoints.remove(&guid) {
            self.part(&endpoint, effects);
        }
    }

    fn remove_participant(&mut self, prefix: GuidPrefix, effects: &mut DiscoveryEffects) {
        if self.remotes.remove(&prefix).is_none() {
            return;
        }
        self.publications.remove_participant(prefix);
        self.subscriptions.remove_participant(prefix);
        self.publications_reader.remove_participant(prefix);
        self.subscriptions_reader.remove_participant(prefix);
        let first = prefix.with(EntityId::default());
        let last = prefix.with(EntityId([u8::MAX; 4]));
        let theirs: Vec<Guid> = self
            .endpoints
            .range(first..=last)
            .map(|(guid, _)| *guid)
            .collect();
        for guid in theirs {
            self.forget_endpoint(guid, effects);
        }
    }

    /// Lets `own` speak to `other`, if they are the two ends of a topic and their qualities match.
    fn match_pair(
        &mut self,
        own: &EndpointRecord,
        other: &EndpointRecord,
        effects: &mut DiscoveryEffects,
    ) {
        let is_pair = own.is_writer() != other.is_writer()
            && own.topic == other.topic
            && own.type_name == other.type_name;
        if !is_pair {
            return;
        }
        let (writer, reader) = match own.is_writer() {
            true => (own, other),
            false => (other, own),
        };
        if EndpointQualities::match_offer(&writer.qualities, &reader.qualities).is_err() {
            self.counts.mismatches += 1;
            return;
        }
        let Some(address) = self.address(other) else {
            return;
        };
        let reliable = reader.qualities.reliable;
        let entity = own.guid.entity;
        let guid = other.guid;
        effects.matches.push(match own.is_writer() {
            true => MatchChange::ReaderMatched {
                writer: entity,
                reader: MatchedReader {
                    guid,
                    address,
                    reliable,
                },
            },
            false => MatchChange::WriterMatched {
                reader: entity,
                writer: MatchedWriter {
                    guid,
                    address,
                    reliable,
                },
            },
        });
    }

    /// Tells the endpoints here of the topic of an endpoint that the endpoint is gone.
    fn part(&self, endpoint: &EndpointRecord, effects: &mut DiscoveryEffects) {
        let ends = self
            .own
            .iter()
            .filter(|own| own.is_writer() != endpoint.is_writer() && own.topic == endpoint.topic);
        let changes = ends.map(|own| match own.is_writer() {
            true => MatchChange::ReaderGone {
                writer: own.guid.entity,
                reader: endpoint.guid,
            },
            false => MatchChange::WriterGone {
                reader: own.guid.entity,
                writer: endpoint.guid,
            },
        });
        effects.matches.extend(changes);
    }

    /// The address at which an endpoint receives.
    fn address(&self, endpoint: &EndpointRecord) -> Option<SocketAddrV4> {
        let prefix = endpoint.guid.prefix;
        let of_participant = || match prefix == self.record.prefix {
            true => Some(self.record.endpoints),
            false => Some(self.remotes.get(&prefix)?.record.endpoints),
        };
        endpoint.address.or_else(of_participant)
    }

    fn announcer(&mut self, endpoint: &EndpointRecord) -> &mut RtpsWriter {
        match endpoint.is_writer() {
            true => &mut self.publications,
            false => &mut self.subscriptions,
        }
    }

    fn announce(&mut self, to: SocketAddrV4, effects: &mut DiscoveryEffects) {
        self.announcements += 1;
        let mut datagram = DatagramBuilder::new(self.record.prefix);
        let payload = self.record.encode();
        datagram.value(
            EntityId::UNKNOWN,
            EntityId::PARTICIPANT_WRITER,
            self.announcements,
            |bytes| bytes.extend_from_slice(&payload),
        );
        effects.datagrams.push((to, datagram.bytes().to_vec()));
    }
}

/// The answer of a reader of this participant to a writer of this participant.
fn own_answer((source, submessage): (GuidPrefix, Submessage<'_>)) -> Option<(GuidPrefix, AckNack)> {
    match submessage {
        Submessage::AckNack(answer) => Some((source, answer)),
        _ => None,
    }
}
