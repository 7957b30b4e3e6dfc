//! The data spaces of a program: one for each transport and address that its topics name.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{
    DataSpace, InProcess, Publisher, Subscriber, Transport, TransportError, Udp,
};
use tailbound_topics::TransportKind;

use crate::OwnTaskError;
use crate::plan::PlannedTopic;

/// Data spaces by the transport and the address of topics, made when first asked for.
pub(crate) struct Spaces {
    spaces: BTreeMap<String, DataSpace>,
    memory: InProcess,
}

impl Spaces {
    /// Data spaces of a program whose topics in memory are in `memory`.
    pub fn around(memory: InProcess) -> Self {
        Self {
            spaces: BTreeMap::new(),
            memory,
        }
    }

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
        let name = topic.description.data_space();
        if !self.spaces.contains_key(&name) {
            let transport = transport(topic, Some(&self.memory))?;
            let space = DataSpace::over(transport, Arc::new(Monotonic));
            self.spaces.insert(name.clone(), space);
        }
        Ok(&self.spaces[&name])
    }
}

/// The transport of a topic, in a program whose topics in memory are in `memory`.
pub(crate) fn transport(
    topic: &PlannedTopic,
    memory: Option<&InProcess>,
) -> Result<Box<dyn Transport>, OwnTaskError> {
    let address = topic.description.address().unwrap_or_default();
    let opened = match (topic.description.transport, memory) {
        (TransportKind::Udp, _) => udp(address),
        (TransportKind::InProcess, Some(memory)) => Ok(Box::new(memory.clone()) as _),
        #[cfg(feature = "iceoryx2")]
        (TransportKind::SharedMemory, _) => {
            tailbound_pubsub::SharedMemory::join(address).map(|joined| Box::new(joined) as _)
        }
        #[cfg(feature = "zeromq")]
        (TransportKind::Zeromq, _) => {
            tailbound_pubsub::ZeroMq::on_host(address).map(|joined| Box::new(joined) as _)
        }
        #[cfg(feature = "cyclone")]
        (TransportKind::CycloneDds, _) => cyclone(address),
        (kind, _) => return Err(absent(&topic.name, kind)),
    };
    opened.map_err(|source| topic.refused(source))
}

fn udp(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let address: SocketAddrV4 = address.parse().map_err(|_| TransportError::Refused {
        transport: "udp",
        attempt: format!("use the address `{address}`"),
        reason: "an IPv4 address and a port are needed, such as 127.0.0.1:7410".to_owned(),
    })?;
    Ok(Box::new(Udp::multicast(*address.ip(), address.port())))
}

/// The domain of DDS whose number stands in the place of a port.
#[cfg(feature = "cyclone")]
fn cyclone(address: &str) -> Result<Box<dyn Transport>, TransportError> {
    let address: SocketAddrV4 = address.parse().map_err(|_| TransportError::Refused {
        transport: "cyclone-dds",
        attempt: format!("use the address `{address}`"),
        reason: "an IPv4 address and the number of a domain are needed, such as 127.0.0.1:0"
            .to_owned(),
    })?;
    let joined = tailbound_pubsub::CycloneDds::join(address.port().into(), *address.ip())?;
    Ok(Box::new(joined))
}

/// The feature that a build needs for a transport; `None` for one that programs of ours do not have at all.
fn feature(kind: TransportKind) -> Option<&'static str> {
    match kind {
        TransportKind::SharedMemory => Some("iceoryx2"),
        TransportKind::Zeromq => Some("zeromq"),
        TransportKind::CycloneDds => Some("cyclone"),
        _ => None,
    }
}

/// The refusal of a transport that this build does not have.
fn absent(topic: &str, kind: TransportKind) -> OwnTaskError {
    let by_hand = format!("write transport = \"udp\" at topics.{topic}");
    let remedy = match (kind, feature(kind)) {
        (_, Some(feature)) => {
            format!("build tailbound-cli with `--features {feature}`, or {by_hand}")
        }
        (TransportKind::InProcess, None) => {
            format!(
                "its messages stay in one program, and a route has a program of its own; {by_hand}"
            )
        }
        (_, None) => format!("the programs of tailbound do not speak it; {by_hand}"),
    };
    OwnTaskError::Transport {
        topic: topic.to_owned(),
        transport: kind.name(),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_that_a_build_lacks_is_refused_with_the_feature_to_build_with() {
        let text = absent("image", TransportKind::SharedMemory).to_string();
        assert!(
            text.contains("`image`") && text.contains("`shared-memory`"),
            "{text}"
        );
        assert!(text.contains("--features iceoryx2"), "{text}");
        assert!(
            text.contains("transport = \"udp\" at topics.image"),
            "{text}"
        );
        let text = absent("image", TransportKind::Zenoh).to_string();
        assert!(!text.contains("--features"), "{text}");
    }
}
