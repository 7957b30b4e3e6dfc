//! The daemon on this host. Each test has the host to itself, one after the other.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod container;
mod gate;
mod host_containers;
mod host_directories;
mod host_end_to_end;
mod host_full_disk;
mod host_machine;
mod host_modes;
mod host_partitions;
mod host_resumption;
mod host_standstill;
mod mode_conformance;
mod mode_contradictions;
mod mode_trace;
mod modes_stage;
mod stage;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The host to oneself, among the tests of this program: they share a CPU.
fn alone() -> MutexGuard<'static, ()> {
    static HOST: Mutex<()> = Mutex::new(());
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}
