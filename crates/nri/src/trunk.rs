//! Frames of the trunk: a connection's number, a length, and so many bytes of that connection's stream.

use crate::RuntimeProtocolError;

/// The bytes before the payload of a frame: number and length, each of 32 bits, the highest byte first.
const HEADER_BYTES: usize = 8;
/// The most bytes of a payload: the longest message of ttRPC with its header.
const PAYLOAD_BYTES_MAX: usize = 10 + (4 << 20);

/// `TrunkFrame` is a piece of the stream of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrunkFrame {
    /// The number of the connection.
    pub connection: u32,
    /// The piece.
    pub payload: Vec<u8>,
}

impl TrunkFrame {
    /// The bytes of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        bytes.extend(self.connection.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// `TrunkDecoder` cuts received bytes into frames.
#[derive(Debug, Default)]
pub(crate) struct TrunkDecoder {
    received: Vec<u8>,
}

impl TrunkDecoder {
    /// Takes received bytes in.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
    }

    /// The next frame that is complete.
    ///
    /// # Errors
    /// [`RuntimeProtocolError::LongFrame`].
    pub fn next_frame(&mut self) -> Result<Option<TrunkFrame>, RuntimeProtocolError> {
        let Some((connection, rest)) = big_endian(&self.received) else {
            return Ok(None);
        };
        let Some((length, rest)) = big_endian(rest) else {
            return Ok(None);
        };
        let bytes = length as usize;
        if bytes > PAYLOAD_BYTES_MAX {
            let limit = PAYLOAD_BYTES_MAX;
            return Err(RuntimeProtocolError::LongFrame { bytes, limit });
        }
        let Some(payload) = rest.get(..bytes) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.received.drain(..HEADER_BYTES + bytes);
        Ok(Some(TrunkFrame {
            connection,
            payload,
        }))
    }
}

/// A number of 32 bits, the highest byte first, and the bytes behind it; `None` where there are too few.
pub(crate) fn big_endian(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}
