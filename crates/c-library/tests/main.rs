//! Programs in C and C++ against the library: what the headers say, messages from and to Rust, what is refused.
#![allow(clippy::unwrap_used)]

mod headers;
mod ports;
mod programs;
mod service_level;
mod topics;
