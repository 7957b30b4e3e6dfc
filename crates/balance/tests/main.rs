//! The table `[balance]`, the rule, and its simulation.

#![allow(clippy::unwrap_used)]

mod bad_tables;
mod level_scenarios;
mod rule;
mod simulation;
