//! Deterministic discrete-event simulation of services on reservation servers.
//!
//! Time is in whole nanoseconds, and what happens at one instant happens in a fixed order:
//! replenishments first, then completions, then releases (in the order of the sequence), then the
//! choice of what runs next. The same input yields the same output, bit for bit.

mod server;
mod simulation;
pub mod workload;

pub use server::{ServerError, ServerState};
pub use simulation::{
    JobRecord, Simulation, SimulationError, SimulationQuery, fifo_response_times, simulate,
};
