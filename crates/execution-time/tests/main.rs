//! The model of execution times from outside: platforms whose coefficients are known, and texts that are wrong.
#![allow(clippy::unwrap_used)]

mod platform;
mod texts;
