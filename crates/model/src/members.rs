//! Which processes and threads belong to a domain, as a description names them.

use std::path::Path;

use crate::description::{Domain, DomainKind};
use crate::interrupts::InterruptSource;
use crate::machine::Machine;

/// What a domain is made of on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members<'a> {
    /// Programs that a run starts: so many copies of the domain's command or built-in program.
    Started {
        /// The number of copies.
        instances: u32,
    },
    /// Processes that run already.
    Processes(&'a [u32]),
    /// The processes in the cgroup of a running container, relative to the cgroup v2 root.
    Cgroup(&'a Path),
    /// The processes in the cgroup of the unit of systemd that has this name.
    Unit(&'a str),
    /// The processes in the cgroup of the container that has this name or identifier.
    Container(&'a str),
    /// The processes in the cgroup of the container that has this label.
    ContainerLabel(&'a str),
    /// The processes in the cgroup of a container of the pod of Kubernetes that has this name.
    Pod(&'a str),
    /// The virtual CPUs of a virtual machine of this host.
    Machine(&'a Machine),
    /// The virtual CPUs of the Xen domain of this name.
    XenDomain(&'a str),
    /// The threads of the kernel that do the work of interrupts, and the interrupt lines.
    Interrupts(&'a InterruptSource),
    /// The description names nothing that runs on a host: the domain is only simulated.
    Simulated,
}

impl Domain {
    /// The members of this domain, which has the name `name`.
    pub fn members<'a>(&'a self, name: &'a str) -> Members<'a> {
        if let Some(source) = &self.interrupts {
            return Members::Interrupts(source);
        }
        if let Some(machine) = &self.machine {
            return Members::Machine(machine);
        }
        match self.kind {
            DomainKind::XenVm => Members::XenDomain(name),
            DomainKind::Container => {
                let cgroup = self.cgroup.as_deref().map(Members::Cgroup);
                let unit = || self.unit.as_deref().map(Members::Unit);
                let container = || self.container.as_deref().map(Members::Container);
                let label = || self.container_label.as_deref().map(Members::ContainerLabel);
                let pod = || self.pod.as_deref().map(Members::Pod);
                cgroup
                    .or_else(unit)
                    .or_else(container)
                    .or_else(label)
                    .or_else(pod)
                    .unwrap_or(Members::Simulated)
            }
            DomainKind::QemuVm | DomainKind::LibvirtVm => Members::Simulated,
            DomainKind::Process if !self.pids.is_empty() => Members::Processes(&self.pids),
            DomainKind::Process if self.command.is_empty() && self.builtin.is_none() => {
                Members::Simulated
            }
            DomainKind::Process => Members::Started {
                instances: self.instances,
            },
        }
    }
}
