//! How long a ZooKeeper ensemble is without service after its leader fails.
//!
//! Equations 5.2 to 5.8 of Li, *Enabling Timing Guarantees* thesis, section 5.3, and their
//! counterpart for the complete-vote rule, which ends an election without a fixed wait. Two ways lead
//! to a bound: known parameters ([`Parameters`] and [`RecoveryProtocol::bound`]), or the smallest envelope of
//! that form over measured recoveries ([`Envelope`]). Both hold for a host that has CPUs for all threads of
//! the servers; [`CpuShare`] stretches them for a host where others run.

mod arithmetic;
mod bound;
mod busy_host;
mod envelope;

pub use bound::{Network, Parameters, RecoveryBound, RecoveryProtocol, shortest_wait};
pub use busy_host::{CpuShare, FairShare, ORDINARY_WEIGHT, ServerReservation};
pub use envelope::{Envelope, MeasuredPhase, election_messages};
