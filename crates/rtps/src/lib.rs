//! RTPS, the wire protocol of DDS (OMG DDSI-RTPS 2.3), for keyless topics of octets.
//!
//! The crate has no I/O and reads no clock: datagrams and instants go in, and datagrams with their destinations, deliveries
//! and changes of matches come out. From bytes to decisions:
//!
//! - [`RtpsMessage`] reads a datagram, and [`DatagramBuilder`] writes one.
//! - [`octet_payload`] is the type of all topics: a length in bytes, and 64-bit words that hold the bytes.
//! - [`ParticipantRecord`] and [`EndpointRecord`] are the announcements of discovery.
//! - [`RtpsWriter`] and [`RtpsReader`] are the two ends of a topic, best-effort or reliable.
//! - [`Participant`] discovers other participants and their endpoints, and matches them with its own.
//!
//! Left out: fragments (`DATA_FRAG`), keys, security, TCP, IPv6, big-endian payloads of topics, and every durability but
//! volatile. A reader counts such submessages, and a participant does not match such endpoints.

mod addressee;
mod byte_reader;
mod datagram_builder;
#[cfg(test)]
mod delivery_tests;
mod endpoint_record;
mod guid;
mod locator;
mod message;
pub mod octet_payload;
mod parameter_list;
mod participant;
mod participant_record;
#[cfg(test)]
mod participant_tests;
mod qualities;
mod reader;
mod sequence_set;
mod sequence_track;
mod writer;

pub use addressee::Addressed;
pub use datagram_builder::DatagramBuilder;
pub use endpoint_record::EndpointRecord;
pub use guid::{EntityId, Guid, GuidPrefix};
pub use locator::{HIGHEST_DOMAIN, HIGHEST_PARTICIPANT, discovery_group, participant_port};
pub use message::{
    AckNack, DataSubmessage, MessageFault, RtpsGap, RtpsHeartbeat, RtpsMessage, Submessage,
    SubmessageFault, Submessages,
};
pub use participant::{DiscoveryEffects, MatchChange, Participant, ParticipantSettings};
pub use participant_record::ParticipantRecord;
pub use qualities::{EndpointQualities, QualityMismatch};
pub use reader::{DatagramCounts, Delivery, MatchedWriter, RtpsReader};
pub use sequence_set::SequenceSet;
pub use sequence_track::{SequencePlace, SequenceTrack};
pub use writer::{MatchedReader, RtpsWriter};
