//! Distributions from outside: what holds of all of them, and their files.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod coverage;
mod formats;
mod properties;
