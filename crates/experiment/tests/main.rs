//! Experiments without a host.
#![allow(clippy::unwrap_used)]

mod admission;
mod verdicts;
