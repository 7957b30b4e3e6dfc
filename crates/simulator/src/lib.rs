//! Deterministic discrete-event simulation of services on reservation servers.

pub mod workload;
