//! Descriptions and other files that are read, with what their readers say of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arbitrary;
mod files;
mod fuzz;
mod golden;
mod kernel_trace;
mod mutation;
mod round_trip;
mod rt_app;
mod section;
