//! What a back end is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_analysis::interference::HostInterference;
use tailbound_linux::HostCapabilities;
use tailbound_linux::named_cgroup::NameError;
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_model::{
    BackendKind, BackendOptions, Cpu, CpuSet, ReceiveContext, ResourceInterface,
};
use tailbound_topics::DatagramLimit;

use crate::error::{AdmissionError, EnforcementError};
use crate::kernel::KernelView;
use crate::{Change, SchedulingSetting};

/// What a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Whole processes with all their threads and future children.
    Processes(Vec<u32>),
    /// Single threads, such as vCPUs.
    Threads(Vec<u32>),
    /// The virtual CPUs of a machine, as single threads; the emulator's other threads serve them.
    Machine(MachineThreads),
    /// Everything in a cgroup, relative to the cgroup v2 root, such as a running container's.
    Cgroup(PathBuf),
    /// Everything in the cgroup that belongs to a name, which may be another one later.
    NamedCgroup(NamedCgroup),
    /// The virtual CPUs of a Xen domain, by its name in `xl list`.
    XenDomain(String),
    /// The interrupt lines of a device, and the threads of the kernel that do its work.
    Interrupts(InterruptTarget),
    /// Datagrams to the subscribers of a domain.
    Topics(GuardedTopics),
}

/// What the kernel lets through of each topic to the subscribers of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedTopics {
    /// The limits, one of each topic.
    pub limits: Vec<DatagramLimit>,
    /// The network namespaces of the domain's programs; none where those have that of this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkPlace>,
}

/// The device or interrupt whose work a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptTarget {
    /// The name of the network device, or the number or name of the interrupt.
    pub source: String,
    /// The context of the receive work.
    pub receive: ReceiveContext,
    /// The threads of the kernel that did the work when they were last listed; none before the device was moved to threads.
    #[serde(default)]
    pub threads: Vec<u32>,
}

/// The threads of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineThreads {
    /// Those of its virtual CPUs, in their order.
    pub vcpus: Vec<u32>,
    /// The emulator's others. They deliver messages to the guest, so they come before all domains.
    pub emulator: Vec<u32>,
    /// Where those run.
    pub emulator_cpus: CpuSet,
}

/// A cgroup that a service manager or a container runtime has made for what it calls by a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCgroup {
    /// The name.
    pub name: CgroupName,
    /// The cgroup that belonged to the name when it was last asked, relative to the cgroup v2 root.
    pub cgroup: PathBuf,
}

impl NamedCgroup {
    /// The cgroup that belongs to `name` now.
    ///
    /// # Errors
    /// The name is that of nothing that runs, or of several.
    pub fn of(name: CgroupName, view: &dyn KernelView) -> Result<Self, NameError> {
        let directory = view.named_cgroup(&name)?;
        let root = view.unified_root().unwrap_or_default();
        let cgroup = directory.strip_prefix(root).unwrap_or(&directory);
        Ok(Self {
            name,
            cgroup: cgroup.to_owned(),
        })
    }
}

/// A name that the host gives to a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupName {
    /// The name of a unit of systemd.
    Unit(String),
    /// The name or identifier of a container.
    Container(String),
    /// The label of a container: `key=value`, or `key`.
    ContainerLabel(String),
    /// A container of a pod: `namespace/pod`, or `namespace/pod/container`.
    Pod(String),
}

impl CgroupName {
    /// The name itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Unit(name)
            | Self::Container(name)
            | Self::ContainerLabel(name)
            | Self::Pod(name) => name,
        }
    }

    /// The key under which a domain of a description has such a name.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Unit(_) => "unit",
            Self::Container(_) => "container",
            Self::ContainerLabel(_) => "container_label",
            Self::Pod(_) => "pod",
        }
    }
}

impl Target {
    /// The cgroup that it is, relative to the cgroup v2 root.
    pub fn cgroup(&self) -> Option<&Path> {
        match self {
            Self::Cgroup(cgroup) | Self::NamedCgroup(NamedCgroup { cgroup, .. }) => Some(cgroup),
            Self::Processes(_)
            | Self::Threads(_)
            | Self::Machine(_)
            | Self::XenDomain(_)
            | Self::Interrupts(_)
            | Self::Topics(_) => None,
        }
    }

    /// Single threads that it is for, if it is not for whole processes.
    pub fn single_threads(&self) -> Option<&[u32]> {
        match self {
            Self::Threads(tids) => Some(tids),
            Self::Machine(machine) => Some(&machine.vcpus),
            Self::Interrupts(interrupts) => Some(&interrupts.threads),
            Self::Topics(_) => Some(&[]),
            Self::Processes(_) | Self::Cgroup(_) | Self::NamedCgroup(_) | Self::XenDomain(_) => {
                None
            }
        }
    }
}

/// A reservation that someone asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRequest {
    /// The domain's name; unique among the active reservations.
    pub domain: String,
    /// What gets the CPU time.
    pub target: Target,
    /// How much it gets.
    pub interface: ResourceInterface,
    /// What enforces it.
    pub backend: BackendKind,
    /// What is set that only some back ends know.
    #[serde(default, skip_serializing_if = "BackendOptions::is_empty")]
    pub options: BackendOptions,
    /// Interference that the description names on the CPUs of the reservation. Admission takes it from the CPUs, whoever
    /// else has reservations there.
    #[serde(default, skip_serializing_if = "HostInterference::is_empty")]
    pub interference: HostInterference,
}

/// Something that a back end needs and the host lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRequirement {
    /// What is needed.
    pub needed: String,
    /// The state of the host in its place.
    #[serde(rename = "found")]
    pub state: String,
    /// What the user can do.
    pub remedy: String,
}

/// A thread of ours that enforces a budget while a reservation is active (`ds-freeze`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manager {
    /// The CPU that it serves and runs on.
    pub cpu: Cpu,
    /// The CPUs that share the budget with that one.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub other_cpus: CpuSet,
    /// The cgroup v2 directory (absolute) that it freezes and thaws.
    pub cgroup: PathBuf,
    /// Threads of the kernel, which cannot be frozen: in place of freezing, the manager takes their priority from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demoted: Vec<u32>,
}

impl Manager {
    /// A manager of a group on one CPU.
    pub fn of_one_cpu(cpu: Cpu, cgroup: PathBuf) -> Self {
        let other_cpus = CpuSet::new();
        Self {
            cpu,
            other_cpus,
            cgroup,
            demoted: Vec::new(),
        }
    }

    /// A manager of a group on all of these CPUs, of which it runs on the first; `None` if there are none.
    pub fn of_all(cpus: &CpuSet, cgroup: PathBuf) -> Option<Self> {
        let mut other_cpus = cpus.clone();
        let cpu = other_cpus.pop_first()?;
        Some(Self {
            cpu,
            other_cpus,
            cgroup,
            demoted: Vec::new(),
        })
    }

    /// The CPUs on which the group runs.
    pub fn cpus(&self) -> CpuSet {
        let others = self.other_cpus.iter().copied();
        others.chain([self.cpu]).collect()
    }
}

/// Everything that a reservation changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The request that it serves.
    pub request: ReservationRequest,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The managers that run after the changes are made.
    pub managers: Vec<Manager>,
    /// Our words in the kernel's: such as `budget 4ms -> sched_runtime 4000000`.
    pub mapping: Vec<String>,
    /// What threads that the domain starts later come with.
    pub inheritance: Inheritance,
}

impl Plan {
    /// The plan line by line, in the words of a shell and of system calls.
    pub fn dry_run(&self) -> Vec<String> {
        let request = &self.request;
        let mut lines = vec![format!("# domain {}: {}", request.domain, request.backend)];
        lines.extend(self.mapping.iter().map(|line| format!("# {line}")));
        lines.extend(self.changes.iter().map(Change::to_string));
        lines.extend(self.managers.iter().map(|manager| {
            let does = match manager.demoted.is_empty() {
                true => "freezes and thaws",
                false => "takes and gives the priority of the threads in",
            };
            let cgroup = manager.cgroup.display();
            format!(
                "# then a manager thread on CPU {} {does} {cgroup}",
                manager.cpu
            )
        }));
        lines
    }
}

/// What threads and processes that a domain starts after its plan was carried out come with, and
/// where to find them: they are put back like the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inheritance {
    /// The domain's processes; their threads and descendants belong to it.
    pub pids: Vec<u32>,
    /// Cgroups all of whose members belong to the domain.
    pub cgroups: Vec<PathBuf>,
    /// The policy that they inherit.
    pub scheduling: Option<SchedulingSetting>,
    /// The affinity that they inherit.
    pub affinity: Option<CpuSet>,
}

/// Where a reservation is planned.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// What the host can do.
    pub host: &'a HostCapabilities,
    /// The state of its kernel, which is only read.
    pub view: &'a dyn KernelView,
}

/// A way to make the kernel give a domain its CPU time.
///
/// Back ends plan and declare; they never touch the kernel themselves. `host` is what was probed,
/// or what a test says there is.
pub trait Backend: Send + Sync {
    /// Which one this is.
    fn kind(&self) -> BackendKind;

    /// What it needs and `host` lacks; empty if it works here.
    fn missing(&self, _host: &HostCapabilities) -> Vec<MissingRequirement> {
        Vec::new()
    }

    /// What it needs for a request, its options included, and `host` lacks.
    fn missing_for(
        &self,
        _request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Vec<MissingRequirement> {
        self.missing(host)
    }

    /// Whether budget and period are such that it can enforce them on `host`.
    ///
    /// # Errors
    /// What is out of range and what would be in it.
    fn check_interface(
        &self,
        _request: &ReservationRequest,
        _host: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        Ok(())
    }

    /// What would be changed on `site` to serve `request`.
    ///
    /// # Errors
    /// If the target has gone or is of a kind that it cannot take, or the kernel's state cannot be
    /// read.
    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError>;

    /// What would be changed to give a reservation that stands by these changes another budget and to leave all else,
    /// without a look at its members; none if that takes one.
    ///
    /// # Errors
    /// If the budget is none of this back end.
    fn plan_budget(
        &self,
        _request: &ReservationRequest,
        _inheritance: &Inheritance,
        _standing: &[&Change],
    ) -> Result<Option<Plan>, EnforcementError> {
        Ok(None)
    }
}
