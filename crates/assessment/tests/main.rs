//! Prediction bands against the exact solver, closed cases, and hosts of which everything is known; and verdicts against
//! those of task sets and against simulations.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod band;
mod chain_predictions;
mod chains;
mod delays;
mod frame_sizing;
mod interference;
mod precedence;
