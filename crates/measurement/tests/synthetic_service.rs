//! The load generator against the synthetic service.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod stage;
