//! The publisher of a topic.

use std::hash::{BuildHasher, Hasher, RandomState};

use tailbound_messages::{
    Breach, HEADER_LENGTH, MessageHeader, MessageKind, Regulator, instance_number,
};
use tailbound_time::Instant;

use crate::{Sender, SharedClock, Topic, TransportError};

/// The number of routers that a message may pass, unless it was sent with another.
const HOPS: u8 = 8;

/// Publishes messages of a topic. When it is dropped, it says farewell to the subscribers.
pub struct Publisher {
    sender: Box<dyn Sender>,
    clock: SharedClock,
    regulator: Option<Regulator>,
    topic: u64,
    name: String,
    longest: usize,
    source: u64,
    sequence: u64,
    introduced: bool,
}

/// The time of the oldest measurement that went into data. It goes from message to message along a chain, so that the age
/// of the data is there at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOrigin {
    time: Instant,
}

impl DataOrigin {
    /// Data that was measured at this time.
    pub fn at(time: Instant) -> Self {
        Self { time }
    }

    /// The origin of data that was made of both: the older one.
    pub fn or_older(self, other: Self) -> Self {
        Self::at(self.time.min(other.time))
    }

    /// The time of the measurement.
    pub fn time(self) -> Instant {
        self.time
    }
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The message breaks the contract of the publisher. It was not sent, and has no number.
    #[error("topic `{topic}`: {breach}; send later, or less")]
    Contract {
        /// The name of the topic.
        topic: String,
        /// The limit that the message would exceed.
        breach: Breach,
    },
    /// The message is too long for the topic.
    #[error("topic `{topic}`: the message has {length} bytes, and at most {longest} fit")]
    TooLong {
        /// The name of the topic.
        topic: String,
        /// The length of the message, in bytes.
        length: usize,
        /// The longest one, in bytes.
        longest: usize,
    },
    /// The transport did not send it.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl Publisher {
    pub(crate) fn new(
        topic: &Topic,
        sender: Box<dyn Sender>,
        clock: SharedClock,
    ) -> Result<Self, TransportError> {
        let contract = topic.contract.as_ref();
        let regulator = contract.map(|contract| Regulator::new(contract, topic.longest));
        let regulator = regulator
            .transpose()
            .map_err(|fault| TransportError::Contract {
                topic: topic.name.clone(),
                fault,
            })?;
        Ok(Self {
            sender,
            clock,
            regulator,
            topic: topic.number(),
            name: topic.name.clone(),
            longest: topic.longest,
            // The keys of a `RandomState` are random, different in each process and for each call.
            source: RandomState::new().build_hasher().finish().max(1),
            sequence: 0,
            introduced: false,
        })
    }

    /// Publishes a message that begins a chain: its data is as old as the message.
    ///
    /// # Errors
    /// If it breaks the contract, is too long, or the transport fails; nothing was sent then.
    pub fn publish(&mut self, payload: &[u8]) -> Result<(), PublishError> {
        self.send(MessageKind::Data, 0, None, payload)
    }

    /// Publishes a message that was made of others: its data is as old as theirs.
    ///
    /// # Errors
    /// As for [`Publisher::publish`].
    pub fn publish_from(&mut self, origin: DataOrigin, payload: &[u8]) -> Result<(), PublishError> {
        self.send(MessageKind::Data, 0, Some(origin), payload)
    }

    /// Publishes the new value of the instance with a key, such as a person's number; with the origin of the data, if it
    /// was made of other messages.
    ///
    /// # Errors
    /// As for [`Publisher::publish`].
    pub fn publish_instance(
        &mut self,
        key: &[u8],
        origin: Option<DataOrigin>,
        payload: &[u8],
    ) -> Result<(), PublishError> {
        self.send(MessageKind::Data, instance_number(key), origin, payload)
    }

    /// Says that the instance with a key is gone.
    ///
    /// # Errors
    /// As for [`Publisher::publish`].
    pub fn dispose(&mut self, key: &[u8]) -> Result<(), PublishError> {
        self.send(MessageKind::Dispose, instance_number(key), None, &[])
    }

    /// Says that the publisher lives, where it has nothing else to say within its lease.
    ///
    /// # Errors
    /// If the transport fails.
    pub fn assert_liveliness(&mut self) -> Result<(), PublishError> {
        self.send_sign(MessageKind::Alive)
    }

    /// Sends whatever the program asks for, beyond the contract too: for tests of receivers.
    pub fn disregard_contract(&mut self) {
        self.regulator = None;
    }

    /// The number of the publisher in the headers of its messages.
    pub fn source(&self) -> u64 {
        self.source
    }

    /// The number of the next message.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    fn send(
        &mut self,
        kind: MessageKind,
        instance: u64,
        origin: Option<DataOrigin>,
        payload: &[u8],
    ) -> Result<(), PublishError> {
        self.check_length(payload)?;
        let now = self.clock.now();
        if let Some(regulator) = &mut self.regulator {
            let topic = &self.name;
            regulator
                .admit(now, payload.len())
                .map_err(|breach| PublishError::Contract {
                    topic: topic.clone(),
                    breach,
                })?;
        }
        let origin_time = origin.map_or(now, DataOrigin::time);
        let payload_length = self.payload_length(payload)?;
        let bytes = MessageHeader {
            origin_time,
            payload_length,
            ..self.header(kind, instance, now)
        };
        self.sender.send(&bytes.encode(), payload)?;
        self.sequence += 1;
        self.introduced = true;
        Ok(())
    }

    fn send_sign(&mut self, kind: MessageKind) -> Result<(), PublishError> {
        let now = self.clock.now();
        let bytes: [u8; HEADER_LENGTH] = self.header(kind, 0, now).encode();
        self.sender.send(&bytes, &[])?;
        self.introduced = true;
        Ok(())
    }

    fn header(&self, kind: MessageKind, instance: u64, now: Instant) -> MessageHeader {
        MessageHeader {
            kind,
            hops_left: HOPS,
            topic: self.topic,
            source: self.source,
            sequence: self.sequence,
            instance,
            source_time: now,
            origin_time: now,
            payload_length: 0,
        }
    }

    fn check_length(&self, payload: &[u8]) -> Result<(), PublishError> {
        match payload.len() > self.longest {
            true => Err(self.too_long(payload.len())),
            false => Ok(()),
        }
    }

    fn payload_length(&self, payload: &[u8]) -> Result<u32, PublishError> {
        u32::try_from(payload.len()).map_err(|_| self.too_long(payload.len()))
    }

    fn too_long(&self, length: usize) -> PublishError {
        PublishError::TooLong {
            topic: self.name.clone(),
            length,
            longest: self.longest,
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.introduced {
            // A farewell that does not arrive is what leases are for.
            let _ = self.send_sign(MessageKind::Farewell);
        }
    }
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Publisher")
            .field("topic", &self.name)
            .field("source", &self.source)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
