//! A model of how ZooKeeper servers agree on epochs, for every interleaving of three servers.
//!
//! The model follows ZAB 1.0 as ZooKeeper 3.9 has it (discovery, synchronisation, broadcast) and
//! differs in one thing: when the accepted and the current epoch of a server reach its disk
//! ([`Durability`]). The checker in `tests/exhaustive.rs` walks all states within [`Bounds`] and
//! looks for one that breaks an invariant ([`Violation`]).
//!
//! # What can go wrong in the model
//!
//! A process is killed (page cache and log survive), an operating system crashes or loses power
//! (only what was synced survives, or anything written since: syncs in the background are steps of
//! their own), all servers lose power together, the epoch file of one server is damaged, a message
//! is lost or late.
//!
//! Messages are not objects. A receiver's step reads what the sender would have sent, as long as the
//! sender is in the same term; acknowledgements count from the moment when they were sent. This
//! loses no behaviour: a connection ends with either end's term, so a message is received in its
//! sender's term or never; a receiver's step depends on its own state and the message only, so that a
//! late delivery commutes with all that others do in between; a lost message is a step that is never
//! taken, and an acknowledgement that is lost is a quorum that is never used.
//!
//! The log is synced before every acknowledgement, as upstream does; entries that were written but
//! not synced are a crash before or after the step. Which server stands for leader is left open:
//! safety must not depend on the election.

mod action;
mod durability;
mod ensemble;
mod history;
mod server;

pub use action::Action;
pub use durability::{Bounds, Durability};
pub use ensemble::{Ensemble, Violation};
pub use history::{History, MOST_TRANSACTIONS, Transaction, Zxid};
pub use server::{Doubt, Role, Server, Stage};
