//! Agents and the host from both ends of their links.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agent_conformance;
mod agent_empty_root;
mod agent_links;
mod agent_program;
mod agent_round_trip;
mod agent_tasks;
mod certificates;
mod remote_links;
mod rig;
mod session_properties;
mod stage;
mod transition;
mod vsock_links;
mod wire_properties;
