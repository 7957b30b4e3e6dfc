//! rt-app workloads: JSON in and out.
//!
//! rt-app (github.com/scheduler-tools/rt-app) plays threads that run, sleep and wait for timers.
//! A thread becomes a domain with the built-in synthetic service, and what it runs between two
//! waits becomes a periodic task.

mod export;
mod grammar;
mod import;
mod json;
mod log;
mod timeline;

pub use export::{NotExportable, export};
pub use import::{Imported, import};
