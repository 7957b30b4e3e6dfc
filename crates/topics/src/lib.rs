//! The tables `[topics]`, `[chains]`, `[routes]` and `[ports]` of a description: which task publishes what for which tasks, how
//! old the data at the end of a chain may become, which tasks pass messages on, and which programs have ports.
//!
//! Topics join the own tasks of domains ([`tailbound_model::Task`]), named `DOMAIN/TASK`. The crate reads and checks the
//! tables; analysis, simulation and programs take them from it.

mod chain_check;
mod chain_links;
mod chains;
mod datagram_limit;
mod ports;
mod routes;
mod task_name;
mod topic_check;
mod topics;
mod traffic;

pub use chain_links::{ChainLink, PathFault, ReadRule};
pub use chains::{Chain, Chains};
pub use datagram_limit::{DatagramLimit, GuardedInterface, RateUnit, TokenBucket};
pub use ports::{PortDescription, PortForm, Ports};
pub use routes::{MessageForm, RouteDescription, Routes};
pub use task_name::TaskName;
pub use topics::{Delay, TopicDescription, TopicGuard, Topics, TransportKind};
pub use traffic::{Excess, Traffic};
