//! The tables `[topics]` and `[chains]` of a description: which task publishes what for which tasks, and how old the data at
//! the end of a chain may become.
//!
//! Topics join the own tasks of domains ([`tailbound_model::Task`]), named `DOMAIN/TASK`. The crate reads and checks the
//! tables; analysis, simulation and programs take them from it.

mod chains;
mod topics;

pub use chains::{Chain, Chains};
pub use topics::{Delay, TopicDescription, Topics, TransportKind};
