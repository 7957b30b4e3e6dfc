//! Datagrams of RTPS: at a participant, at the reader and at the writer of a topic, from a peer that they listen to.

use std::net::{Ipv4Addr, SocketAddrV4};

use tailbound_rtps::{
    DatagramBuilder, DiscoveryEffects, EndpointQualities, EndpointRecord, EntityId, Guid,
    GuidPrefix, MatchedReader, MatchedWriter, Participant, ParticipantRecord, ParticipantSettings,
    RtpsMessage, RtpsReader, RtpsWriter, Submessage, octet_payload,
};
use tailbound_time::{Duration, Instant};

const OWN: GuidPrefix = GuidPrefix([1; 12]);
const PEER: GuidPrefix = GuidPrefix([2; 12]);
/// The most datagrams with which a writer answers a reader: values, words not to wait, a heartbeat.
const MOST_IN_AN_ANSWER: usize = 64 + 3;

/// Announcements and messages return from their bytes; no datagram makes a participant, a reader or a writer fail, grow
/// beyond its bounds, send without end, or wait for an instant that passed.
pub fn check(bytes: &[u8]) {
    returns(bytes);
    let mut stage = RtpsStage::new();
    // The first byte of each part is its length.
    let mut rest = bytes;
    while let Some((&length, behind)) = rest.split_first() {
        let (part, behind) = behind.split_at(usize::from(length).min(behind.len()));
        let mut datagram = DatagramBuilder::new(PEER).bytes().to_vec();
        datagram.extend_from_slice(part);
        stage.step(&datagram);
        rest = behind;
    }
    stage.step(bytes);
}

fn returns(bytes: &[u8]) {
    if let Some(message) = octet_payload::read(bytes) {
        let mut written = Vec::new();
        octet_payload::write(&mut written, message, b"");
        assert_eq!(octet_payload::read(&written), Some(message));
    }
    if let Some(record) = ParticipantRecord::decode(bytes) {
        assert_eq!(ParticipantRecord::decode(&record.encode()), Some(record));
    }
    if let Some(record) = EndpointRecord::decode(bytes) {
        let again = EndpointRecord::decode(&record.encode());
        let again = again.expect("an announcement that was written is read");
        assert_eq!(
            (record.guid, record.topic, record.type_name, record.address),
            (again.guid, again.topic, again.type_name, again.address)
        );
    }
}

/// The ends that listen to the peer, and the time at them.
struct RtpsStage {
    participant: Participant,
    reader: RtpsReader,
    writer: RtpsWriter,
    now: Instant,
}

impl RtpsStage {
    fn new() -> Self {
        let now = Instant::from_nanos(1);
        let settings = ParticipantSettings {
            prefix: OWN,
            domain: 0,
            address: address(1),
        };
        let mut participant = Participant::new(&settings, now);
        let mut effects = DiscoveryEffects::default();
        let announcement = {
            let record = ParticipantRecord::own(PEER, 0, address(2), Duration::from_secs(10));
            let mut datagram = DatagramBuilder::new(PEER);
            let (to, from) = (EntityId::UNKNOWN, EntityId::PARTICIPANT_WRITER);
            datagram.value(to, from, 1, |bytes| {
                bytes.extend_from_slice(&record.encode());
            });
            datagram
        };
        participant.receive(now, announcement.bytes(), &mut effects);
        assert_eq!(participant.participants(), 1);
        for entity in [EntityId::user_writer(1), EntityId::user_reader(1)] {
            participant.add_endpoint(now, endpoint(OWN.with(entity)), &mut effects);
        }
        let mut reader = RtpsReader::new(OWN.with(EntityId::user_reader(1)));
        reader.add_writer(MatchedWriter {
            guid: PEER.with(EntityId::user_writer(1)),
            address: address(2),
            reliable: true,
        });
        let mut writer = RtpsWriter::new(OWN.with(EntityId::user_writer(1)), 100);
        let matched = MatchedReader {
            guid: PEER.with(EntityId::user_reader(1)),
            address: address(2),
            reliable: true,
        };
        writer.add_reader(now, matched, &mut |_, _| {});
        for number in 0..150_u8 {
            writer.write(now, &[number], b"", &mut |_, _| {});
        }
        Self {
            participant,
            reader,
            writer,
            now,
        }
    }

    fn step(&mut self, datagram: &[u8]) {
        let mut effects = DiscoveryEffects::default();
        self.participant.receive(self.now, datagram, &mut effects);
        self.participant.elapse(self.now, &mut effects);
        assert!(self.participant.next_due() > self.now);
        assert!(self.participant.participants() <= 256 && self.participant.endpoints() <= 4_096);
        let submessages = datagram.len() / 4 + 1;
        let (mut delivered, mut sent) = (0, 0);
        self.reader
            .receive(self.now, datagram, &mut |_| delivered += 1, &mut |_, _| {
                sent += 1
            });
        assert!(sent <= submessages && delivered <= submessages + 256);
        self.answer(datagram);
        self.writer.elapse(self.now, &mut |_, _| {});
        assert!(self.writer.heartbeat_due().is_none_or(|due| due > self.now));
        self.now = self.now.saturating_add(Duration::from_millis(7));
    }

    fn answer(&mut self, datagram: &[u8]) {
        let Ok(message) = RtpsMessage::parse(datagram) else {
            return;
        };
        for submessage in message.submessages() {
            if let Ok(Submessage::AckNack(answer)) = submessage {
                let mut sent = 0;
                let mut send = |_, _: &[u8]| sent += 1;
                self.writer.take_answer(self.now, PEER, &answer, &mut send);
                assert!(sent <= MOST_IN_AN_ANSWER, "{sent} datagrams");
            }
        }
    }
}

fn address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

fn endpoint(guid: Guid) -> EndpointRecord {
    EndpointRecord {
        guid,
        topic: "people".to_owned(),
        type_name: octet_payload::TYPE_NAME.to_owned(),
        qualities: EndpointQualities::default(),
        history: 1,
        address: None,
    }
}
