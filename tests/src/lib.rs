//! The parts of the tests of the whole repository.
//!
//! Everything here runs in tests only, so a panic is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod binaries;
pub mod console;
pub mod figures;
pub mod host;
pub mod markdown;
pub mod measurements;
pub mod promises;
pub mod repository;
pub mod tidy;
