//! Locks of a program while it runs: how many critical sections there are, how deep they nest, how long they last,
//! and which ones keep others waiting.
//!
//! [`PRELOADED_LIBRARY`] records the locks of POSIX threads of a program that is started with it; [`LockStudy`] takes
//! the events one by one, and [`MappedModules`] says where in which file a lock was taken. The study is that of
//! Brandenburg and Anderson (Feather-Trace, OSPERT 2007, section 3), with the same definitions: the nesting depth of an
//! acquisition is the number of locks that its thread already holds, a critical section begins when the lock is held
//! and ends just before it is given up, and sections of which an end is missing are left out.
//!
//! [`KernelLockReader`] makes the same
//! events of a recording of the kernel. [`LockRecordingWriter`] keeps the events for later, and [`LockRecording`] reads them. Nothing here opens a file: the
//! command line starts the program and reads its recording.

mod events;
mod kernel_locks;
mod loss_marks;
mod mapped_modules;
mod recording;
mod study;

pub use events::{LockEvent, LockEventReader, LockOperation};
pub use kernel_locks::KernelLockReader;
pub use mapped_modules::{MappedModules, ModulePlace};
pub use recording::{LockRecording, LockRecordingEnd, LockRecordingHeader, LockRecordingWriter};
pub use study::{HoldTimes, KindSummary, LockStudy, LockSummary, LockTally, ProcessAddress};
pub use tailbound_trace::kernel::LockKind;

/// The library that programs are started with (LD_PRELOAD), as the file is.
pub const PRELOADED_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/locks.so"));
/// The variable of the environment that names the recording.
pub const RECORDING_VARIABLE: &str = "TAILBOUND_LOCK_TRACE";
/// The variable that names the beginning of the paths of the copies of each process's mappings; its number follows.
pub const MAPPINGS_VARIABLE: &str = "TAILBOUND_LOCK_TRACE_MAPS";
