//! Every system call, cgroup, tracefs and perf access of Tailbound.
//!
//! The only crate with `unsafe` code, and the only one that knows paths under /sys and /proc.
#![allow(unsafe_code)]

/// What the kernel and our privileges allow on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostCapabilities {}
