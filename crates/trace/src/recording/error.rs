//! Why a recording cannot be read or written.

use std::io;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KernelRecordingError {
    /// The bytes do not begin as a recording does.
    #[error(
        "this is no recording of tailbound: it does not begin with \"{expected}\"; record one with `tailbound trace record`"
    )]
    NotARecording {
        /// The text that it would begin with.
        expected: &'static str,
    },
    /// A version of the format that is not read here.
    #[error(
        "the recording has version {version} of the format, and this program reads version {ours}; read it with the program that recorded it"
    )]
    Version {
        /// Its version.
        version: u32,
        /// Ours.
        ours: u32,
    },
    /// Nothing says what was recorded.
    #[error(
        "the recording has no readable header: it is cut short before it, or garbled; record again"
    )]
    NoHeader,
    /// A recording of locks where one of the kernel's events is needed.
    #[error("this is a recording of locks; print it with `tailbound trace locks FILE`")]
    Locks,
    /// A recording without locks where one of locks is needed.
    #[error(
        "this is no recording of locks; record one with `tailbound trace locks -o FILE -- COMMAND`, or of the kernel's \
         locks with `tailbound trace record --kernel-locks`"
    )]
    NoLocks,
    /// A chunk whose content is not what its kind says.
    #[error("byte {offset} of the recording: {what}")]
    Content {
        /// Where the chunk begins.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// The source or the destination.
    #[error(transparent)]
    Io(#[from] io::Error),
}
