//! Datagrams that are written, in little-endian byte order, into memory that is used again.

use std::ops::Range;

use crate::message::{MAGIC, VENDOR, VERSION, flag, kind};
use crate::parameter_list::{ParameterWriter, parameter};
use crate::sequence_set::write_sequence;
use crate::{AckNack, EntityId, Guid, GuidPrefix, RtpsGap, RtpsHeartbeat};

/// The bytes from the offset of the parameters of `DATA` to the parameters.
const DATA_FIELDS: u16 = 16;
/// The flags of a status: the instance is disposed of and unregistered.
const GONE_STATUS: [u8; 4] = [0, 0, 0, 3];

/// Writes a datagram.
#[derive(Clone, Debug)]
pub struct DatagramBuilder {
    source: GuidPrefix,
    bytes: Vec<u8>,
}

impl DatagramBuilder {
    /// A datagram of this participant, without submessages yet.
    pub fn new(source: GuidPrefix) -> Self {
        let mut builder = Self {
            source,
            bytes: Vec::new(),
        };
        builder.restart();
        builder
    }

    /// Begins another datagram in the same memory.
    pub fn restart(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&MAGIC);
        self.bytes.extend_from_slice(&VERSION);
        self.bytes.extend_from_slice(&VENDOR);
        self.bytes.extend_from_slice(&self.source.0);
    }

    /// The datagram.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The length of the datagram, in bytes.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Takes away the submessages behind a length that the datagram had.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Names the participant that the following submessages are for.
    pub fn destination(&mut self, prefix: GuidPrefix) {
        let begin = self.begin(kind::INFO_DESTINATION, 0);
        self.bytes.extend_from_slice(&prefix.0);
        self.end(begin);
    }

    /// Appends a value, which `write` appends with its encapsulation. The place of the value in the datagram.
    pub fn value(
        &mut self,
        reader: EntityId,
        writer: EntityId,
        sequence: i64,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        let begin = self.begin(kind::DATA, flag::VALUE);
        self.data_fields(reader, writer, sequence);
        let first = self.bytes.len();
        write(&mut self.bytes);
        let place = first..self.bytes.len();
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.end(begin);
        place
    }

    /// Appends the end of an instance. The payload repeats the key, as the parameter `key_parameter` of a list.
    pub(crate) fn disposal(
        &mut self,
        reader: EntityId,
        writer: EntityId,
        sequence: i64,
        key: Guid,
        key_parameter: u16,
    ) {
        let begin = self.begin(kind::DATA, flag::PARAMETERS | flag::KEY);
        self.data_fields(reader, writer, sequence);
        let mut list = ParameterWriter::default();
        list.put(parameter::KEY_HASH, &key.to_bytes());
        list.put(parameter::STATUS, &GONE_STATUS);
        self.bytes.extend_from_slice(&list.finish());
        let mut list = ParameterWriter::announcement();
        list.put(key_parameter, &key.to_bytes());
        self.bytes.extend_from_slice(&list.finish());
        self.end(begin);
    }

    /// Appends a heartbeat.
    pub fn heartbeat(&mut self, heartbeat: &RtpsHeartbeat) {
        let begin = self.begin(kind::HEARTBEAT, final_flag(heartbeat.is_final));
        self.entities(heartbeat.reader, heartbeat.writer);
        write_sequence(&mut self.bytes, heartbeat.first);
        write_sequence(&mut self.bytes, heartbeat.last);
        self.bytes.extend_from_slice(&heartbeat.count.to_le_bytes());
        self.end(begin);
    }

    /// Appends the numbers that a reader has and lacks.
    pub fn ack_nack(&mut self, answer: &AckNack) {
        let begin = self.begin(kind::ACK_NACK, final_flag(answer.is_final));
        self.entities(answer.reader, answer.writer);
        answer.missing.write(&mut self.bytes);
        self.bytes.extend_from_slice(&answer.count.to_le_bytes());
        self.end(begin);
    }

    /// Appends numbers that a reader shall not wait for.
    pub fn gap(&mut self, gap: &RtpsGap) {
        let begin = self.begin(kind::GAP_KIND, 0);
        self.entities(gap.reader, gap.writer);
        write_sequence(&mut self.bytes, gap.first);
        gap.more.write(&mut self.bytes);
        self.end(begin);
    }

    fn entities(&mut self, reader: EntityId, writer: EntityId) {
        self.bytes.extend_from_slice(&reader.0);
        self.bytes.extend_from_slice(&writer.0);
    }

    fn data_fields(&mut self, reader: EntityId, writer: EntityId, sequence: i64) {
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&DATA_FIELDS.to_le_bytes());
        self.entities(reader, writer);
        write_sequence(&mut self.bytes, sequence);
    }

    /// Begins a submessage; the place of its body.
    fn begin(&mut self, kind: u8, flags: u8) -> usize {
        let flags = flags | flag::LITTLE_ENDIAN;
        self.bytes.extend_from_slice(&[kind, flags, 0, 0]);
        self.bytes.len()
    }

    /// Ends a submessage: writes the length of its body before it. A body that is too long for its length is the last one,
    /// and has the length 0, which stands for the rest of the datagram.
    fn end(&mut self, begin: usize) {
        let length = u16::try_from(self.bytes.len() - begin).unwrap_or(0);
        self.bytes[begin - 2..begin].copy_from_slice(&length.to_le_bytes());
    }
}

fn final_flag(is_final: bool) -> u8 {
    match is_final {
        true => flag::FINAL,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::{Addressed, MessageFault, RtpsMessage, SequenceSet, Submessage, SubmessageFault};

    const OWN: GuidPrefix = GuidPrefix([1; 12]);
    const OTHER: GuidPrefix = GuidPrefix([2; 12]);

    fn submessages(datagram: &[u8]) -> Vec<Result<Submessage<'_>, SubmessageFault>> {
        let message = RtpsMessage::parse(datagram).unwrap();
        message.submessages().collect()
    }

    fn heartbeat() -> RtpsHeartbeat {
        RtpsHeartbeat {
            reader: EntityId::UNKNOWN,
            writer: EntityId::user_writer(7),
            first: 3,
            last: 1 << 33,
            count: 9,
            is_final: true,
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let mut missing = SequenceSet::at(5);
        missing.insert(5);
        missing.insert(44);
        let answer = AckNack {
            reader: EntityId::user_reader(1),
            writer: EntityId::user_writer(7),
            missing,
            count: 4,
            is_final: false,
        };
        let gap = RtpsGap {
            reader: EntityId::user_reader(1),
            writer: EntityId::user_writer(7),
            first: 2,
            more: missing,
        };
        let mut builder = DatagramBuilder::new(OWN);
        builder.destination(OTHER);
        builder.heartbeat(&heartbeat());
        builder.ack_nack(&answer);
        builder.gap(&gap);
        let key = OWN.with(EntityId::user_writer(7));
        let (reader, writer) = (EntityId::PUBLICATIONS_READER, EntityId::PUBLICATIONS_WRITER);
        builder.disposal(reader, writer, 6, key, parameter::ENDPOINT_GUID);
        let place = builder.value(reader, writer, 7, |bytes| bytes.extend_from_slice(b"value"));
        assert_eq!(&builder.bytes()[place], b"value");
        let submessages = submessages(builder.bytes());
        assert_eq!(submessages[0], Ok(Submessage::Destination(OTHER)));
        assert_eq!(submessages[1], Ok(Submessage::Heartbeat(heartbeat())));
        assert_eq!(submessages[2], Ok(Submessage::AckNack(answer)));
        assert_eq!(submessages[3], Ok(Submessage::Gap(gap)));
        let Ok(Submessage::Data(disposal)) = submessages[4] else {
            panic!("{:?}", submessages[4]);
        };
        assert!(disposal.gone && disposal.key == Some(key) && disposal.sequence == 6);
        let Ok(Submessage::Data(value)) = submessages[5] else {
            panic!("{:?}", submessages[5]);
        };
        assert_eq!(value.payload, Some(&b"value\0\0\0"[..]));
        assert!(!value.gone && value.key.is_none());
    }

    #[test]
    fn submessages_for_another_participant_are_passed_over() {
        let mut builder = DatagramBuilder::new(OTHER);
        builder.destination(GuidPrefix([3; 12]));
        builder.heartbeat(&heartbeat());
        builder.destination(OWN);
        builder.heartbeat(&heartbeat());
        let message = RtpsMessage::parse(builder.bytes()).unwrap();
        let addressed: Vec<_> = Addressed::to(OWN, &message).collect();
        assert_eq!(addressed, [Ok((OTHER, Submessage::Heartbeat(heartbeat())))]);
    }

    #[test]
    fn other_protocols_and_versions_are_refused() {
        assert_eq!(
            RtpsMessage::parse(b"RTPX").unwrap_err(),
            MessageFault::Foreign
        );
        assert_eq!(
            RtpsMessage::parse(b"RTPS").unwrap_err(),
            MessageFault::Foreign
        );
        let mut bytes = DatagramBuilder::new(OWN).bytes().to_vec();
        bytes[4] = 1;
        let fault = RtpsMessage::parse(&bytes).unwrap_err();
        assert_eq!(fault, MessageFault::Version { major: 1 });
    }

    #[test]
    fn submessages_of_vendors_and_truncated_ones_do_no_harm() {
        let mut builder = DatagramBuilder::new(OWN);
        builder.heartbeat(&heartbeat());
        let mut bytes = builder.bytes().to_vec();
        bytes.splice(20..20, [0x81, 1, 4, 0, 1, 2, 3, 4]);
        let read = submessages(&bytes);
        assert_eq!(read[0], Ok(Submessage::Other { kind: 0x81 }));
        assert_eq!(read[1], Ok(Submessage::Heartbeat(heartbeat())));
        bytes.pop();
        assert_eq!(submessages(&bytes)[1], Err(SubmessageFault::Truncated));
        // A heartbeat with a last number far below the first one.
        let mut bytes = builder.bytes().to_vec();
        bytes[20 + 4 + 8 + 4] = 9;
        bytes[20 + 4 + 16] = 0;
        bytes[20 + 4 + 16 + 4] = 1;
        let malformed = SubmessageFault::Malformed {
            kind: kind::HEARTBEAT,
        };
        assert_eq!(submessages(&bytes), [Err(malformed)]);
    }

    #[test]
    fn submessages_of_big_endian_hosts_are_read() {
        let mut bytes = DatagramBuilder::new(OWN).bytes().to_vec();
        bytes.extend_from_slice(&[kind::HEARTBEAT, 0, 0, 28, 0, 0, 0, 0, 0, 0, 7, 3]);
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]);
        let mut expected = heartbeat();
        expected.is_final = false;
        assert_eq!(submessages(&bytes), [Ok(Submessage::Heartbeat(expected))]);
    }

    proptest! {
        #[test]
        fn arbitrary_submessages_end_and_stay_within_the_datagram(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut datagram = DatagramBuilder::new(OWN).bytes().to_vec();
            datagram.extend_from_slice(&bytes);
            prop_assert!(submessages(&datagram).len() <= bytes.len() / 4 + 1);
        }

        #[test]
        fn a_changed_byte_changes_no_more_than_submessages(
            place in 20..100_usize,
            value in any::<u8>(),
        ) {
            let mut builder = DatagramBuilder::new(OWN);
            builder.heartbeat(&heartbeat());
            builder.value(EntityId::UNKNOWN, EntityId::user_writer(7), 3, |bytes| {
                bytes.extend_from_slice(&[7; 40]);
            });
            let mut bytes = builder.bytes().to_vec();
            prop_assert!(bytes.len() >= 100);
            bytes[place] = value;
            prop_assert!(submessages(&bytes).len() <= 20);
        }
    }
}
