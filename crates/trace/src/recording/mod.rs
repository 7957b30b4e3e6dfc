//! The file of a recording: chunks, each with its length and a checksum, so that a file that ends
//! early, or is garbled in places, is read as far as it goes.

mod chunk;
mod contents;
mod error;
mod events;
mod file;
mod index;
mod merge;
mod pages;

pub use chunk::{ChunkKind, ChunkWriter};
pub use contents::{
    ClockError, RecordedConnection, RecordedDomain, RecordedInterface, RecordedLoad,
    RecordedProcess, RecordedSocket, RecordedThread, RecordingEnd, RecordingHeader, RequestRow,
    SamplerDelay, SocketSnapshot,
};
pub use error::KernelRecordingError;
pub use events::{EventStream, StreamLoss};
pub use file::{KernelRecording, LoadPlace, Requests};
pub use index::{ChunkIndex, ChunkPlace, PositionedBytes};
pub use merge::MergedEvents;
pub(crate) use pages::PageStream;

#[cfg(test)]
mod tests;
