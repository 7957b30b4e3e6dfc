//! The frames of the control socket: those of [`crate::frame`] with the magic bytes `TB`
//! and [`PROTOCOL_VERSION`].

use serde::Serialize;

use crate::frame;
pub use crate::frame::{FrameError, HEADER_BYTES, decode};

/// The version of the protocol: requests, answers and their meaning.
pub const PROTOCOL_VERSION: u16 = 2;
/// The bytes that begin every frame.
pub const MAGIC: [u8; 2] = *b"TB";
/// The longest payload that the daemon takes from a client, in bytes.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// The longest payload that a client takes from the daemon, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is said between daemon and clients, and between daemon and watchdog.
#[derive(Debug)]
pub enum ControlProtocol {}

impl frame::FrameProtocol for ControlProtocol {
    const MAGIC: [u8; 2] = MAGIC;
    const VERSION: u16 = PROTOCOL_VERSION;
    const NAME: &'static str = "control protocol";
    const REMEDY: &'static str = "use tailbound and tailboundd of one release";
}

/// Cuts what a control socket receives into the payloads of frames.
pub type ControlDecoder = frame::Decoder<ControlProtocol>;

/// The frame of `message`.
///
/// # Errors
/// [`FrameError::TooLong`] if its JSON is longer than `payload_max` bytes.
pub fn encode<T: Serialize>(message: &T, payload_max: usize) -> Result<Vec<u8>, FrameError> {
    frame::encode::<ControlProtocol, T>(message, payload_max)
}
