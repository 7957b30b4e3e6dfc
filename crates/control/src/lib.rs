//! The control socket of the daemon, seen from outside: what is said over it, and the client that says it.
//!
//! Programs use [`Client`]: [`Client::connect_or_start`], then [`Client::apply`] with a [`Lease`].
//! Nothing here serves a request; that is the daemon's.
//!
//! - [`frame`]: messages on a stream of bytes, for every protocol of ours; [`control_frame`]: those of the
//!   control socket;
//! - [`protocol`]: requests and answers; [`subsystem_request`]: those that a subsystem brings with it;
//! - [`daemon_arguments`]: the command line of the daemon;
//! - [`launch`], [`standstill`], [`takeover`]: a daemon that is not there yet, or stands still;
//! - [`reservation_control`]: how reservations that are in force are changed, for whatever serves requests.

pub mod client;
pub mod control_frame;
pub mod daemon_arguments;
pub mod deadline;
pub mod frame;
pub mod launch;
pub mod origin;
pub mod presence;
pub mod protocol;
pub mod reservation_control;
mod service_unit;
pub mod standstill;
pub mod state_directory;
pub mod subsystem_request;
pub mod takeover;

pub use client::{Client, ClientError};
pub use launch::{LaunchError, StartOptions};
pub use origin::{EarlyEnding, EndReason, Origin, Peer};
pub use presence::Presence;
pub use protocol::{
    DaemonStatus, HeldBy, Lease, Refusal, RefusalKind, ReservationStatus, Selection, WatchdogStatus,
};
pub use reservation_control::{ReservationControl, SharedControl};
pub use standstill::Standstill;
pub use subsystem_request::SubsystemRequest;
