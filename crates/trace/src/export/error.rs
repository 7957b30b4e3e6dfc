//! Why a recording cannot be exported.

use std::io;

use crate::kernel::LayoutError;
use crate::recording::KernelRecordingError;

/// Why a recording cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error("the recording cannot be read: {0}")]
    KernelRecording(#[from] KernelRecordingError),
    /// The header of the recording has a format of events that is none.
    #[error("the recording's header is garbled: {0}")]
    Layout(#[from] LayoutError),
    /// A file that is no simulated schedule.
    #[error(
        "{name} is no schedule that `tailbound simulate --export-schedule` wrote (HOST.cpuN.perfetto-trace): {what}"
    )]
    Simulated {
        /// The file.
        name: String,
        /// The fault.
        what: String,
    },
    /// The destination.
    #[error("the export cannot be written: {0}")]
    Write(#[from] io::Error),
}
