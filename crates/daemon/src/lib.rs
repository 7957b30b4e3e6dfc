//! `tailboundd` owns what is enforced on a host, and this is how to talk to it.
//!
//! Programs use [`Client`]: [`Client::connect_or_start`], then [`Client::apply`] with a [`Lease`].
//! The rest of the crate is the daemon itself:
//!
//! - [`frame`] and [`protocol`]: what is said over the control socket;
//! - [`leases`]: who answers for which reservation, a pure state machine;
//! - [`service`], [`connection`], [`daemon`]: answering requests, however clients behave;
//! - [`guardian`], [`watch_channel`], [`watchdog`], [`watchdog_watch`], [`stuck`], [`stop_detector`]: the
//!   process that takes everything back if the daemon cannot, and what watches it;
//! - [`standstill`], [`takeover`]: what a command finds, and does, where both stand still.

pub mod client;
pub mod connection;
pub mod daemon;
pub mod frame;
pub mod guardian;
pub mod launch;
pub mod leases;
pub mod log;
pub mod metrics;
pub mod modes;
pub mod occupancy;
pub mod origin;
pub mod protocol;
pub mod reservations;
pub mod service;
pub mod standstill;
pub mod state_directory;
pub mod stop_detector;
pub mod stuck;
pub mod takeover;
pub mod watch_channel;
pub mod watchdog;
pub mod watchdog_watch;
mod xen_renewal;

pub use client::{Client, ClientError};
pub use launch::{LaunchError, StartOptions};
pub use occupancy::Presence;
pub use origin::{EndReason, Ending, Origin, Peer};
pub use protocol::{
    DaemonStatus, HeldBy, Lease, ModesStatus, Refusal, RefusalKind, ReservationStatus,
    RunningDescription, Selection, WatchdogStatus,
};
pub use standstill::Standstill;
