//! The data spaces of a program: one for each transport and address that its topics name.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{
    DataSpace, InProcess, Publisher, Subscriber, Transport, named_transport, transport_feature,
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
    let (kind, address) = (topic.description.transport, topic.description.address());
    if let (TransportKind::InProcess, Some(memory)) = (kind, memory) {
        return Ok(Box::new(memory.clone()));
    }
    let opened = named_transport(kind.name(), address.unwrap_or_default());
    let opened = opened.ok_or_else(|| absent(&topic.name, kind))?;
    opened.map_err(|source| topic.refused(source))
}

/// The refusal of a transport that this build does not have.
fn absent(topic: &str, kind: TransportKind) -> OwnTaskError {
    let by_hand = format!("write transport = \"udp\" at topics.{topic}");
    let remedy = match transport_feature(kind.name()) {
        Some(feature) => {
            format!("build tailbound-cli with `--features {feature}`, or {by_hand}")
        }
        // Every build has the others: `in-process` is refused where its messages would have to leave the program.
        None => format!(
            "its messages stay in one program, and a route has a program of its own; {by_hand}"
        ),
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
        let text = absent("image", TransportKind::InProcess).to_string();
        assert!(!text.contains("--features"), "{text}");
    }
}
