//! Recording the kernel's events into a file.
//!
//! A [`EventRecorder`] has two instances of tracefs: one with what all threads of the chosen CPUs do, one with the system
//! calls of the chosen processes alone, which would be too many of all. A thread takes the pages of both into
//! the file. Whoever samples the supply of CPUs meanwhile hands over the looks that came late, which nothing but the
//! kernel itself or a hypervisor brings about.

mod clock_check;
mod drain;
mod error;
mod event_cost;
mod inventory;
mod recorder;
mod setup;

pub use error::RecorderError;
pub use recorder::{EventRecorder, RecordedLocks, RecorderOptions};
