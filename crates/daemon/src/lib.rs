//! `tailboundd` owns what is enforced on a host. Programs talk to it by `tailbound_control`'s client.
//!
//! - [`leases`]: who answers for which reservation, a pure state machine;
//! - [`service`], [`connection`], [`daemon`]: answering requests, however clients behave;
//! - [`service_manager`], [`detachment`]: starting and ending as a service of systemd, or away from whoever needs it;
//! - [`subsystems`]: the list of what lives in the daemon beside reservations;
//! - [`guardian`], [`watch_channel`], [`watchdog`], [`watchdog_watch`], [`liveness`], [`stop_detector`]: the
//!   process that takes everything back if the daemon cannot, and what watches it.

pub mod connection;
mod control_listener;
pub mod daemon;
pub mod detachment;
pub mod guardian;
pub mod leases;
pub mod liveness;
pub mod metrics;
pub mod occupancy;
pub mod reservations;
pub mod service;
pub mod service_manager;
pub mod stop_detector;
pub mod subsystems;
pub mod watch_channel;
pub mod watchdog;
pub mod watchdog_watch;
mod xen_renewal;
