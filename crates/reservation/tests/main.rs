//! The rules by hand, in virtual time, and against each other.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bursts;
mod metered_server;
mod two_forms;
