//! One change of the kernel's state, and how it is undone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_model::CpuSet;

/// A change of the kernel's state. Everything that Tailbound ever does to a host is one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// Make a cgroup directory; undone by moving its members up and removing it.
    MakeCgroup {
        /// The absolute directory.
        directory: PathBuf,
    },
    /// Write a value to a control file; undone by writing back what was read before.
    WriteFile {
        /// The absolute file.
        file: PathBuf,
        /// What is written.
        value: String,
    },
    /// Move a process into a cgroup; undone by moving it back to where it was.
    MoveProcess {
        /// The process.
        pid: u32,
        /// The absolute directory of the cgroup.
        directory: PathBuf,
    },
    /// Move one thread into a threaded cgroup; undone by moving it back.
    MoveThread {
        /// The thread.
        tid: u32,
        /// The absolute directory of the cgroup.
        directory: PathBuf,
    },
    /// Set a thread's scheduling policy; undone by setting the old one.
    SetScheduling {
        /// The thread.
        tid: u32,
        /// The new policy.
        setting: SchedulingSetting,
    },
    /// Set a thread's CPU affinity; undone by setting the old one.
    SetAffinity {
        /// The thread.
        tid: u32,
        /// The CPUs that it may run on.
        cpus: CpuSet,
    },
}

/// A scheduling policy with its parameters, in the kernel's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum SchedulingSetting {
    /// SCHED_OTHER.
    Other {
        /// The nice value, -20 to 19.
        nice: i8,
    },
    /// SCHED_BATCH.
    Batch {
        /// The nice value, -20 to 19.
        nice: i8,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// 1 to 99.
        priority: u8,
        /// Whether children start as SCHED_OTHER.
        reset_on_fork: bool,
    },
    /// SCHED_RR.
    RoundRobin {
        /// 1 to 99.
        priority: u8,
        /// Whether children start as SCHED_OTHER.
        reset_on_fork: bool,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// sched_runtime, in nanoseconds.
        runtime_ns: u64,
        /// sched_deadline, in nanoseconds.
        deadline_ns: u64,
        /// sched_period, in nanoseconds.
        period_ns: u64,
        /// SCHED_FLAG_RESET_ON_FORK and the other flags, as the kernel numbers them.
        flags: u64,
    },
}
