//! One change of the kernel's state, and how it is undone.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::packet_tables::replacement;
use tailbound_linux::scheduling::{SchedulingSetting, format_cpu_list};
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
    /// Make a table of nftables, in place of one of the same name, which is one of ours that was left behind; undone by removing it.
    MakePacketTable {
        /// The name, in the family of IPv4 and IPv6.
        name: String,
        /// The network namespace, where it is not that of this process. The table ends with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<NetworkPlace>,
        /// The commands of `nft` that fill it.
        commands: Vec<String>,
    },
}

/// Fixed priorities above all domains and below the managers: those of agents.
const AGENT_PRIORITIES: std::ops::RangeInclusive<u8> = 91..=97;

/// Whether a thread is scheduled as an agent: its domain's priority is not for it, so that it comes
/// before what else runs there.
pub fn is_of_agent(setting: SchedulingSetting) -> bool {
    let SchedulingSetting::Fifo { priority, .. } = setting else {
        return false;
    };
    AGENT_PRIORITIES.contains(&priority)
}

impl Change {
    /// The thread or process that it is about, if it is about one.
    pub fn subject(&self) -> Option<u32> {
        match self {
            Self::MoveProcess { pid, .. } => Some(*pid),
            Self::MoveThread { tid, .. }
            | Self::SetScheduling { tid, .. }
            | Self::SetAffinity { tid, .. } => Some(*tid),
            Self::MakePacketTable {
                network: Some(NetworkPlace::OfProcess(pid)),
                ..
            } => Some(*pid),
            Self::MakeCgroup { .. }
            | Self::WriteFile { .. }
            | Self::SetXenVcpu { .. }
            | Self::MakePacketTable { .. } => None,
        }
    }

    /// Whether both change the same thing, so that the one's effect hides the other's.
    pub fn same_object(&self, other: &Self) -> bool {
        self.object() == other.object()
    }

    fn object(&self) -> Object<'_> {
        match self {
            Self::MakeCgroup { directory } => Object::Cgroup(directory),
            // Controllers are switched on one by one in one file.
            Self::WriteFile { file, value } => {
                Object::File(file, is_subtree_control(file).then_some(value))
            }
            Self::MoveProcess { pid, directory } => Object::ProcessIn(*pid, directory),
            Self::MoveThread { tid, directory, .. } => Object::ThreadIn(*tid, directory),
            Self::SetScheduling { tid, .. } => Object::Policy(*tid),
            Self::SetAffinity { tid, .. } => Object::Affinity(*tid),
            Self::SetXenVcpu { domain, vcpu, .. } => Object::XenVcpu(*domain, *vcpu),
            Self::MakePacketTable { name, network, .. } => {
                Object::PacketTable(network.as_ref(), name)
            }
        }
    }

    /// The change that makes a cgroup.
    pub(crate) fn mkdir(directory: &Path) -> Self {
        Self::MakeCgroup {
            directory: directory.to_owned(),
        }
    }

    /// The change that writes to a control file of a cgroup.
    pub(crate) fn write(directory: &Path, file: &str, value: impl Into<String>) -> Self {
        Self::WriteFile {
            file: directory.join(file),
            value: value.into(),
        }
    }
}

/// The thing that a change is about.
#[derive(PartialEq, Eq)]
enum Object<'a> {
    Cgroup(&'a Path),
    /// A file; or what is written to it, where each value is a thing of its own.
    File(&'a Path, Option<&'a String>),
    ProcessIn(u32, &'a Path),
    ThreadIn(u32, &'a Path),
    Policy(u32),
    Affinity(u32),
    XenVcpu(u32, u32),
    PacketTable(Option<&'a NetworkPlace>, &'a str),
}

/// CPUs as the kernel lists them.
pub(crate) fn cpu_list(cpus: &CpuSet) -> String {
    format_cpu_list(cpus.iter().map(|cpu| cpu.0))
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
                write!(out, "sched_setaffinity({tid}, {{{}}})", cpu_list(cpus))
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
            Self::MakePacketTable {
                name,
                network,
                commands,
            } => {
                let prefix = network.as_ref().map(NetworkPlace::prefix);
                let prefix = prefix.unwrap_or_default();
                let commands = replacement(name, commands).join("; ");
                write!(out, "{prefix}nft '{commands}'")
            }
        }
    }
}
