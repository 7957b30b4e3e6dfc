//! The daemon without a kernel: its protocol, its leases and its clients.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ending_daemon;
mod fakes;
mod frame_properties;
mod hostile_clients;
mod lease_properties;
mod mode_tables;
mod revert_order;
