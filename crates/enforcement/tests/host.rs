//! Enforcement on this host. Each test has the host to itself, one after the other.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ds_freeze;
mod ds_freeze_domain;
mod escape;
mod rt_groups;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The host to oneself, among the tests of this program: they share a CPU.
fn alone() -> MutexGuard<'static, ()> {
    static HOST: Mutex<()> = Mutex::new(());
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}
