//! Calls of ttRPC: a header of ten bytes, and a request or response in protocol buffers.

use prost::Message;

use crate::RuntimeProtocolError;
use crate::trunk::big_endian;

/// The bytes of a header: length and stream of 32 bits each, a type and flags of eight.
const HEADER_BYTES: usize = 10;
/// The most bytes behind a header.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The types of messages.
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;

/// The codes of a status, as gRPC numbers them.
pub(crate) const OK: i32 = 0;
pub(crate) const INVALID_ARGUMENT: i32 = 3;
pub(crate) const FAILED_PRECONDITION: i32 = 9;
pub(crate) const UNIMPLEMENTED: i32 = 12;

/// A call of a method.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallRequest {
    /// The service, with its package.
    #[prost(string, tag = "1")]
    pub service: String,
    /// The method of the service.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The argument.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
}

/// The result of a call.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallResponse {
    /// How the call went; absent where it went well.
    #[prost(message, optional, tag = "1")]
    pub status: Option<CallStatus>,
    /// The result.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// How a call went (google.rpc.Status).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallStatus {
    /// The code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Why it is not `OK`.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// A message of ttRPC.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallMessage {
    /// A call, which wants a response on the same stream.
    Request {
        stream: u32,
        request: Result<CallRequest, String>,
    },
    /// A response to a call.
    Response {
        stream: u32,
        response: Result<CallResponse, String>,
    },
    /// Anything else: a piece of a longer stream, which no method of NRI has.
    Other,
}

/// The bytes of a request on a stream.
pub(crate) fn encode_request(stream: u32, request: &CallRequest) -> Vec<u8> {
    encode(stream, REQUEST, request)
}

/// The bytes of a response on a stream.
pub(crate) fn encode_response(stream: u32, response: &CallResponse) -> Vec<u8> {
    encode(stream, RESPONSE, response)
}

fn encode(stream: u32, kind: u8, message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(length.to_be_bytes());
    bytes.extend(stream.to_be_bytes());
    bytes.extend([kind, 0]);
    bytes.extend(body);
    bytes
}

/// `CallDecoder` cuts the stream of one connection into messages, which may come in several frames.
#[derive(Debug, Default)]
pub(crate) struct CallDecoder {
    received: Vec<u8>,
}

impl CallDecoder {
    /// Takes received bytes in.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
    }

    /// The next message that is complete.
    ///
    /// # Errors
    /// [`RuntimeProtocolError::LongMessage`].
    pub fn next_message(&mut self) -> Result<Option<CallMessage>, RuntimeProtocolError> {
        let Some((length, rest)) = big_endian(&self.received) else {
            return Ok(None);
        };
        let Some((stream, rest)) = big_endian(rest) else {
            return Ok(None);
        };
        let bytes = length as usize;
        if bytes > MESSAGE_BYTES_MAX {
            let limit = MESSAGE_BYTES_MAX;
            return Err(RuntimeProtocolError::LongMessage { bytes, limit });
        }
        let [kind, _flags, body @ ..] = rest else {
            return Ok(None);
        };
        let Some(body) = body.get(..bytes) else {
            return Ok(None);
        };
        let message = match *kind {
            REQUEST => CallMessage::Request {
                stream,
                request: CallRequest::decode(body).map_err(|error| error.to_string()),
            },
            RESPONSE => CallMessage::Response {
                stream,
                response: CallResponse::decode(body).map_err(|error| error.to_string()),
            },
            _ => CallMessage::Other,
        };
        self.received.drain(..HEADER_BYTES + bytes);
        Ok(Some(message))
    }
}
