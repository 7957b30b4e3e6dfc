//! Topics of values instead of bytes: any type of serde, in the Common Data Representation of DDS.
//!
//! A payload begins with the four bytes by which DDS marks little-endian CDR, so that a bridge to DDS passes it on as it is.

use std::marker::PhantomData;

use byteorder::LittleEndian;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{DataOrigin, IncomingMessage, PublishError, Publisher, Subscriber, TransportError};

/// The mark of plain CDR in little-endian byte order. Source: RTPS 2.5, section 10.2, *CDR_LE*.
const ENCAPSULATION: [u8; 4] = [0, 1, 0, 0];

/// Publishes values of a type. The memory for their bytes is kept from value to value.
#[derive(Debug)]
pub struct TypedPublisher<T> {
    publisher: Publisher,
    bytes: Vec<u8>,
    values: PhantomData<fn(T)>,
}

/// Receives values of a type.
#[derive(Debug)]
pub struct TypedSubscriber<T> {
    subscriber: Subscriber,
    values: PhantomData<fn() -> T>,
}

/// A value, or bytes that are none.
pub type Decoded<T> = Result<T, CdrError>;

/// Why a value has no bytes, or bytes are no value.
#[derive(Debug, thiserror::Error)]
pub enum CdrError {
    /// The type has something that CDR does not, such as a map of unknown length.
    #[error("the value does not fit into CDR: {0}")]
    Encode(cdr_encoding::Error),
    /// The payload is of another type, or not in little-endian CDR.
    #[error("the payload is no value of the type: {reason}")]
    Decode {
        /// What does not fit.
        reason: String,
    },
    /// The bytes were not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl<T: Serialize> TypedPublisher<T> {
    /// Publishes values by a publisher of bytes.
    pub fn over(publisher: Publisher) -> Self {
        Self {
            publisher,
            bytes: Vec::new(),
            values: PhantomData,
        }
    }

    /// Publishes a value, with the origin of the data if it was made of other messages.
    ///
    /// # Errors
    /// If CDR cannot express the value, or as for [`Publisher::publish`].
    pub fn publish(&mut self, value: &T, origin: Option<DataOrigin>) -> Result<(), CdrError> {
        self.bytes.clear();
        self.bytes.extend_from_slice(&ENCAPSULATION);
        cdr_encoding::to_writer::<T, LittleEndian, _>(&mut self.bytes, value)
            .map_err(CdrError::Encode)?;
        match origin {
            Some(origin) => self.publisher.publish_from(origin, &self.bytes)?,
            None => self.publisher.publish(&self.bytes)?,
        }
        Ok(())
    }

    /// The publisher of bytes.
    pub fn publisher(&mut self) -> &mut Publisher {
        &mut self.publisher
    }
}

impl<T: DeserializeOwned> TypedSubscriber<T> {
    /// Receives values by a subscriber of bytes.
    pub fn over(subscriber: Subscriber) -> Self {
        Self {
            subscriber,
            values: PhantomData,
        }
    }

    /// Shows the next message to `visit`, with its value or why it has none; whether there was one. A message that disposes
    /// of an instance has no value.
    ///
    /// # Errors
    /// As for [`Subscriber::take`].
    pub fn take(
        &mut self,
        mut visit: impl FnMut(&IncomingMessage<'_>, Decoded<T>),
    ) -> Result<bool, TransportError> {
        self.subscriber
            .take(|message| visit(message, decode(message.payload)))
    }

    /// The subscriber of bytes, for waiting and for events.
    pub fn subscriber(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }
}

/// Reads a value from a payload.
///
/// # Errors
/// If the payload has another encoding, is of another type, or has bytes beyond the value.
fn decode<T: DeserializeOwned>(payload: &[u8]) -> Decoded<T> {
    let refused = |reason: String| CdrError::Decode { reason };
    let bytes = payload
        .strip_prefix(&ENCAPSULATION)
        .ok_or_else(|| refused("it does not begin as little-endian CDR".to_owned()))?;
    let (value, length) = cdr_encoding::from_bytes::<T, LittleEndian>(bytes)
        .map_err(|error| refused(error.to_string()))?;
    match length == bytes.len() {
        true => Ok(value),
        false => Err(refused(format!("{} bytes are left", bytes.len() - length))),
    }
}
