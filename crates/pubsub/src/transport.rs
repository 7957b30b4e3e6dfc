//! The seam between data spaces and what carries their messages.

use tailbound_messages::{
    Contract, ContractFault, HEADER_LENGTH, Quality, RawMessage, topic_number,
};
use tailbound_time::Duration;

/// A topic, as transports see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The name, such as "people".
    pub name: String,
    /// The name of the type of its messages; publishers and subscribers must agree on it.
    pub type_name: String,
    /// The longest payload, in bytes.
    pub longest: usize,
    /// The number of publishers that there is room for.
    pub publishers: u32,
    /// The number of subscribers that there is room for.
    pub subscribers: u32,
    /// The qualities of its delivery.
    pub quality: Quality,
    /// The traffic that each publisher may cause; transports size their buffers for it.
    pub contract: Option<Contract>,
}

impl Topic {
    /// A topic for one publisher and one subscriber, with the default qualities and without a contract.
    pub fn new(name: &str, type_name: &str, longest: usize) -> Self {
        Self {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            longest,
            publishers: 1,
            subscribers: 1,
            quality: Quality::default(),
            contract: None,
        }
    }

    /// The number of the topic in headers.
    pub fn number(&self) -> u64 {
        topic_number(&self.name, &self.type_name)
    }
}

/// What a transport can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportTraits {
    /// The name in descriptions.
    pub name: &'static str,
    /// Whether lost messages are sent again.
    pub reliable: bool,
    /// Whether messages reach other hosts.
    pub between_hosts: bool,
    /// The longest payload, in bytes.
    pub longest: usize,
    /// The most messages that wait for a subscriber.
    pub history: u32,
}

/// What carries messages: shared memory, datagrams, a middleware.
pub trait Transport: Send {
    /// What the transport can do. The data space refuses topics that need more.
    fn traits(&self) -> TransportTraits;

    /// Opens the sending side of a topic.
    ///
    /// # Errors
    /// If the transport cannot carry the topic, or the kernel or the middleware refuses.
    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError>;

    /// Opens the receiving side of a topic.
    ///
    /// # Errors
    /// If the transport cannot carry the topic, or the kernel or the middleware refuses.
    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError>;
}

/// The sending side of a topic.
pub trait Sender: Send {
    /// Sends a message to all subscribers; never waits for one of them.
    ///
    /// # Errors
    /// If the message was not sent.
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError>;
}

/// The receiving side of a topic.
pub trait Receiver: Send {
    /// Shows the oldest message that waits, header and payload, to `visit`, and removes it; no message: `false`. The bytes
    /// are as they came.
    ///
    /// # Errors
    /// If the transport failed; the receiver stays usable.
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError>;

    /// Waits until a message is there, at most this long; for ever without a limit. Whether a message is there.
    ///
    /// # Errors
    /// If the transport failed.
    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError>;

    /// The messages or datagrams that the kernel or the middleware dropped on the way to this receiver for want of room, where
    /// it counts them. What an older message lost to a newer one is not among them.
    fn dropped(&self) -> Option<u64> {
        None
    }
}

/// Why a transport did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A quality or a size that the transport does not have.
    #[error("transport `{transport}` has no {quality}: {remedy}")]
    Lacks {
        /// The name of the transport.
        transport: &'static str,
        /// What it lacks.
        quality: String,
        /// What to write in its place.
        remedy: String,
    },
    /// A contract that has no meaning.
    #[error("topic `{topic}`: {fault}")]
    Contract {
        /// The name of the topic.
        topic: String,
        /// What is wrong with the contract.
        fault: ContractFault,
    },
    /// The kernel or the middleware refused.
    #[error("transport `{transport}` cannot {attempt}: {reason}")]
    Refused {
        /// The name of the transport.
        transport: &'static str,
        /// What was tried.
        attempt: String,
        /// The reason, in the words of whoever refused.
        reason: String,
    },
}
