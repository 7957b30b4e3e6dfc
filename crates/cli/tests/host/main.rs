//! What needs this host: commands under reservations, runs that go wrong, and deaths of ours.
//!
//! Every test has a state directory and so a daemon of its own, and has the host to itself among
//! the tests here. Those that enforce are skipped, loudly, without privilege.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod balance;
mod bench;
mod chains;
mod commands;
#[path = "../../../daemon/tests/container/mod.rs"]
mod container;
mod containerd;
mod containers;
mod deaths;
mod docker;
mod explain;
mod faults;
mod health;
mod isolation;
mod kernel_trace;
mod late_windows;
mod libvirt;
mod modes;
mod nri_plugin;
mod oci_hooks;
mod overheads;
mod ownership;
mod podman;
mod ports;
mod programs;
mod protocols;
mod samples;
mod systemd;
mod top;
mod topics;
mod trace_faults;
