//! One change of the kernel's state, and how it is undone.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_linux::scheduling::{RESET_ON_FORK, Scheduling, format_cpu_list};
use tailbound_linux::xen::{VcpuSetting, words_to_set};
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
        /// Whether it is a cgroup of v1, whose file of threads is `tasks`.
        #[serde(default)]
        legacy: bool,
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
    /// Set what Xen's RTDS gives a virtual CPU; undone by setting what it had.
    SetXenVcpu {
        /// The number of its Xen domain.
        domain: u32,
        /// Its number in the domain.
        vcpu: u32,
        /// What it gets.
        setting: VcpuSetting,
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

/// Fixed priorities above all domains and below the managers: those of agents.
const AGENT_PRIORITIES: std::ops::RangeInclusive<u8> = 91..=97;

impl SchedulingSetting {
    /// Whether a thread is scheduled as an agent: its domain's priority is not for it, so that it comes
    /// before what else runs there.
    pub fn is_of_agent(&self) -> bool {
        matches!(self, Self::Fifo { priority, .. } if AGENT_PRIORITIES.contains(priority))
    }
}

impl Change {
    /// The thread or process that it is about, if it is about one.
    pub fn subject(&self) -> Option<u32> {
        match self {
            Self::MoveProcess { pid, .. } => Some(*pid),
            Self::MoveThread { tid, .. }
            | Self::SetScheduling { tid, .. }
            | Self::SetAffinity { tid, .. } => Some(*tid),
            Self::MakeCgroup { .. } | Self::WriteFile { .. } | Self::SetXenVcpu { .. } => None,
        }
    }

    /// Whether both change the same thing, so that the one's effect hides the other's.
    pub fn same_object(&self, other: &Self) -> bool {
        use Change as C;
        match (self, other) {
            (C::MakeCgroup { directory: a }, C::MakeCgroup { directory: b }) => a == b,
            (
                C::WriteFile { file: a, value },
                C::WriteFile {
                    file: b,
                    value: other,
                },
            ) => {
                // Controllers are switched on one by one in one file.
                a == b && (!is_subtree_control(a) || value == other)
            }
            (
                C::MoveProcess {
                    pid: a,
                    directory: to,
                },
                C::MoveProcess {
                    pid: b,
                    directory: also_to,
                },
            ) => a == b && to == also_to,
            (
                C::MoveThread {
                    tid: a,
                    directory: to,
                    ..
                },
                C::MoveThread {
                    tid: b,
                    directory: also_to,
                    ..
                },
            ) => a == b && to == also_to,
            (C::SetScheduling { tid: a, .. }, C::SetScheduling { tid: b, .. }) => a == b,
            (C::SetAffinity { tid: a, .. }, C::SetAffinity { tid: b, .. }) => a == b,
            (
                C::SetXenVcpu {
                    domain: a, vcpu: i, ..
                },
                C::SetXenVcpu {
                    domain: b, vcpu: j, ..
                },
            ) => a == b && i == j,
            _ => false,
        }
    }
}

/// Whether the file switches the controllers of a cgroup's children.
pub(crate) fn is_subtree_control(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name == "cgroup.subtree_control")
}

/// In the words of a shell and of system calls: what one would type to do the same.
impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeCgroup { directory } => write!(out, "mkdir {}", directory.display()),
            Self::WriteFile { file, value } => write!(out, "echo {value} > {}", file.display()),
            Self::MoveProcess { pid, directory } => {
                write!(out, "echo {pid} > {}/cgroup.procs", directory.display())
            }
            Self::MoveThread {
                tid,
                directory,
                legacy,
            } => {
                let file = if *legacy { "tasks" } else { "cgroup.threads" };
                write!(out, "echo {tid} > {}/{file}", directory.display())
            }
            Self::SetScheduling { tid, setting } => write!(out, "sched_setattr({tid}, {setting})"),
            Self::SetAffinity { tid, cpus } => {
                let cpus = format_cpu_list(cpus.iter().map(|cpu| cpu.0));
                write!(out, "sched_setaffinity({tid}, {{{cpus}}})")
            }
            Self::SetXenVcpu {
                domain,
                vcpu,
                setting,
            } => write!(
                out,
                "xl {}",
                words_to_set(*domain, *vcpu, *setting).join(" ")
            ),
        }
    }
}

impl fmt::Display for SchedulingSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reset = |reset: bool| if reset { " flags=RESET_ON_FORK" } else { "" };
        match *self {
            Self::Other { nice } => write!(out, "{{policy=SCHED_OTHER nice={nice}}}"),
            Self::Batch { nice } => write!(out, "{{policy=SCHED_BATCH nice={nice}}}"),
            Self::Idle => write!(out, "{{policy=SCHED_IDLE}}"),
            Self::Fifo {
                priority,
                reset_on_fork,
            } => write!(
                out,
                "{{policy=SCHED_FIFO priority={priority}{}}}",
                reset(reset_on_fork)
            ),
            Self::RoundRobin {
                priority,
                reset_on_fork,
            } => write!(
                out,
                "{{policy=SCHED_RR priority={priority}{}}}",
                reset(reset_on_fork)
            ),
            Self::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            } => write!(
                out,
                "{{policy=SCHED_DEADLINE runtime={runtime_ns} deadline={deadline_ns} period={period_ns}{}}}",
                reset(flags & RESET_ON_FORK != 0)
            ),
        }
    }
}

impl From<Scheduling> for SchedulingSetting {
    fn from(setting: Scheduling) -> Self {
        match setting {
            Scheduling::Other { nice } => Self::Other { nice },
            Scheduling::Batch { nice } => Self::Batch { nice },
            Scheduling::Idle => Self::Idle,
            Scheduling::Fifo {
                priority,
                reset_on_fork,
            } => Self::Fifo {
                priority,
                reset_on_fork,
            },
            Scheduling::RoundRobin {
                priority,
                reset_on_fork,
            } => Self::RoundRobin {
                priority,
                reset_on_fork,
            },
            Scheduling::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            } => Self::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            },
        }
    }
}

impl From<SchedulingSetting> for Scheduling {
    fn from(setting: SchedulingSetting) -> Self {
        use SchedulingSetting as S;
        match setting {
            S::Other { nice } => Self::Other { nice },
            S::Batch { nice } => Self::Batch { nice },
            S::Idle => Self::Idle,
            S::Fifo {
                priority,
                reset_on_fork,
            } => Self::Fifo {
                priority,
                reset_on_fork,
            },
            S::RoundRobin {
                priority,
                reset_on_fork,
            } => Self::RoundRobin {
                priority,
                reset_on_fork,
            },
            S::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            } => Self::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            },
        }
    }
}
