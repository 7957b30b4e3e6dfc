//! Traces in Perfetto's format, protocol buffers of `TracePacket`: the messages that we write, a writer of packets, and
//! a reader of them. Traces may be written one behind the other and are one trace then, if their sequences differ.

pub mod message;
mod reader;
mod writer;

pub use reader::{PacketReader, TraceError};
pub use writer::{Annotation, EventName, PacketEvent, PacketWriter};

/// The sequence of simulated schedules and of timelines.
pub const SIMULATED_SEQUENCE: u32 = 1;
/// The sequence of recordings.
pub const RECORDED_SEQUENCE: u32 = 2;
