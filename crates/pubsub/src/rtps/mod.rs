//! The transport over RTPS, the wire protocol of DDS: a topic is a DDS topic of octets, on one network interface.
//!
//! The protocol is [`tailbound_rtps`]; here are its sockets and its thread. Each subscriber has a socket of its own, which it
//! reads itself: a message passes no thread between publisher and subscriber. One thread of each transport answers discovery
//! and the readers that ask again.

mod membership;
mod receiver;
mod sender;
mod writer_changes;

use std::net::Ipv4Addr;
use std::sync::Arc;

use tailbound_messages::Reliability;
use tailbound_rtps::{EndpointQualities, EndpointRecord, EntityId, HIGHEST_DOMAIN, octet_payload};

use self::membership::Membership;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "rtps";

/// The longest payload, in bytes: a message is one datagram with the heads of RTPS, and other programs of DDS have their own
/// margin.
const LONGEST_PAYLOAD: usize = 64_000;

/// The longest name of a topic, in bytes.
const LONGEST_NAME: usize = 255;

/// Carries messages by RTPS, between the programs of one host or between hosts, and to and from other programs of DDS.
///
/// Nothing is authenticated or encrypted: whoever reaches the interface and knows the number of the domain can publish and
/// subscribe. Clones are one participant of the domain, which ends with the last of them and of their publishers and
/// subscribers.
#[derive(Clone)]
pub struct Rtps {
    membership: Arc<Membership>,
}

impl Rtps {
    /// Joins the domain with this number, from 0 to 230, over the interface with this address, and over no other.
    ///
    /// # Errors
    /// If the number is too high, if the interface does not exist, or if 120 participants of the host are in the domain.
    pub fn join(domain: u16, interface: Ipv4Addr) -> Result<Self, TransportError> {
        if domain > HIGHEST_DOMAIN {
            let attempt = format!("join domain {domain} over {interface}");
            let reason = format!("the highest number of a domain is {HIGHEST_DOMAIN}");
            return Err(refused(attempt, reason));
        }
        Ok(Self {
            membership: Arc::new(Membership::join(domain, interface)?),
        })
    }

    /// The datagrams, submessages and announcements that were dropped: of other protocols and versions, truncated, of kinds
    /// that are not read here, of strangers, beyond the memory, and endpoints whose qualities do not match.
    pub fn refusals(&self) -> u64 {
        self.membership.refusals()
    }
}

impl std::fmt::Debug for Rtps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Rtps").finish_non_exhaustive()
    }
}

impl Transport for Rtps {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            reliable: true,
            between_hosts: true,
            longest: LONGEST_PAYLOAD,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        check_name(topic, "publish")?;
        let membership = Arc::clone(&self.membership);
        Ok(Box::new(sender::RtpsSender::open(membership, topic)))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        check_name(topic, "subscribe")?;
        let membership = Arc::clone(&self.membership);
        Ok(Box::new(receiver::RtpsReceiver::open(membership, topic)?))
    }
}

/// Whether lost messages of a topic are sent again.
fn is_reliable(topic: &Topic) -> bool {
    topic.quality.reliability == Reliability::Reliable
}

/// The announcement of an endpoint of a topic. Deadline, lifespan and liveliness are judged by the subscriber, as over every
/// transport.
fn endpoint(membership: &Membership, entity: EntityId, topic: &Topic) -> EndpointRecord {
    EndpointRecord {
        guid: membership.prefix().with(entity),
        topic: topic.name.clone(),
        type_name: octet_payload::TYPE_NAME.to_owned(),
        qualities: EndpointQualities::of(is_reliable(topic)),
        history: topic.quality.history,
        address: None,
    }
}

fn check_name(topic: &Topic, verb: &str) -> Result<(), TransportError> {
    let name = &topic.name;
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        let reason = format!("a name has 1 to {LONGEST_NAME} bytes, and no zero among them");
        return Err(refused(format!("{verb} topic `{name}`"), reason));
    }
    Ok(())
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
