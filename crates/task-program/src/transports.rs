//! The data spaces of a program: one for each transport and address that its topics name.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{DataSpace, Publisher, Subscriber, Transport, TransportError, Udp};
use tailbound_topics::{TopicDescription, TransportKind};

use crate::OwnTaskError;
use crate::plan::PlannedTopic;

/// The interface and port of datagrams where a topic names none.
const UDP_ADDRESS: &str = "127.0.0.1:7410";

/// Data spaces by the transport and the address of topics, made when first asked for.
#[derive(Default)]
pub(crate) struct Spaces {
    spaces: BTreeMap<String, DataSpace>,
}

impl Spaces {
    /// A publisher of the topic.
    pub fn publisher(&mut self, topic: &PlannedTopic) -> Result<Publisher, OwnTaskError> {
        let publisher = self.space(topic)?.publisher(&topic.topic());
        publisher.map_err(|source| topic.refused(source))
    }

    /// A subscriber of the topic.
    pub fn subscriber(&mut self, topic: &PlannedTopic) -> Result<Subscriber, OwnTaskError> {
        let subscriber = self.space(topic)?.subscriber(&topic.topic());
        subscriber.map_err(|source| topic.refused(source))
    }

    fn space(&mut self, topic: &PlannedTopic) -> Result<&DataSpace, OwnTaskError> {
        let name = space_name(&topic.description);
        if !self.spaces.contains_key(&name) {
            let transport = transport(&topic.description);
            let transport = transport.map_err(|source| topic.refused(source))?;
            let space = DataSpace::over(transport, Arc::new(Monotonic));
            self.spaces.insert(name.clone(), space);
        }
        Ok(&self.spaces[&name])
    }
}

/// The name of the data space of a topic.
pub(crate) fn space_name(topic: &TopicDescription) -> String {
    match (topic.transport, &topic.address) {
        (TransportKind::Udp, address) => {
            format!("udp at {}", address.as_deref().unwrap_or(UDP_ADDRESS))
        }
        (kind, _) => format!("{kind:?}"),
    }
}

/// The transport of a topic.
pub(crate) fn transport(topic: &TopicDescription) -> Result<Box<dyn Transport>, TransportError> {
    match topic.transport {
        TransportKind::Udp => {
            let address = topic.address.as_deref().unwrap_or(UDP_ADDRESS);
            let address: SocketAddrV4 = address.parse().map_err(|_| TransportError::Refused {
                transport: "udp",
                attempt: format!("use the address `{address}`"),
                reason: "an IPv4 address and a port are needed, such as 127.0.0.1:7410".to_owned(),
            })?;
            Ok(Box::new(Udp::multicast(*address.ip(), address.port())))
        }
        kind => Err(TransportError::Lacks {
            transport: "own-tasks",
            quality: format!("transport `{kind:?}`"),
            remedy: "take `udp`".to_owned(),
        }),
    }
}
