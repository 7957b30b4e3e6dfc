//! Deterministic discrete-event simulation of services on reservation servers, of trees of
//! schedulers and reservations on one or several CPUs ([`hierarchy`]), of whole hosts from their
//! descriptions ([`host`]), and of soft jobs beside hard periodic tasks ([`aperiodic`]).
//!
//! Time is in whole nanoseconds, and what happens at one instant happens in a fixed order:
//! replenishments first, then completions, then releases (in the order of the sequence), then the
//! choice of what runs next. The same input yields the same output, bit for bit.

pub mod aperiodic;
mod engine;
pub mod generate;
pub mod hierarchy;
pub mod host;
mod simulation;
mod tally;
mod timers;
pub mod traces;
pub mod workload;

pub use engine::ENGINE;
pub use simulation::{
    JobRecord, ServiceSimulationQuery, Simulation, SimulationError, Stall, simulate,
    simulate_with_stalls,
};
pub use tailbound_model::{HostOverheads, HostTick};
pub use tally::{ResponseTimes, Tally};
