//! Datagrams of RTPS: a header, and submessages one after another (DDSI-RTPS 2.3, section 9.4).

use crate::byte_reader::ByteReader;
use crate::parameter_list::{ParameterList, parameter};
use crate::{EntityId, Guid, GuidPrefix, SequenceSet};

/// The first bytes of every datagram.
pub(crate) const MAGIC: [u8; 4] = *b"RTPS";
/// The version of the protocol. Datagrams of another first number are of another protocol.
pub(crate) const VERSION: [u8; 2] = [2, 3];
/// The vendor: unknown, since Tailbound has no number of the OMG.
pub(crate) const VENDOR: [u8; 2] = [0, 0];

/// The kinds of submessages.
pub(crate) mod kind {
    pub(crate) const PAD: u8 = 0x01;
    pub(crate) const ACK_NACK: u8 = 0x06;
    pub(crate) const HEARTBEAT: u8 = 0x07;
    pub(crate) const GAP_KIND: u8 = 0x08;
    pub(crate) const TIMESTAMP_KIND: u8 = 0x09;
    pub(crate) const INFO_SOURCE: u8 = 0x0c;
    pub(crate) const INFO_DESTINATION: u8 = 0x0e;
    pub(crate) const DATA: u8 = 0x15;
}

/// The flags of submessages.
pub(crate) mod flag {
    pub(crate) const LITTLE_ENDIAN: u8 = 0x01;
    /// Of `HEARTBEAT` and `ACKNACK`: no answer is asked for.
    pub(crate) const FINAL: u8 = 0x02;
    /// Of `DATA`: parameters stand before the payload.
    pub(crate) const PARAMETERS: u8 = 0x02;
    /// Of `DATA`: the payload is a value.
    pub(crate) const VALUE: u8 = 0x04;
    /// Of `DATA`: the payload is a key.
    pub(crate) const KEY: u8 = 0x08;
}

/// The bits of a status that say that an instance is gone.
const GONE: u8 = 0x03;

/// The submessages of a datagram, and the participant that sent them.
#[derive(Clone, Copy, Debug)]
pub struct RtpsMessage<'a> {
    /// The participant.
    pub source: GuidPrefix,
    submessages: &'a [u8],
}

/// Why a datagram is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// Fewer bytes than a header has, or bytes of another protocol.
    #[error("the datagram is of another protocol")]
    Foreign,
    /// A version of RTPS that is not read here.
    #[error("the datagram is of RTPS {major}, and RTPS 2 is read here")]
    Version {
        /// The first number of the version.
        major: u8,
    },
}

/// Why bytes are no submessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmessageFault {
    /// The datagram ends before the submessage does. Nothing behind can be read.
    #[error("the datagram ends within a submessage")]
    Truncated,
    /// The fields of the submessage contradict each other.
    #[error("a submessage of kind {kind:#04x} makes no sense")]
    Malformed {
        /// The kind.
        kind: u8,
    },
}

/// A submessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submessage<'a> {
    /// A value or the end of an instance.
    Data(DataSubmessage<'a>),
    /// The numbers that a writer has.
    Heartbeat(RtpsHeartbeat),
    /// The numbers that a reader has and lacks.
    AckNack(AckNack),
    /// Numbers that a reader shall not wait for.
    Gap(RtpsGap),
    /// The participant that the following submessages are for; all zeros are every participant.
    Destination(GuidPrefix),
    /// The participant that the following submessages are from.
    Source(GuidPrefix),
    /// Padding, or the time of the following submessages: nothing that is needed here.
    Passed,
    /// A kind that is not read here: fragments, security, those of vendors.
    Other {
        /// The kind.
        kind: u8,
    },
}

/// A value or the end of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSubmessage<'a> {
    /// The reader; [`EntityId::UNKNOWN`] is every reader.
    pub reader: EntityId,
    /// The writer.
    pub writer: EntityId,
    /// The writer's number of the value, from 1.
    pub sequence: i64,
    /// Whether the instance is gone.
    pub gone: bool,
    /// The key of the instance, where it is an identity.
    pub key: Option<Guid>,
    /// The value, or the key, with its encapsulation.
    pub payload: Option<&'a [u8]>,
}

/// The numbers that a writer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpsHeartbeat {
    /// The reader; [`EntityId::UNKNOWN`] is every reader.
    pub reader: EntityId,
    /// The writer.
    pub writer: EntityId,
    /// The first number that the writer has.
    pub first: i64,
    /// The last number; one less than the first where the writer has nothing.
    pub last: i64,
    /// The writer's number of this heartbeat.
    pub count: u32,
    /// Whether no answer is asked for.
    pub is_final: bool,
}

/// The numbers that a reader has and lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckNack {
    /// The reader.
    pub reader: EntityId,
    /// The writer.
    pub writer: EntityId,
    /// The numbers that are missing. The reader has all below the base.
    pub missing: SequenceSet,
    /// The reader's number of this answer.
    pub count: u32,
    /// Whether no heartbeat is asked for.
    pub is_final: bool,
}

/// Numbers that a reader shall not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpsGap {
    /// The reader; [`EntityId::UNKNOWN`] is every reader.
    pub reader: EntityId,
    /// The writer.
    pub writer: EntityId,
    /// The first number of a row of them, which ends before the base of the set.
    pub first: i64,
    /// More numbers.
    pub more: SequenceSet,
}

impl<'a> RtpsMessage<'a> {
    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// If the datagram is of another protocol or version.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, MessageFault> {
        let mut reader = ByteReader::new(datagram, true);
        if reader.array() != Some(MAGIC) {
            return Err(MessageFault::Foreign);
        }
        let [major, _] = reader.array().ok_or(MessageFault::Foreign)?;
        if major != VERSION[0] {
            return Err(MessageFault::Version { major });
        }
        let _vendor: [u8; 2] = reader.array().ok_or(MessageFault::Foreign)?;
        let source = reader.prefix().ok_or(MessageFault::Foreign)?;
        Ok(Self {
            source,
            submessages: reader.rest(),
        })
    }

    /// The submessages, in order.
    pub fn submessages(&self) -> Submessages<'a> {
        Submessages {
            bytes: self.submessages,
        }
    }
}

/// The submessages of a datagram, in order. A malformed one is passed over; a truncated one is the last.
#[derive(Clone, Copy, Debug)]
pub struct Submessages<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Submessages<'a> {
    type Item = Result<Submessage<'a>, SubmessageFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let Some((kind, flags, body, rest)) = split_submessage(self.bytes) else {
            self.bytes = &[];
            return Some(Err(SubmessageFault::Truncated));
        };
        self.bytes = rest;
        Some(read_submessage(kind, flags, body).ok_or(SubmessageFault::Malformed { kind }))
    }
}

/// Splits bytes behind their first submessage, which becomes its kind, flags and body.
fn split_submessage(bytes: &[u8]) -> Option<(u8, u8, &[u8], &[u8])> {
    let ([kind, flags, first, second], rest) = bytes.split_first_chunk()?;
    let length = match flags & flag::LITTLE_ENDIAN {
        0 => u16::from_be_bytes([*first, *second]),
        _ => u16::from_le_bytes([*first, *second]),
    };
    // Without a length, the last submessage takes the rest of the datagram; these two kinds may be empty.
    let may_be_empty = matches!(*kind, kind::PAD | kind::TIMESTAMP_KIND);
    let length = match length {
        0 if !may_be_empty => rest.len(),
        length => length.into(),
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some((*kind, *flags, body, rest))
}

/// Reads the body of a submessage; `None` if the body makes no sense.
fn read_submessage(kind: u8, flags: u8, body: &[u8]) -> Option<Submessage<'_>> {
    let mut reader = ByteReader::new(body, flags & flag::LITTLE_ENDIAN != 0);
    Some(match kind {
        kind::DATA => Submessage::Data(read_data(flags, reader)?),
        kind::HEARTBEAT => Submessage::Heartbeat(read_heartbeat(flags, reader)?),
        kind::ACK_NACK => Submessage::AckNack(read_ack_nack(flags, reader)?),
        kind::GAP_KIND => Submessage::Gap(read_gap(reader)?),
        kind::INFO_DESTINATION => Submessage::Destination(reader.prefix()?),
        kind::INFO_SOURCE => {
            // Four unused bytes, version and vendor.
            reader.take(8)?;
            Submessage::Source(reader.prefix()?)
        }
        kind::PAD | kind::TIMESTAMP_KIND => Submessage::Passed,
        kind => Submessage::Other { kind },
    })
}

fn read_data(flags: u8, mut reader: ByteReader<'_>) -> Option<DataSubmessage<'_>> {
    let little_endian = flags & flag::LITTLE_ENDIAN != 0;
    reader.u16()?;
    let offset = usize::from(reader.u16()?);
    let mut behind_offset = reader;
    let mut data = DataSubmessage {
        reader: reader.entity()?,
        writer: reader.entity()?,
        sequence: reader.sequence().filter(|sequence| *sequence > 0)?,
        gone: false,
        key: None,
        payload: None,
    };
    // Later versions may have more fields before the parameters.
    behind_offset.take(offset)?;
    let mut rest = behind_offset.rest();
    if offset < 16 {
        return None;
    }
    if flags & flag::PARAMETERS != 0 {
        let mut list = ParameterList::new(rest, little_endian);
        while let Some((number, mut value)) = list.next()? {
            match number {
                // The flags are the last byte in every byte order.
                parameter::STATUS => data.gone = value.array::<4>()?[3] & GONE != 0,
                parameter::KEY_HASH => data.key = Some(value.guid()?),
                _ => {}
            }
        }
        rest = list.rest();
    }
    if flags & (flag::VALUE | flag::KEY) != 0 {
        data.payload = Some(rest);
    }
    Some(data)
}

fn read_heartbeat(flags: u8, mut reader: ByteReader<'_>) -> Option<RtpsHeartbeat> {
    let heartbeat = RtpsHeartbeat {
        reader: reader.entity()?,
        writer: reader.entity()?,
        first: reader.sequence()?,
        last: reader.sequence()?,
        count: reader.u32()?,
        is_final: flags & flag::FINAL != 0,
    };
    let is_sensible = heartbeat.first > 0 && heartbeat.last >= heartbeat.first - 1;
    (is_sensible && heartbeat.last < i64::MAX).then_some(heartbeat)
}

fn read_ack_nack(flags: u8, mut reader: ByteReader<'_>) -> Option<AckNack> {
    Some(AckNack {
        reader: reader.entity()?,
        writer: reader.entity()?,
        missing: SequenceSet::read(&mut reader)?,
        count: reader.u32()?,
        is_final: flags & flag::FINAL != 0,
    })
}

fn read_gap(mut reader: ByteReader<'_>) -> Option<RtpsGap> {
    let gap = RtpsGap {
        reader: reader.entity()?,
        writer: reader.entity()?,
        first: reader.sequence()?,
        more: SequenceSet::read(&mut reader)?,
    };
    (gap.first > 0 && gap.more.base() >= gap.first).then_some(gap)
}
