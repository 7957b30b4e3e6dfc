//! The command line without a daemon: what is printed, and what is written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod interface;
mod manual;
mod metrics;
mod oci_hook;
mod recordings;
mod routes;
mod sizing_stanza;
mod stopped_search;
mod sweep;
mod trace_locks;
mod trace_triggers;
