//! The simulation of a whole host: all its domains, with and without reservations, on all its CPUs.
//!
//! A description becomes a [`Layout`] of plans, one for each CPU or one for all, and each plan is
//! simulated on its own: under partitioned placement nothing that happens on one CPU matters on
//! another. What it takes in memory does not grow with the simulated time, unless each response time
//! is to be kept.

mod course;
mod guests;
mod interference;
mod layout;
mod load;
mod locks;
mod mapping;
mod messages;
mod order;
mod partitions;
mod placement;
mod problem;
mod promises;
mod result;
mod run;
mod soft;
mod stability;
mod subsystems;
mod supply;
mod users;

pub use course::{Kept, Nothing};
pub use interference::LaidInterference;
pub use layout::{LaidPlan, LaidReservation, LaidTask, Layout};
pub use mapping::{LONGEST, TURN, lay_out};
pub(crate) use order::rank;
pub use problem::HostError;
pub use promises::{SimulatedOutcome, SimulatedPromise, promises};
pub use result::{CpuResult, DomainResult, Growth, HostSimulation, JobTime, TaskResult};
pub use run::{HostQuery, MOST_EVENTS, MOST_WAITING, simulate_host, simulate_layout};
