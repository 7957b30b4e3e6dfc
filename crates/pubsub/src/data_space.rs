//! The data space: topics over one transport, with stamps of one clock.

use std::sync::Arc;

use tailbound_messages::{ExcessRule, HEADER_LENGTH, Quality, Reliability};
use tailbound_time::Clock;

use crate::{Publisher, Subscriber, Topic, Transport, TransportError};

/// The most memory for what a subscriber remembers of its publishers, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// The clock of time stamps; threads share it.
pub type SharedClock = Arc<dyn Clock + Send + Sync>;

/// The place where publishers and subscribers of topics meet: a transport and a clock.
///
/// All programs of a data space must use one clock, since ages are differences of their stamps. On one host that is
/// CLOCK_MONOTONIC (`tailbound_linux::clock::Monotonic`), the same in all processes and containers. Between hosts it is
/// [`WallClock`](crate::WallClock), and the hosts must be synchronised by NTP or PTP; ages are as wrong as the clocks are
/// apart, and an age below zero counts as zero.
pub struct DataSpace {
    transport: Box<dyn Transport>,
    clock: SharedClock,
}

impl DataSpace {
    /// A data space over a transport, with time stamps of a clock.
    pub fn over(transport: Box<dyn Transport>, clock: SharedClock) -> Self {
        Self { transport, clock }
    }

    /// Makes a publisher of a topic.
    ///
    /// # Errors
    /// If the transport lacks a quality of the topic, if its contract has no meaning, or if the kernel or the middleware
    /// refuses.
    pub fn publisher(&self, topic: &Topic) -> Result<Publisher, TransportError> {
        self.check(topic)?;
        let sender = self.transport.sender(topic)?;
        Publisher::new(topic, sender, Arc::clone(&self.clock))
    }

    /// Makes a subscriber of a topic.
    ///
    /// # Errors
    /// As for publishers.
    pub fn subscriber(&self, topic: &Topic) -> Result<Subscriber, TransportError> {
        self.check(topic)?;
        let receiver = self.transport.receiver(topic)?;
        Subscriber::new(topic, receiver, Arc::clone(&self.clock))
    }

    fn check(&self, topic: &Topic) -> Result<(), TransportError> {
        let traits = self.transport.traits();
        let lacks = |quality: String, remedy: String| TransportError::Lacks {
            transport: traits.name,
            quality,
            remedy: format!(
                "{remedy} for topic `{}`, or take another transport",
                topic.name
            ),
        };
        let Quality {
            history,
            reliability,
            ..
        } = topic.quality;
        if reliability == Reliability::Reliable && !traits.reliable {
            let remedy = "write `reliability = \"best-effort\"`".to_owned();
            return Err(lacks("reliable delivery".to_owned(), remedy));
        }
        if topic.longest > traits.longest {
            let quality = format!("messages of {} bytes", topic.longest);
            return Err(lacks(
                quality,
                format!("write at most {} bytes", traits.longest),
            ));
        }
        if history == 0 || history > traits.history {
            let remedy = format!("write a history from 1 to {}", traits.history);
            return Err(lacks(format!("history of {history}"), remedy));
        }
        if let Some(contract) = &topic.contract {
            let topic_name = || topic.name.clone();
            contract
                .check(topic.longest)
                .map_err(|fault| TransportError::Contract {
                    topic: topic_name(),
                    fault,
                })?;
        }
        let memory = memory_of_publishers(topic);
        if memory > MOST_MEMORY {
            let quality = format!("{memory} bytes for what a subscriber remembers of publishers");
            let remedy = format!(
                "lower publishers, or the messages of a contract, until {MOST_MEMORY} suffice"
            );
            return Err(lacks(quality, remedy));
        }
        Ok(())
    }
}

impl std::fmt::Debug for DataSpace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DataSpace")
            .field("transport", &self.transport.traits().name)
            .finish_non_exhaustive()
    }
}

/// The memory for what a subscriber remembers of its publishers: the messages that each contract admitted of late, and those
/// that are held back.
fn memory_of_publishers(topic: &Topic) -> usize {
    const TRACK: usize = 512;
    const ADMISSION: usize = 16;
    let admissions = topic
        .contract
        .map_or(0, |contract| contract.messages as usize);
    let holds_back =
        |contract: &tailbound_messages::Contract| contract.violation == ExcessRule::HoldBack;
    let held = match topic.contract.as_ref().is_some_and(holds_back) {
        true => longest_message(topic).saturating_mul(topic.quality.history as usize),
        false => 0,
    };
    let each = held.saturating_add(admissions * ADMISSION + TRACK);
    each.saturating_mul(topic.publishers as usize)
}

/// The longest header and payload of a topic together, in bytes.
pub(crate) fn longest_message(topic: &Topic) -> usize {
    topic.longest.saturating_add(HEADER_LENGTH)
}
