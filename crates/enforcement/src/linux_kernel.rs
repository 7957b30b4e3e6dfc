//! The kernel that we run on.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread::sleep;

use tailbound_linux::cgroup::{self, Hierarchy};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::interrupts::InterruptParts;
use tailbound_linux::named_cgroup::{self, NameError};
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::process::RunTimes;
use tailbound_linux::xen::{Vcpu, VcpuSetting, XenPool};
use tailbound_linux::{interrupts, packet_tables, process, scheduling, xen};
use tailbound_model::{Cpu, CpuSet};
use tailbound_time::{Clock, Instant};

use crate::backends::deadline;
use crate::kernel::{KernelState, KernelView};
use crate::{CgroupName, SchedulingSetting};

/// How often, and how long apart, what the kernel refuses only for a moment is tried again.
const RETRIES: u32 = 60;
const RETRY_GAP: std::time::Duration = std::time::Duration::from_millis(5);

/// So many refusals of a thread for want of SCHED_DEADLINE bandwidth pass, and then the kernel counts it anew.
const REFUSALS_BEFORE_REBUILD: u32 = 20;

/// The kernel that we run on.
#[derive(Clone, Debug)]
pub struct LinuxKernel {
    hierarchies: Vec<Hierarchy>,
}

impl LinuxKernel {
    /// The kernel, with the cgroup hierarchies that are mounted now.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            hierarchies: cgroup::hierarchies()?,
        })
    }
}

impl KernelView for LinuxKernel {
    fn own_process(&self) -> u32 {
        std::process::id()
    }

    fn now(&self) -> Instant {
        Monotonic.now()
    }

    fn boot(&self) -> io::Result<String> {
        process::boot_id()
    }

    fn threads_of(&self, pid: u32) -> io::Result<Vec<u32>> {
        process::threads_of(pid)
    }

    fn children_of(&self, pid: u32) -> io::Result<Vec<u32>> {
        process::children_of(pid)
    }

    fn parents(&self) -> io::Result<BTreeMap<u32, u32>> {
        process::parents()
    }

    fn unified_root(&self) -> Option<PathBuf> {
        let unified = self.hierarchies.iter().find(|one| one.unified);
        unified.map(|hierarchy| hierarchy.root.clone())
    }

    fn process_of(&self, tid: u32) -> io::Result<u32> {
        process::process_of(tid)
    }

    fn started(&self, tid: u32) -> io::Result<u64> {
        process::started(tid)
    }

    fn process_started(&self, pid: u32) -> io::Result<u64> {
        process::process_started(pid)
    }

    fn scheduling(&self, tid: u32) -> io::Result<SchedulingSetting> {
        scheduling::scheduling_of(tid)
    }

    fn run_times(&self, tid: u32) -> io::Result<RunTimes> {
        process::run_times(tid)
    }

    fn affinity(&self, tid: u32) -> io::Result<CpuSet> {
        Ok(scheduling::affinity_of(tid)?.into_iter().map(Cpu).collect())
    }

    fn cgroup_of(&self, tid: u32, like: &Path) -> io::Result<PathBuf> {
        // Of nested mounts, the innermost one holds the directory.
        let holding = self.hierarchies.iter().filter(|h| h.holds(like));
        let hierarchy = holding.max_by_key(|h| h.root.as_os_str().len());
        let hierarchy = hierarchy.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is in no cgroup hierarchy", like.display()),
            )
        })?;
        hierarchy.cgroup_of(tid)
    }

    fn named_cgroup(&self, name: &CgroupName) -> Result<PathBuf, NameError> {
        let Some(hierarchy) = self.hierarchies.iter().find(|one| one.unified) else {
            return Err(NameError::without_hierarchy(name.key(), name.text()));
        };
        let host = Path::new("/");
        match name {
            CgroupName::Unit(unit) => named_cgroup::unit(hierarchy, unit),
            CgroupName::Container(name) => named_cgroup::container(hierarchy, host, name),
            CgroupName::ContainerLabel(label) => {
                named_cgroup::labelled_container(hierarchy, host, label)
            }
            CgroupName::Pod(pod) => named_cgroup::pod(hierarchy, host, pod),
        }
    }

    fn interrupt_parts(&self, name: &str) -> io::Result<InterruptParts> {
        InterruptParts::of(name)
    }

    fn processes_in(&self, cgroup: &Path) -> io::Result<Vec<u32>> {
        cgroup::processes_in(cgroup)
    }

    fn threads_in(&self, cgroup: &Path) -> io::Result<Vec<u32>> {
        cgroup::threads_in(cgroup)
    }

    fn cgroups_below(&self, cgroup: &Path) -> io::Result<Vec<PathBuf>> {
        cgroup::cgroups_below(cgroup)
    }

    fn is_delegated(&self, cgroup: &Path) -> bool {
        cgroup::is_delegated(cgroup)
    }

    fn has_directory(&self, directory: &Path) -> bool {
        directory.is_dir()
    }

    fn read_file(&self, file: &Path) -> io::Result<String> {
        cgroup::read_control(file)
    }

    fn xen_vcpus(&self) -> io::Result<Vec<Vcpu>> {
        xen::vcpus()
    }

    fn xen_pools(&self) -> io::Result<Vec<XenPool>> {
        xen::pools()
    }

    fn packet_tables(&self, network: Option<&NetworkPlace>) -> io::Result<Vec<String>> {
        packet_tables::names(network)
    }

    fn interface_with(
        &self,
        network: Option<&NetworkPlace>,
        address: Ipv4Addr,
    ) -> io::Result<String> {
        packet_tables::interface_with(network, address)
    }
}

impl KernelState for LinuxKernel {
    fn wait_until(&mut self, at: Instant) {
        while self.now() < at {
            let _looked_again_if_interrupted = sleep_until(at);
        }
    }

    fn make_cgroup(&mut self, directory: &Path) -> io::Result<()> {
        cgroup::make(directory)
    }

    fn remove_cgroup(&mut self, directory: &Path) -> io::Result<()> {
        // A member that was killed is listed no more but holds the group until it has exited.
        let empty = || {
            let listed = cgroup::threads_in(directory).unwrap_or_default();
            let below = cgroup::cgroups_below(directory).unwrap_or_default();
            listed.is_empty() && below.is_empty()
        };
        retry(
            |error| error.kind() == io::ErrorKind::ResourceBusy && empty(),
            || cgroup::remove(directory),
        )
    }

    fn write_file(&mut self, file: &Path, value: &str) -> io::Result<()> {
        cgroup::write_control(file, value)
    }

    fn move_process(&mut self, pid: u32, directory: &Path) -> io::Result<()> {
        past_first_run(pid, || cgroup::move_process(pid, directory))
    }

    fn move_thread(&mut self, tid: u32, directory: &Path) -> io::Result<()> {
        past_first_run(tid, || cgroup::move_thread(tid, directory))
    }

    fn set_scheduling(&mut self, tid: u32, setting: SchedulingSetting) -> io::Result<()> {
        match setting {
            SchedulingSetting::Deadline { .. } => self.set_deadline(tid, setting),
            _ => scheduling::set_scheduling(tid, setting),
        }
    }

    fn set_affinity(&mut self, tid: u32, cpus: &CpuSet) -> io::Result<()> {
        scheduling::set_affinity(tid, &cpus.iter().map(|cpu| cpu.0).collect())
    }

    fn set_xen_vcpu(&mut self, domain: u32, vcpu: u32, setting: VcpuSetting) -> io::Result<()> {
        xen::set_vcpu(domain, vcpu, setting)
    }

    fn make_packet_table(
        &mut self,
        network: Option<&NetworkPlace>,
        name: &str,
        commands: &[String],
    ) -> io::Result<()> {
        packet_tables::replace(network, name, commands)
    }

    fn remove_packet_table(
        &mut self,
        network: Option<&NetworkPlace>,
        name: &str,
    ) -> io::Result<()> {
        packet_tables::remove(network, name)
    }
}

impl LinuxKernel {
    /// Gives SCHED_DEADLINE to a thread, past what the kernel refuses for a moment or by mistake.
    fn set_deadline(&self, tid: u32, setting: SchedulingSetting) -> io::Result<()> {
        // The kernel compares the affinity with the root domain of the CPU where the thread last
        // ran: one that was moved while asleep is refused until it has woken on its new CPU. And
        // the bandwidth of a thread that has just ended is free only after its zero-lag time.
        use io::ErrorKind::{PermissionDenied, ResourceBusy};
        let own = self.cpuset_of(tid);
        let outcome = past_refusals(
            own.as_deref().ok(),
            &[PermissionDenied, ResourceBusy],
            || scheduling::set_scheduling(tid, setting),
        );
        match outcome {
            Err(error) if error.kind() == PermissionDenied => {
                set_deadline_asleep(&own?, tid, setting).map_err(|refusal| {
                    if refusal.kind() == ResourceBusy {
                        refusal
                    } else {
                        error
                    }
                })
            }
            outcome => outcome,
        }
    }

    /// The cpuset of a thread, of the hierarchy in which root domains are made.
    fn cpuset_of(&self, tid: u32) -> io::Result<PathBuf> {
        let is_cpuset = |one: &&Hierarchy| one.controllers.iter().any(|name| name == "cpuset");
        let cpusets = self.hierarchies.iter().find(is_cpuset);
        cpusets.ok_or(io::ErrorKind::NotFound)?.cgroup_of(tid)
    }
}

/// Gives SCHED_DEADLINE to a thread of cpuset `own` that sleeps, perhaps stopped for long, where it last ran: it enters
/// the root domain of that CPU for a moment, and takes its bandwidth along when it comes back.
fn set_deadline_asleep(own: &Path, tid: u32, setting: SchedulingSetting) -> io::Result<()> {
    let busy = [io::ErrorKind::ResourceBusy];
    let parent = own.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut outcome = Err(io::ErrorKind::PermissionDenied.into());
    for other in cgroup::cgroups_below(parent)? {
        if other == own || !deadline::is_partition(&other) {
            continue;
        }
        cgroup::move_thread(tid, &other)?;
        outcome = past_refusals(Some(own), &busy, || {
            scheduling::set_scheduling(tid, setting)
        });
        if outcome.is_ok() {
            break;
        }
    }
    past_refusals(Some(own), &busy, || cgroup::move_thread(tid, own))?;
    outcome
}

/// Does `attempt`, again while the kernel refuses it with one of `passes`. Where it has no SCHED_DEADLINE bandwidth left,
/// it counts that anew now and then, if the thread is to be in a root domain of ours.
fn past_refusals(
    cpuset: Option<&Path>,
    passes: &[io::ErrorKind],
    attempt: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let mut busy = 0;
    retry(
        |error| passes.contains(&error.kind()),
        || {
            let refusal = attempt();
            if refusal
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            {
                busy += 1;
                if let Some(cpuset) = cpuset
                    && busy % REFUSALS_BEFORE_REBUILD == 0
                {
                    rebuild_root_domains(cpuset)?;
                }
            }
            refusal
        },
    )
}

/// Has the kernel count anew what the SCHED_DEADLINE threads of each root domain have been promised, where `cpuset`
/// is a root domain of ours.
///
/// A thread that leaves the policy keeps its bandwidth until its zero-lag time. Where root domains are made or removed
/// before that, the kernel counts without it and subtracts it nevertheless when its time comes; the sum is then below
/// zero, which is an unsigned number above every limit, and it refuses every later thread (Linux 6.18).
fn rebuild_root_domains(cpuset: &Path) -> io::Result<()> {
    if !deadline::is_partition(cpuset) {
        return Ok(());
    }
    // Of the files that make it rebuild them, this one takes a value also where the sum is below zero, and how far idle
    // CPUs look for work says nothing about a root domain of one CPU.
    let level = cpuset.join("cpuset.sched_relax_domain_level");
    let other = match cgroup::read_control(&level)?.trim() {
        "-1" => "0",
        _ => "-1",
    };
    cgroup::write_control(&level, other)
}

/// Moves a thread; one of the kernel that has just been made can be moved only once it has run.
fn past_first_run(tid: u32, attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let passes = |error: &io::Error| {
        error.kind() == io::ErrorKind::InvalidInput && interrupts::is_kernel_thread(tid)
    };
    retry(passes, attempt)
}

/// Does `attempt`, again while it fails in a way that `passes`.
fn retry(
    passes: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..RETRIES {
        match attempt() {
            Err(error) if passes(&error) => sleep(RETRY_GAP),
            outcome => return outcome,
        }
    }
    attempt()
}
