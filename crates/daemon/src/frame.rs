//! The frames of the control socket: a header of eight bytes, then JSON.
//!
//! ```text
//! 0  2  4        8
//! "TB" | version | length | payload: `length` bytes of JSON in UTF-8
//!        u16 BE    u32 BE
//! ```
//!
//! The magic bytes tell a stray client from ours at its first frame, and the version is read before
//! any JSON is, so that a peer of another version gets an answer that it can understand.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the protocol: requests, answers and their meaning.
pub const PROTOCOL_VERSION: u16 = 1;
/// The bytes that begin every frame.
pub const MAGIC: [u8; 2] = *b"TB";
/// How long the header is, in bytes.
pub const HEADER_BYTES: usize = 8;
/// The longest payload that the daemon takes from a client, in bytes.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// The longest payload that a client takes from the daemon, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why bytes are no frame, or a value cannot become one. After any of these the connection is of
/// no more use: where the next frame would start is unknown.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are not ours.
    #[error("this is no Tailbound frame: it starts with {found:02x?} where \"TB\" should stand")]
    NotOurs {
        /// What stands where the magic bytes should.
        found: [u8; 2],
    },
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {found} of the control protocol, this end version \
         {PROTOCOL_VERSION}; use tailbound and tailboundd of one release"
    )]
    Version {
        /// The version of the peer.
        found: u16,
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

/// Cuts a stream of bytes into the payloads of frames, however the bytes come apart.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    payload_max: usize,
}

impl Decoder {
    /// A decoder that takes payloads of at most `payload_max` bytes.
    pub fn new(payload_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            payload_max,
        }
    }

    /// Takes in `bytes` as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
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
        if [m0, m1] != MAGIC {
            return Err(FrameError::NotOurs { found: [m0, m1] });
        }
        let version = u16::from_be_bytes([v0, v1]);
        if version != PROTOCOL_VERSION {
            return Err(FrameError::Version { found: version });
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

    /// A header cut short is rejected as soon as its first bytes are wrong, so that a client that
    /// speaks something else is not waited for.
    fn reject_wrong_start(&self) -> Result<Option<Vec<u8>>, FrameError> {
        match *self.buffer.as_slice() {
            [m0, m1, ..] if [m0, m1] != MAGIC => Err(FrameError::NotOurs { found: [m0, m1] }),
            [m0] if m0 != MAGIC[0] => Err(FrameError::NotOurs { found: [m0, 0] }),
            _ => Ok(None),
        }
    }
}

/// The frame of `message`.
///
/// # Errors
/// [`FrameError::TooLong`] if its JSON is longer than `payload_max` bytes.
pub fn encode<T: Serialize>(message: &T, payload_max: usize) -> Result<Vec<u8>, FrameError> {
    let payload = serde_json::to_vec(message)?;
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|_| payload.len() <= payload_max)
        .ok_or(FrameError::TooLong {
            bytes: payload.len(),
            max: payload_max,
        })?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&payload);
    Ok(frame)
}

/// The message in `payload`.
///
/// # Errors
/// [`FrameError::Malformed`] if it is not that message in JSON.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    Ok(serde_json::from_slice(payload)?)
}
