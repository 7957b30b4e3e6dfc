//! Enforcement without a kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ds_freeze_server;
mod fake_host;
