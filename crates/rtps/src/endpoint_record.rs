//! The announcement of a writer or a reader (DDSI-RTPS 2.3, section 8.5.4).

use std::net::SocketAddrV4;

use crate::byte_reader::ByteReader;
use crate::message::{VENDOR, VERSION};
use crate::parameter_list::{ParameterList, ParameterWriter, parameter};
use crate::{EndpointQualities, EntityId, Guid};

/// The kinds of reliability on the wire.
const BEST_EFFORT: u32 = 1;
const RELIABLE: u32 = 2;
/// The first representation of CDR, which endpoints have that announce none.
const PLAIN_CDR: u16 = 0;

/// The announcement of a writer or a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRecord {
    /// The endpoint.
    pub guid: Guid,
    /// The name of its topic.
    pub topic: String,
    /// The name of the type of the topic.
    pub type_name: String,
    /// The qualities that a writer offers or a reader requests.
    pub qualities: EndpointQualities,
    /// The messages that a writer keeps, or that wait at a reader.
    pub history: u32,
    /// The address at which the endpoint receives; that of its participant, if there is none.
    pub address: Option<SocketAddrV4>,
}

impl EndpointRecord {
    /// Whether the endpoint is a writer.
    pub fn is_writer(&self) -> bool {
        self.guid.entity.is_keyless_writer()
    }

    /// Writes the announcement.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.qualities.reliable {
            true => RELIABLE,
            false => BEST_EFFORT,
        };
        let participant = self.guid.prefix.with(EntityId::PARTICIPANT);
        let mut list = ParameterWriter::announcement();
        list.put(parameter::PROTOCOL_VERSION, &VERSION)
            .put(parameter::VENDOR, &VENDOR)
            .put(parameter::ENDPOINT_GUID, &self.guid.to_bytes())
            .put(parameter::PARTICIPANT_GUID, &participant.to_bytes())
            .put_string(parameter::TOPIC_NAME, &self.topic)
            .put_string(parameter::TYPE_NAME, &self.type_name)
            // No time in which a writer waits for room.
            .put_numbers(parameter::RELIABILITY, &[kind, 0, 0])
            .put_numbers(parameter::DURABILITY, &[self.qualities.durability])
            .put_numbers(parameter::HISTORY, &[0, self.history]);
        if let Some(address) = self.address {
            list.put_locator(parameter::UNICAST_LOCATOR, address);
        }
        list.finish()
    }

    /// Reads an announcement; `None` if it is none, or lacks the identity, the topic or the type.
    ///
    /// Readers are best-effort and writers reliable unless they say otherwise (DDS 1.4, section 2.2.3).
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut list = ParameterList::of_payload(payload)?;
        let (mut guid, mut topic, mut type_name) = (None, None, None);
        let (mut address, mut reliability) = (None, None);
        let mut history = 1;
        let mut qualities = EndpointQualities::default();
        while let Some((number, mut value)) = list.next()? {
            match number {
                parameter::ENDPOINT_GUID => guid = Some(value.guid()?),
                parameter::TOPIC_NAME => topic = Some(value.string()?.to_owned()),
                parameter::TYPE_NAME => type_name = Some(value.string()?.to_owned()),
                parameter::RELIABILITY => reliability = Some(value.u32()?),
                parameter::UNICAST_LOCATOR => address = address.or(value.locator()?),
                parameter::HISTORY => {
                    value.u32()?;
                    history = value.u32()?;
                }
                number => read_quality(&mut qualities, number, value)?,
            }
        }
        let guid: Guid = guid?;
        let default = match guid.entity.is_keyless_writer() {
            true => RELIABLE,
            false => BEST_EFFORT,
        };
        qualities.reliable = reliability.unwrap_or(default) != BEST_EFFORT;
        Some(Self {
            guid,
            topic: topic?,
            type_name: type_name?,
            qualities,
            history,
            address,
        })
    }

    /// Reads the identity alone, which the announcement of an end has.
    pub fn decode_guid(payload: &[u8]) -> Option<Guid> {
        let mut list = ParameterList::of_payload(payload)?;
        while let Some((number, mut value)) = list.next()? {
            if number == parameter::ENDPOINT_GUID {
                return value.guid();
            }
        }
        None
    }
}

/// Reads a parameter that may be a quality; `None` if its value is too short.
fn read_quality(
    qualities: &mut EndpointQualities,
    number: u16,
    mut value: ByteReader<'_>,
) -> Option<()> {
    match number {
        parameter::DURABILITY => qualities.durability = value.u32()?,
        parameter::DEADLINE_QUALITY => qualities.deadline_length = value.length()?,
        parameter::LIVELINESS => qualities.liveliness = (value.u32()?, value.length()?),
        parameter::OWNERSHIP => qualities.exclusive = value.u32()? != 0,
        parameter::DESTINATION_ORDER => qualities.source_order = value.u32()? != 0,
        parameter::PRESENTATION => {
            let scope = value.u32()?;
            let [coherent, ordered] = value.array()?;
            qualities.grouped = scope != 0 && (coherent, ordered) != (0, 0);
        }
        parameter::PARTITION => qualities.unpartitioned = is_unnamed(value)?,
        parameter::REPRESENTATION => {
            let count = value.u32()?;
            let first = value.u16();
            qualities.plain_cdr = count == 0 || first == Some(PLAIN_CDR);
        }
        _ => {}
    }
    Some(())
}

/// Whether partitions are none, or have the one without a name among them.
fn is_unnamed(mut value: ByteReader<'_>) -> Option<bool> {
    let count = value.u32()?;
    for _ in 0..count {
        let name = value.string()?;
        if name.is_empty() {
            return Some(true);
        }
        // Each string begins at a multiple of four.
        let padding = (name.len() + 1).next_multiple_of(4) - (name.len() + 1);
        if value.take(padding).is_none() {
            break;
        }
    }
    Some(count == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::GuidPrefix;

    fn record(topic: &str) -> EndpointRecord {
        EndpointRecord {
            guid: GuidPrefix([4; 12]).with(EntityId::user_reader(3)),
            topic: topic.to_owned(),
            type_name: "bytes".to_owned(),
            qualities: EndpointQualities::of(true),
            history: 16,
            address: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 40_000)),
        }
    }

    #[test]
    fn an_announcement_survives_its_bytes() {
        for topic in ["", "a", "people", "größe/7"] {
            let record = record(topic);
            let bytes = record.encode();
            assert_eq!(EndpointRecord::decode(&bytes), Some(record.clone()));
            assert_eq!(EndpointRecord::decode_guid(&bytes), Some(record.guid));
        }
    }

    #[test]
    fn qualities_that_are_announced_are_compared() {
        let mut list = ParameterWriter::announcement();
        list.put(parameter::ENDPOINT_GUID, &record("a").guid.to_bytes())
            .put_string(parameter::TOPIC_NAME, "a")
            .put_string(parameter::TYPE_NAME, "bytes")
            .put_numbers(parameter::DEADLINE_QUALITY, &[1, 0])
            .put_numbers(parameter::LIVELINESS, &[2, 3, 0])
            .put_numbers(parameter::OWNERSHIP, &[1])
            .put_numbers(
                parameter::PARTITION,
                &[1, 2, u32::from_le_bytes(*b"x\0\0\0")],
            )
            .put(parameter::REPRESENTATION, &[1, 0, 0, 0, 2, 0]);
        let record = EndpointRecord::decode(&list.finish()).unwrap();
        let qualities = record.qualities;
        assert_eq!(qualities.deadline_length, 1 << 32);
        assert_eq!(qualities.liveliness, (2, 3 << 32));
        assert!(qualities.exclusive && !qualities.unpartitioned && !qualities.plain_cdr);
        assert!(!qualities.reliable, "readers are best-effort by default");
    }

    proptest! {
        #[test]
        fn changed_and_cut_announcements_are_refused_or_read(
            place in any::<prop::sample::Index>(),
            value in any::<u8>(),
            length in any::<prop::sample::Index>(),
        ) {
            let mut bytes = record("people").encode();
            bytes[place.index(record("people").encode().len())] = value;
            bytes.truncate(length.index(bytes.len()) + 1);
            let _ = EndpointRecord::decode(&bytes);
            let _ = EndpointRecord::decode_guid(&bytes);
        }
    }
}
