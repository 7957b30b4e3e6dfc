//! Recordings in formats of other tools. Every writer goes over the recording from its beginning to its end, and keeps
//! no events.

mod csv;
mod ctf;
mod error;
mod fields;
mod perfetto;
mod program_events;
mod thread_names;
mod trace_dat;

#[cfg(test)]
mod tests;

pub use csv::write_csv;
pub use ctf::write_ctf;
pub use error::ExportError;
pub use perfetto::{SimulatedTraces, write_perfetto};
pub use program_events::{ProgramEvent, ProgramEvents};
pub use trace_dat::write_trace_dat;
