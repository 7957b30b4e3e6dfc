//! Frames on a stream of bytes: a header of eight bytes, then JSON.
//!
//! ```text
//! 0       2  4        8
//! magic   | version | length | payload: `length` bytes of JSON in UTF-8
//! 2 bytes   u16 BE    u32 BE
//! ```
//!
//! The magic bytes tell a stray peer from ours at its first frame, and the version is read before
//! any JSON is, so that a peer of another version gets an answer that it can understand. The
//! daemon's control socket and the wire of the mode managers have the same frames, each with magic
//! bytes and a version of its own.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long the header is, in bytes.
pub const HEADER_BYTES: usize = 8;

/// What tells the frames of one protocol from those of others.
pub trait FrameProtocol {
    /// The bytes that begin every frame.
    const MAGIC: [u8; 2];
    /// The version of the messages and their meaning.
    const VERSION: u16;
    /// What the protocol is called in messages to people.
    const NAME: &'static str;
    /// What a person does where the peer speaks another version.
    const REMEDY: &'static str;
}

/// Why bytes are no frame, or a value cannot become one. After any of these the connection is of
/// no more use: where the next frame would start is unknown.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are not ours.
    #[error("this is no frame of the {protocol}: it starts with {magic:02x?} where \"{}\" should stand", Magic(*.expected))]
    NotOurs {
        /// What stands where the magic bytes should.
        magic: [u8; 2],
        /// The magic bytes.
        expected: [u8; 2],
        /// The protocol that was expected.
        protocol: &'static str,
    },
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {version} of the {protocol}, this end version {expected}; {remedy}"
    )]
    Version {
        /// The version of the peer.
        version: u16,
        /// Our version.
        expected: u16,
        /// The protocol that was expected.
        protocol: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The payload is longer than allowed.
    #[error("a frame of {bytes} bytes is too long; at most {max} are taken")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// The payload is not the JSON that was expected.
    #[error("the frame holds no valid message: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Magic bytes as people read them.
struct Magic([u8; 2]);

impl fmt::Display for Magic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.escape_ascii())
    }
}

fn not_ours<P: FrameProtocol>(magic: [u8; 2]) -> FrameError {
    FrameError::NotOurs {
        magic,
        expected: P::MAGIC,
        protocol: P::NAME,
    }
}

/// Cuts a stream of bytes into the payloads of frames, however the bytes come apart.
#[derive(Debug)]
pub struct Decoder<P> {
    buffer: Vec<u8>,
    payload_max: usize,
    protocol: PhantomData<P>,
}

impl<P: FrameProtocol> Decoder<P> {
    /// A decoder that takes payloads of at most `payload_max` bytes.
    pub fn new(payload_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            payload_max,
            protocol: PhantomData,
        }
    }

    /// Takes in `bytes` as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Forgets what was received: the next byte is the first one of another connection.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// Whether part of a frame is here and the rest is not.
    pub fn is_within_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The payload of the next whole frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// As soon as the header shows that no valid frame can follow.
    pub fn next_payload(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else {
            return self.reject_wrong_start();
        };
        let [m0, m1, v0, v1, length @ ..] = *header;
        if [m0, m1] != P::MAGIC {
            return Err(not_ours::<P>([m0, m1]));
        }
        let version = u16::from_be_bytes([v0, v1]);
        if version != P::VERSION {
            return Err(FrameError::Version {
                version,
                expected: P::VERSION,
                protocol: P::NAME,
                remedy: P::REMEDY,
            });
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > self.payload_max {
            return Err(FrameError::TooLong {
                bytes: length,
                max: self.payload_max,
            });
        }
        let end = HEADER_BYTES + length;
        let Some(payload) = self.buffer.get(HEADER_BYTES..end) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.buffer.drain(..end);
        Ok(Some(payload))
    }

    /// A header cut short is rejected as soon as its first bytes are wrong, so that a peer that
    /// speaks something else is not waited for.
    fn reject_wrong_start(&self) -> Result<Option<Vec<u8>>, FrameError> {
        match *self.buffer.as_slice() {
            [m0, m1, ..] if [m0, m1] != P::MAGIC => Err(not_ours::<P>([m0, m1])),
            [m0] if m0 != P::MAGIC[0] => Err(not_ours::<P>([m0, 0])),
            _ => Ok(None),
        }
    }
}

/// The frame of `message` in protocol `P`.
///
/// # Errors
/// [`FrameError::TooLong`] if its JSON is longer than `payload_max` bytes.
pub fn encode<P: FrameProtocol, T: Serialize>(
    message: &T,
    payload_max: usize,
) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(128);
    frame.extend_from_slice(&P::MAGIC);
    frame.extend_from_slice(&P::VERSION.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut frame, message)?;
    let bytes = frame.len() - HEADER_BYTES;
    let length = u32::try_from(bytes)
        .ok()
        .filter(|_| bytes <= payload_max)
        .ok_or(FrameError::TooLong {
            bytes,
            max: payload_max,
        })?;
    frame[4..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// The message in `payload`.
///
/// # Errors
/// [`FrameError::Malformed`] if it is not that message in JSON.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    Ok(serde_json::from_slice(payload)?)
}
