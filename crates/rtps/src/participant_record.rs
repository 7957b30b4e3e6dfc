//! The announcement of a participant (DDSI-RTPS 2.3, section 8.5.3).

use std::net::SocketAddrV4;

use tailbound_time::Duration;

use crate::message::{VENDOR, VERSION};
use crate::parameter_list::{ParameterList, ParameterWriter, parameter};
use crate::{EntityId, GuidPrefix};

/// The built-in endpoints of a participant here: announcer and detector of participants, writers and readers.
const BUILTIN_ENDPOINTS: u32 = 0x3f;
/// The lease of participants that announce none (DDSI-RTPS 2.3, table 9.12), in seconds.
const DEFAULT_LEASE_SECONDS: u32 = 100;

/// The announcement of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantRecord {
    /// The participant.
    pub prefix: GuidPrefix,
    /// The domain, where it is announced.
    pub domain: Option<u32>,
    /// The address at which the participant receives discovery.
    pub discovery: SocketAddrV4,
    /// The address at which its endpoints receive that announce none.
    pub endpoints: SocketAddrV4,
    /// The time after which the participant is gone unless it announces itself again.
    pub lease: Duration,
    /// The built-in endpoints of the participant, as bits.
    pub builtin: u32,
}

impl ParticipantRecord {
    /// The announcement of a participant of this crate, which receives everything at one address.
    pub fn own(prefix: GuidPrefix, domain: u16, address: SocketAddrV4, lease: Duration) -> Self {
        Self {
            prefix,
            domain: Some(domain.into()),
            discovery: address,
            endpoints: address,
            lease,
            builtin: BUILTIN_ENDPOINTS,
        }
    }

    /// Whether the participant announces and detects writers and readers.
    pub fn discovers_endpoints(&self) -> bool {
        self.builtin & BUILTIN_ENDPOINTS == BUILTIN_ENDPOINTS
    }

    /// Writes the announcement.
    pub fn encode(&self) -> Vec<u8> {
        let lease_ns = self.lease.as_nanos();
        let seconds = u32::try_from(lease_ns / 1_000_000_000).unwrap_or(u32::MAX >> 1);
        let mut list = ParameterWriter::announcement();
        list.put(parameter::PROTOCOL_VERSION, &VERSION)
            .put(parameter::VENDOR, &VENDOR);
        if let Some(domain) = self.domain {
            list.put_numbers(parameter::DOMAIN, &[domain]);
        }
        let guid = self.prefix.with(EntityId::PARTICIPANT);
        list.put(parameter::PARTICIPANT_GUID, &guid.to_bytes())
            .put_locator(parameter::METATRAFFIC_UNICAST_LOCATOR, self.discovery)
            .put_locator(parameter::DEFAULT_UNICAST_LOCATOR, self.endpoints)
            .put_numbers(parameter::PARTICIPANT_LEASE, &[seconds, 0])
            .put_numbers(parameter::BUILTIN_ENDPOINTS, &[self.builtin])
            .finish()
    }

    /// Reads an announcement; `None` if it is none, or lacks the identity or the addresses.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut list = ParameterList::of_payload(payload)?;
        let (mut guid, mut domain) = (None, None);
        let (mut discovery, mut endpoints) = (None, None);
        let mut lease_seconds = DEFAULT_LEASE_SECONDS;
        let mut builtin = 0;
        while let Some((number, mut value)) = list.next()? {
            match number {
                parameter::PARTICIPANT_GUID => guid = Some(value.guid()?),
                parameter::DOMAIN => domain = Some(value.u32()?),
                parameter::METATRAFFIC_UNICAST_LOCATOR => {
                    discovery = discovery.or(value.locator()?)
                }
                parameter::DEFAULT_UNICAST_LOCATOR => endpoints = endpoints.or(value.locator()?),
                // A part of a second counts as a whole one.
                parameter::PARTICIPANT_LEASE => {
                    let seconds = value.u32()?;
                    lease_seconds = seconds.saturating_add(u32::from(value.u32()? > 0));
                }
                parameter::BUILTIN_ENDPOINTS => builtin = value.u32()?,
                _ => {}
            }
        }
        Some(Self {
            prefix: guid?.prefix,
            domain,
            discovery: discovery?,
            endpoints: endpoints.or(discovery)?,
            lease: Duration::from_secs(lease_seconds.into()),
            builtin,
        })
    }

    /// Reads the identity alone, which the announcement of an end has.
    pub fn decode_prefix(payload: &[u8]) -> Option<GuidPrefix> {
        let mut list = ParameterList::of_payload(payload)?;
        while let Some((number, mut value)) = list.next()? {
            if number == parameter::PARTICIPANT_GUID {
                return value.guid().map(|guid| guid.prefix);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn record() -> ParticipantRecord {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7_410);
        ParticipantRecord::own(GuidPrefix([9; 12]), 3, address, Duration::from_secs(10))
    }

    #[test]
    fn an_announcement_survives_its_bytes() {
        let bytes = record().encode();
        assert_eq!(ParticipantRecord::decode(&bytes), Some(record()));
        assert_eq!(
            ParticipantRecord::decode_prefix(&bytes),
            Some(record().prefix)
        );
        assert!(record().discovers_endpoints());
    }

    proptest! {
        #[test]
        fn changed_and_cut_announcements_are_refused_or_read(
            place in any::<prop::sample::Index>(),
            value in any::<u8>(),
            length in any::<prop::sample::Index>(),
        ) {
            let mut bytes = record().encode();
            let place = place.index(bytes.len());
            bytes[place] = value;
            bytes.truncate(length.index(bytes.len()) + 1);
            let _ = ParticipantRecord::decode(&bytes);
            let _ = ParticipantRecord::decode_prefix(&bytes);
        }
    }
}
