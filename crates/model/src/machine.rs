//! Virtual machines on a Linux host: which threads are their virtual CPUs, and what serves those.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::description::{Description, Domain};
use crate::interface::CpuSet;

/// A virtual machine that runs already, by one of the names under which the threads of its virtual
/// CPUs can be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The Unix socket of the machine's QMP monitor (kind `qemu-vm`): QEMU's `-qmp
    /// unix:PATH,server=on,wait=off`.
    #[serde(default)]
    pub qmp: Option<PathBuf>,
    /// The process of the machine, in place of `qmp` (kind `qemu-vm`), started with `-name
    /// NAME,debug-threads=on`: the names of its threads say which of them are virtual CPUs.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pid: Option<u32>,
    /// The name of the machine in libvirt (kind `libvirt-vm`); `virsh` is asked.
    #[serde(default)]
    pub name: Option<String>,
    /// The CPUs on which the emulator's other threads run, before all domains, so that a message
    /// reaches the guest while its virtual CPUs have no budget; the host's housekeeping CPUs if
    /// left out, or else those that no domain is reserved on.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub emulator_cpus: CpuSet,
}

/// The ways to reach an agent; each decides which programs can be the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgentLink {
    /// The agent connects to the host's Unix socket.
    Unix {},
    /// The agent opens a port of the guest; the host connects to the port's Unix socket.
    VirtioSerial {
        /// The socket: QEMU's `-chardev socket,path=PATH,server=on,wait=off`.
        path: PathBuf,
    },
    /// The agent connects from the guest with this context identifier to the host's vsock port.
    Vsock {
        /// QEMU's `-device vhost-vsock-pci,guest-cid=CID`.
        #[schemars(range(min = 3))]
        cid: u32,
    },
    /// The agent connects by TLS with a certificate that names its domain (`subjectAltName`).
    Tls {},
}

impl Default for AgentLink {
    fn default() -> Self {
        Self::Unix {}
    }
}

/// The addresses at which a host listens for agents beside its Unix socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentListeners {
    /// The address to which agents with certificates connect.
    #[serde(default)]
    pub tls: Option<TlsListener>,
    /// The vsock port that guests connect to.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub vsock_port: Option<u32>,
}

/// The address to which agents with certificates connect, and the certificates by which host and
/// agents know each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsListener {
    /// The address and the port, such as "192.0.2.1:7171".
    pub listen: String,
    /// The host's certificate, and those between this certificate and its authority; a PEM file.
    pub certificate: PathBuf,
    /// The private key of the certificate; a PEM file that the daemon's user alone may read.
    pub key: PathBuf,
    /// The certificates of the authority that vouches for agents; a PEM file.
    pub authority: PathBuf,
}

impl Description {
    /// Where the other threads of a virtual machine's emulator run: where the description says, or else
    /// on the host's housekeeping CPUs, or else on those that no domain is reserved on. Empty if there
    /// is no such CPU.
    pub fn emulator_cpus(&self, domain: &Domain) -> CpuSet {
        let named = domain.machine.iter().map(|machine| &machine.emulator_cpus);
        if let Some(named) = named.into_iter().find(|cpus| !cpus.is_empty()) {
            return named.clone();
        }
        let Some((name, host)) = self.host_of(domain) else {
            return CpuSet::new();
        };
        if !host.housekeeping.is_empty() {
            return host.housekeeping.clone();
        }
        let is_here = |other: &&Domain| self.host_of(other).is_some_and(|(at, _)| at == name);
        let reserved = self.domains.values().filter(is_here);
        let reserved = reserved.flat_map(|other| other.reservation.iter());
        let reserved: CpuSet = reserved.flat_map(|one| one.cpus.iter().copied()).collect();
        host.cpus.difference(&reserved).copied().collect()
    }
}
