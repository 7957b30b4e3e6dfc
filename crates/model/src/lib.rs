//! The one description of a system.
//!
//! A description names hosts, the domains on them, the services and tasks in the domains, what is
//! promised about them (SLOs), the modes the system can be in, and the experiment that puts the
//! promise to the test. Every verb of Tailbound reads this and nothing else.

pub mod description;
pub mod interface;

pub use description::*;
pub use interface::{
    Bandwidth, Cpu, CpuSet, PercentagePoints, Percentile, Priority, ReservationServer,
    ResourceInterface,
};
