//! Resource interfaces: what a component of tasks asks of a CPU, what a reservation gives at
//! least, and the least reservation that suffices.
//!
//! One file per resource model, named by it; docs/concepts/interfaces.md has the derivations.

pub mod bounded_delay;
pub mod component;
pub mod demand;
pub mod explicit_deadline_search;
pub mod multiprocessor_periodic;
pub mod periodic_supply;
pub mod response_bound;
pub mod search;
pub mod supply;
pub(crate) mod test_points;
pub mod window_supply;

pub use bounded_delay::BoundedDelay;
pub use component::{ComponentVerdict, LocalScheduler, Shortage, first_shortage, schedulable};
pub use demand::Workload;
pub use explicit_deadline_search::least_explicit_deadline;
pub use multiprocessor_periodic::{MultiprocessorPeriodic, schedulable_global_edf};
pub use periodic_supply::PeriodicSupply;
pub use response_bound::ResponseBound;
pub use search::{InterfaceSearch, LeastInterface, ResourceModel};
pub use supply::{DedicatedCpu, SupplyBound};
pub use window_supply::WindowSupply;
