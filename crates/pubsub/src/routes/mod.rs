//! The routing service: messages of a topic, passed on to a topic of another data space.
//!
//! A router reads headers and never payloads, so it passes on data of types that it does not know. Source, sequence,
//! instance and time stamps go on as they came, and so do signs of life, farewells and the end of an instance. Each route
//! has a thread, a bounded queue (the history of the topic that it reads) and, where one is stated, a contract. The table of routes is checked
//! before it is used ([`RouteTable`]); it can be replaced without losing a message of a route that stays ([`Router::replace`]).

mod passage;
mod route_table;
mod router;
#[cfg(test)]
mod router_tests;
#[cfg(test)]
mod tests;

pub use passage::{Passage, PassageCounters, PassageRefusal, PassageVerdict};
pub use route_table::{RouteEnd, RouteError, RouteForm, RouteTable, TopicRoute};
pub use router::{PassageObserver, RouteStatus, Router, RouterError};
