//! Recorded events of the kernel and of programs, and what every request waited for.
//!
//! A [`KernelRecording`](recording::Recording) is the file that `tailbound trace record` writes: pages of the kernel's ring
//! buffers as they are, with what is needed to read them anywhere. Nothing here speaks to a kernel: bytes come in,
//! events and explanations go out, and memory does not grow with the length of the recording.

pub mod explain;
pub mod export;
pub mod kernel;
pub mod recording;
mod summary;
pub mod synthetic;

pub use summary::{CpuSummary, InterruptSummary, LockWaitSummary, RecordingSummary, ThreadSummary};
