//! The kernel's state as enforcement sees it: a view to plan from, and the few ways to change it.
//!
//! [`crate::linux_kernel::LinuxKernel`] is the real one; that of the tests lives in memory.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use tailbound_linux::interrupts::InterruptParts;
use tailbound_linux::named_cgroup::NameError;
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::process::RunTimes;
use tailbound_linux::xen::{Vcpu, VcpuSetting, XenPool};
use tailbound_model::CpuSet;
use tailbound_time::Instant;

use crate::{CgroupName, SchedulingSetting};

/// Reads the kernel's state; changes nothing.
///
/// A process or thread that has gone yields an error of kind [`io::ErrorKind::NotFound`].
pub trait KernelView {
    /// Our own process.
    fn own_process(&self) -> u32;

    /// The time (CLOCK_MONOTONIC).
    fn now(&self) -> Instant;

    /// Names the present boot of the machine.
    ///
    /// # Errors
    /// If it cannot be read.
    fn boot(&self) -> io::Result<String>;

    /// The threads of process `pid`, in ascending order.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn threads_of(&self, pid: u32) -> io::Result<Vec<u32>>;

    /// The living children of process `pid`.
    ///
    /// # Errors
    /// If /proc cannot be read.
    fn children_of(&self, pid: u32) -> io::Result<Vec<u32>>;

    /// The parent of every process.
    ///
    /// # Errors
    /// If /proc cannot be read.
    fn parents(&self) -> io::Result<BTreeMap<u32, u32>>;

    /// The root of cgroup v2, if it is mounted.
    fn unified_root(&self) -> Option<PathBuf>;

    /// The process of thread `tid`.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn process_of(&self, tid: u32) -> io::Result<u32>;

    /// When thread `tid` started, in ticks since boot: tells it from a later one of the same
    /// number.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn started(&self, tid: u32) -> io::Result<u64>;

    /// When process `pid` started, as [`KernelView::started`]; but it lives for as long as any of
    /// its threads, even if the first one has exited.
    ///
    /// # Errors
    /// `NotFound` if all its threads have gone.
    fn process_started(&self, pid: u32) -> io::Result<u64>;

    /// The scheduling policy of thread `tid`.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn scheduling(&self, tid: u32) -> io::Result<SchedulingSetting>;

    /// What thread `tid` has had of CPUs since it started.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn run_times(&self, tid: u32) -> io::Result<RunTimes>;

    /// The CPUs that thread `tid` may run on.
    ///
    /// # Errors
    /// `NotFound` if it has gone.
    fn affinity(&self, tid: u32) -> io::Result<CpuSet>;

    /// The cgroup of thread `tid` in the hierarchy that holds the directory `like`.
    ///
    /// # Errors
    /// `NotFound` if it has gone, `InvalidInput` if `like` is in no hierarchy.
    fn cgroup_of(&self, tid: u32, like: &Path) -> io::Result<PathBuf>;

    /// The cgroup that belongs to a name now, absolute.
    ///
    /// # Errors
    /// The name is that of nothing that runs, or of several.
    fn named_cgroup(&self, name: &CgroupName) -> Result<PathBuf, NameError>;

    /// The parts of the kernel that work for a network device or an interrupt.
    ///
    /// # Errors
    /// `NotFound` if nothing has this name.
    fn interrupt_parts(&self, name: &str) -> io::Result<InterruptParts>;

    /// The processes in a cgroup, not those below it.
    ///
    /// # Errors
    /// `NotFound` if there is no such cgroup.
    fn processes_in(&self, cgroup: &Path) -> io::Result<Vec<u32>>;

    /// The threads in a cgroup, not those below it.
    ///
    /// # Errors
    /// `NotFound` if there is no such cgroup.
    fn threads_in(&self, cgroup: &Path) -> io::Result<Vec<u32>>;

    /// The cgroups right below a cgroup.
    ///
    /// # Errors
    /// `NotFound` if there is no such cgroup.
    fn cgroups_below(&self, cgroup: &Path) -> io::Result<Vec<PathBuf>>;

    /// Whether the service manager leaves the groups below a cgroup to its processes.
    fn is_delegated(&self, cgroup: &Path) -> bool;

    /// Whether the directory is there.
    fn has_directory(&self, directory: &Path) -> bool;

    /// The text of a control file, without the line end.
    ///
    /// # Errors
    /// What the kernel says.
    fn read_file(&self, file: &Path) -> io::Result<String>;

    /// The virtual CPUs under Xen's RTDS.
    ///
    /// # Errors
    /// This is no control domain of a Xen host, or what `xl` says.
    fn xen_vcpus(&self) -> io::Result<Vec<Vcpu>>;

    /// Xen's pools of CPUs.
    ///
    /// # Errors
    /// As [`KernelView::xen_vcpus`].
    fn xen_pools(&self) -> io::Result<Vec<XenPool>>;

    /// The names of the tables of nftables in a network namespace; `None` is that of this process.
    ///
    /// # Errors
    /// There is no such namespace, there are no nftables here, or what `nft` says.
    fn packet_tables(&self, network: Option<&NetworkPlace>) -> io::Result<Vec<String>>;

    /// The name of the network interface with an address in a network namespace.
    ///
    /// # Errors
    /// `NotFound` if there is none, or no such namespace.
    fn interface_with(
        &self,
        network: Option<&NetworkPlace>,
        address: Ipv4Addr,
    ) -> io::Result<String>;
}

/// Changes the kernel's state: one method per kind of [`crate::Change`].
pub trait KernelState: KernelView {
    /// Comes back at an instant, or later.
    fn wait_until(&mut self, at: Instant);

    /// Makes a cgroup.
    ///
    /// # Errors
    /// What the kernel says; `AlreadyExists` if it is there.
    fn make_cgroup(&mut self, directory: &Path) -> io::Result<()>;

    /// Removes an empty cgroup.
    ///
    /// # Errors
    /// What the kernel says; `ResourceBusy` if it has members or cgroups below it.
    fn remove_cgroup(&mut self, directory: &Path) -> io::Result<()>;

    /// Writes to a control file.
    ///
    /// # Errors
    /// What the kernel says.
    fn write_file(&mut self, file: &Path, value: &str) -> io::Result<()>;

    /// Moves a process with all its threads into a cgroup.
    ///
    /// # Errors
    /// What the kernel says.
    fn move_process(&mut self, pid: u32, directory: &Path) -> io::Result<()>;

    /// Moves one thread into a cgroup.
    ///
    /// # Errors
    /// What the kernel says.
    fn move_thread(&mut self, tid: u32, directory: &Path) -> io::Result<()>;

    /// Sets a thread's policy.
    ///
    /// # Errors
    /// What the kernel says.
    fn set_scheduling(&mut self, tid: u32, setting: SchedulingSetting) -> io::Result<()>;

    /// Sets the CPUs that a thread may run on.
    ///
    /// # Errors
    /// What the kernel says.
    fn set_affinity(&mut self, tid: u32, cpus: &CpuSet) -> io::Result<()>;

    /// Sets what Xen's RTDS gives a virtual CPU.
    ///
    /// # Errors
    /// `NotFound` if its domain has gone; otherwise what `xl` says.
    fn set_xen_vcpu(&mut self, domain: u32, vcpu: u32, setting: VcpuSetting) -> io::Result<()>;

    /// Makes a table of nftables in a network namespace, in place of one of the same name.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace; otherwise what `nft` says.
    fn make_packet_table(
        &mut self,
        network: Option<&NetworkPlace>,
        name: &str,
        commands: &[String],
    ) -> io::Result<()>;

    /// Removes a table of nftables from a network namespace.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, or no such namespace; otherwise what `nft` says.
    fn remove_packet_table(&mut self, network: Option<&NetworkPlace>, name: &str)
    -> io::Result<()>;
}
