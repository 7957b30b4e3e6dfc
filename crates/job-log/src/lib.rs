//! Jobs that programs carried out: when each was released, began and ended, which messages it read and which it published.
//!
//! A program writes one log a task ([`JobLog`]); logs of the tasks of a chain joined by the messages that went from one to
//! the next say how old the data at its end were ([`measure_chain`]). Bytes in, answers out: nothing here opens a file.

mod chain;
mod log;
#[cfg(test)]
mod tests;

pub use chain::{ChainLogError, ChainMeasurement, HopMeasurement, measure_chain};
pub use log::{JobLog, JobLogError, LoggedJob, MessageId, log_file_name};
