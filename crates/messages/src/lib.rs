//! Messages of topics: their [header](MessageHeader), the [qualities](Quality) of their delivery, and the [contracts](Contract)
//! of their publishers, with the [regulator](Regulator) that enforces one and the [reception](Reception) that judges each
//! message at a subscriber.
//!
//! The description, the analysis, the simulation and the library for programs share these types, so that a contract
//! that is enforced is the one that was analysed. Nothing here sends, waits or reads a clock.

mod circle;
mod contract;
mod header;
mod held_messages;
mod identity;
mod publisher_track;
mod quality;
mod reception;
#[cfg(test)]
mod reception_tests;
mod regulator;

pub use circle::circle;
pub use contract::{Contract, ContractFault, ExcessRule};
pub use header::{
    HEADER_LENGTH, HeaderError, HopFault, LONGEST_DATAGRAM, MessageHeader, MessageKind, RawMessage,
    take_hop,
};
pub use identity::{instance_number, multicast_group, topic_number};
pub use publisher_track::SubscriberEvent;
pub use quality::{Liveliness, Quality, Reliability};
pub use reception::{Judgement, Reception, ReceptionCounts, ReceptionTerms};
pub use regulator::{Breach, Regulator};
