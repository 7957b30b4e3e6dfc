//! Enforcement without a kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_host;
