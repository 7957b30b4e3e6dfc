//! Prediction bands against the exact solver, closed cases, and hosts of which everything is known.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod band;
