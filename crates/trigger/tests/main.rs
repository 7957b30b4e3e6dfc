//! Triggers of programs, switched while they run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod c_programs;
mod own_triggers;
