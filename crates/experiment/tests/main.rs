//! Experiments without a host.
#![allow(clippy::unwrap_used)]

mod admission;
#[path = "../../sampling/tests/sampled_application.rs"]
mod sampled_application;
mod simulated_campaigns;
mod verdicts;
