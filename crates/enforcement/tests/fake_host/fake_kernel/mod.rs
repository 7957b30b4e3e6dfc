//! A kernel in memory, for tests: cgroups, threads, and failures on demand.
//!
//! It knows just enough of the real one's rules to make mistakes show: directories need parents
//! and are removed only when empty, a new group has the kernel's default values, entering a cpuset
//! sets the affinity and being in one bounds it, children of threads with RESET_ON_FORK are ordinary
//! ones, controllers are switched on and off by name, and no group below the root has both members and groups with
//! controllers.

mod devices;
mod disk;
mod legacy_real_time;
mod managers;
mod real_time_groups;
mod xen;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailbound_linux::interrupts::InterruptParts;
use tailbound_linux::named_cgroup::NameError;
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::process::RunTimes;
use tailbound_linux::scheduling::{RESET_ON_FORK, parse_cpu_list};
use tailbound_linux::xen::{Vcpu, VcpuSetting, XenPool};
use tailbound_linux::{HostCapabilities, capabilities::Feature, capabilities::Finding};
use tailbound_model::{Cpu, CpuSet};
use tailbound_time::Instant;

pub use self::disk::FakeDisk;
pub use self::managers::FakeManagers;
use tailbound_enforcement::kernel::{KernelState, KernelView};
use tailbound_enforcement::{CgroupName, SchedulingSetting};

/// The roots of the hierarchies that there are.
pub const V2_ROOT: &str = "/v2";
/// The v1 cpu hierarchy.
pub const CPU_ROOT: &str = "/cpu";
/// The v1 cpuset hierarchy.
pub const CPUSET_ROOT: &str = "/cpuset";

/// The file that stands for the mark of a cgroup that is left to its processes.
pub const DELEGATION_MARK: &str = "user.delegate";

/// The address of the device "eth0".
pub const DEVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// How many CPUs there are.
const CPUS: u32 = 4;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeThread {
    /// Its process.
    pub pid: u32,
    /// Its process's parent.
    pub parent: u32,
    /// When it started.
    pub started: u64,
    /// Its policy.
    pub scheduling: SchedulingSetting,
    /// What it has had of CPUs.
    pub run_times: RunTimes,
    /// Where it may run.
    pub affinity: CpuSet,
    /// Its cgroup in each hierarchy, by root.
    pub cgroups: BTreeMap<PathBuf, PathBuf>,
}

/// All that can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeState {
    /// The files of every cgroup.
    pub cgroups: BTreeMap<PathBuf, BTreeMap<String, String>>,
    /// The threads, by number.
    pub threads: BTreeMap<u32, FakeThread>,
    /// Virtual CPUs of Xen domains.
    pub vcpus: Vec<Vcpu>,
    /// The cgroups of units and containers.
    pub names: BTreeMap<CgroupName, PathBuf>,
    /// The tables of nftables with their commands, those of a network namespace behind the words that lead there; `None` on a
    /// host without nftables.
    pub packet_tables: Option<BTreeMap<String, Vec<String>>>,
    /// The names of network namespaces.
    pub networks: BTreeSet<String>,
}

impl FakeState {
    fn check_network(&self, network: Option<&NetworkPlace>) -> io::Result<()> {
        let is_there = match network {
            None => true,
            Some(NetworkPlace::Named(name)) => self.networks.contains(name),
            Some(NetworkPlace::OfProcess(pid)) => self.threads.contains_key(pid),
        };
        is_there.then_some(()).ok_or(io::ErrorKind::NotFound.into())
    }
}

/// The name of a table behind the words that lead to its network namespace.
fn table_in(network: Option<&NetworkPlace>, name: &str) -> String {
    network.map_or_else(String::new, NetworkPlace::prefix) + name
}

#[derive(Debug, Default)]
struct Inside {
    state: FakeState,
    own: u32,
    now: Instant,
    writes: usize,
    stops_at: Option<usize>,
    refuses_at: Option<usize>,
}

/// A kernel in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct FakeKernel {
    inside: Arc<Mutex<Inside>>,
}

impl FakeKernel {
    /// A kernel with four CPUs, the hierarchies, and our own process, number 1.
    pub fn new() -> Self {
        let kernel = Self::default();
        {
            let mut inside = kernel.lock();
            inside.own = 1;
            inside.state.packet_tables = Some(BTreeMap::new());
            for root in [V2_ROOT, CPU_ROOT, CPUSET_ROOT] {
                let mut files = default_files(Path::new(root));
                if root == CPUSET_ROOT {
                    files.insert("cpuset.cpus".into(), format!("0-{}", CPUS - 1));
                    files.insert("cpuset.mems".into(), "0".into());
                }
                if root == V2_ROOT {
                    let all = real_time_groups::ALL_GROUPS.into();
                    files.insert(real_time_groups::BANDWIDTH.into(), all);
                }
                if root == CPU_ROOT {
                    files.insert(legacy_real_time::BUDGET.into(), "950000".into());
                }
                inside.state.cgroups.insert(root.into(), files);
            }
        }
        kernel.add_process(1, 0, &[1]);
        kernel
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a host like this offers: everything but HRTICK_DL.
    pub fn host(&self) -> HostCapabilities {
        let works = |feature: &Feature| *feature != Feature::HrtickDl;
        let finding = |feature| {
            let finding = Finding {
                works: works(&feature),
                state: "in memory".into(),
                remedy: String::new(),
            };
            (feature, finding)
        };
        HostCapabilities {
            kernel_release: "6.12.0-fake".into(),
            online_cpus: (0..CPUS).collect(),
            tick_hz: Some(250),
            cgroup_v2_root: Some(V2_ROOT.into()),
            cgroup_v1_roots: [("cpu", CPU_ROOT), ("cpuset", CPUSET_ROOT)]
                .map(|(name, root)| (name.to_owned(), PathBuf::from(root)))
                .into(),
            rt_runtime_us: Some(950_000),
            rt_period_us: Some(1_000_000),
            rt_groups_us: Some(real_time_groups::ALL_GROUPS_US),
            rt_group_sched: true,
            findings: Feature::ALL.map(finding).into(),
            ..HostCapabilities::default()
        }
    }

    /// Adds a process; the first thread has its number.
    pub fn add_process(&self, pid: u32, parent: u32, threads: &[u32]) {
        let mut inside = self.lock();
        for &tid in threads {
            let root = |root: &str| (PathBuf::from(root), PathBuf::from(root));
            let thread = FakeThread {
                pid,
                parent,
                started: u64::from(tid) * 10,
                scheduling: SchedulingSetting::Other { nice: 0 },
                run_times: RunTimes::default(),
                affinity: (0..CPUS).map(Cpu).collect(),
                cgroups: [V2_ROOT, CPU_ROOT, CPUSET_ROOT].map(root).into(),
            };
            inside.state.threads.insert(tid, thread);
        }
    }

    /// Starts a thread as `parent` would: it inherits everything but a policy with RESET_ON_FORK. It is a
    /// process of its own with `as_process`.
    pub fn fork(&self, parent: u32, tid: u32, as_process: bool) {
        let mut inside = self.lock();
        let Some(mut thread) = inside.state.threads.get(&parent).cloned() else {
            return;
        };
        thread.started = u64::from(tid) * 10;
        if resets_on_fork(thread.scheduling) {
            thread.scheduling = SchedulingSetting::Other { nice: 0 };
        }
        if as_process {
            thread.parent = thread.pid;
            thread.pid = tid;
        }
        inside.state.threads.insert(tid, thread);
    }

    /// Ends a process.
    pub fn end_process(&self, pid: u32) {
        self.lock()
            .state
            .threads
            .retain(|_, thread| thread.pid != pid);
    }

    /// Changes the state as somebody else would, unnoticed by [`FakeKernel::writes`].
    pub fn alter(&self, change: impl FnOnce(&mut FakeState)) {
        change(&mut self.lock().state);
    }

    /// A copy of all that can be changed.
    pub fn snapshot(&self) -> FakeState {
        self.lock().state.clone()
    }

    /// How many changes were asked for.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// From this change on (counted from 0), all fail and none is made: the caller has died.
    pub fn stop_at(&self, write: Option<usize>) {
        let mut inside = self.lock();
        inside.writes = 0;
        inside.stops_at = write;
    }

    /// This change (counted from 0) is refused.
    pub fn refuse_at(&self, write: Option<usize>) {
        let mut inside = self.lock();
        inside.writes = 0;
        inside.refuses_at = write;
    }

    /// Another process takes over, such as one that recovers.
    pub fn become_process(&self, pid: u32) {
        self.lock().own = pid;
    }

    /// Makes one change, if it is not to fail.
    fn write(&self, change: impl FnOnce(&mut FakeState) -> io::Result<()>) -> io::Result<()> {
        let mut inside = self.lock();
        let number = inside.writes;
        inside.writes += 1;
        if inside.stops_at.is_some_and(|stop| number >= stop) {
            return Err(io::Error::other("the caller has died"));
        }
        if inside.refuses_at == Some(number) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        change(&mut inside.state)
    }
}

fn resets_on_fork(scheduling: SchedulingSetting) -> bool {
    use SchedulingSetting as S;
    match scheduling {
        S::Fifo { reset_on_fork, .. } | S::RoundRobin { reset_on_fork, .. } => reset_on_fork,
        S::Deadline { flags, .. } => flags & RESET_ON_FORK != 0,
        S::Other { .. } | S::Batch { .. } | S::Idle => false,
    }
}

fn root_of(directory: &Path) -> io::Result<PathBuf> {
    let roots = [V2_ROOT, CPU_ROOT, CPUSET_ROOT];
    let root = roots.iter().find(|root| directory.starts_with(root));
    root.map(PathBuf::from)
        .ok_or(io::ErrorKind::InvalidInput.into())
}

fn default_files(directory: &Path) -> BTreeMap<String, String> {
    let files: &[(&str, &str)] = match () {
        () if directory.starts_with(V2_ROOT) => &[
            ("cgroup.freeze", "0"),
            ("cgroup.type", "domain"),
            ("cgroup.subtree_control", ""),
            ("cpu.max", "max 100000"),
            ("cpu.max.burst", "0"),
            ("cpu.weight", "100"),
            ("cpu.idle", "0"),
            ("cpu.rt.max", "max 0"),
            ("cpuset.cpus", ""),
        ],
        () if directory.starts_with(CPU_ROOT) => &[
            ("cpu.cfs_quota_us", "-1"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_burst_us", "0"),
            ("cpu.shares", "1024"),
            ("cpu.idle", "0"),
            (legacy_real_time::BUDGET, "0"),
            ("cpu.rt_period_us", "1000000"),
        ],
        () => &[
            ("cpuset.cpus", ""),
            ("cpuset.mems", ""),
            ("cpuset.cpu_exclusive", "0"),
            ("cpuset.sched_load_balance", "1"),
        ],
    };
    files
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

impl FakeState {
    fn thread(&self, tid: u32) -> io::Result<&FakeThread> {
        self.threads.get(&tid).ok_or(io::ErrorKind::NotFound.into())
    }

    fn thread_mut(&mut self, tid: u32) -> io::Result<&mut FakeThread> {
        self.threads
            .get_mut(&tid)
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn enter(&mut self, tid: u32, directory: &Path) -> io::Result<()> {
        self.cgroups.get(directory).ok_or(io::ErrorKind::NotFound)?;
        let root = root_of(directory)?;
        let in_v2 = root == Path::new(V2_ROOT);
        if in_v2 {
            self.check_entry(tid, directory)?;
            if self.gives_controllers(directory) {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
        }
        let files = self.cgroups.get(directory);
        let cpus = files.and_then(|files| files.get("cpuset.cpus").cloned());
        let thread = self.thread_mut(tid)?;
        thread.cgroups.insert(root, directory.into());
        let cpus = parse_cpu_list(&cpus.unwrap_or_default()).map_err(io::Error::other)?;
        let cpus: CpuSet = cpus.into_iter().map(Cpu).collect();
        if !cpus.is_empty() {
            let within: CpuSet = thread.affinity.intersection(&cpus).copied().collect();
            let keeps = in_v2 && !within.is_empty();
            thread.affinity = if keeps { within } else { cpus };
        }
        Ok(())
    }

    /// Whether a cgroup of v2 below the root gives those below it controllers, so that it may have no members.
    fn gives_controllers(&self, directory: &Path) -> bool {
        let files = self.cgroups.get(directory);
        let given = files.and_then(|files| files.get("cgroup.subtree_control"));
        directory != Path::new(V2_ROOT) && given.is_some_and(|given| !given.is_empty())
    }

    /// What the thread's cpusets leave of `cpus`.
    fn within_cpusets(&self, tid: u32, cpus: &CpuSet) -> io::Result<CpuSet> {
        let mut left = cpus.clone();
        for group in self.thread(tid)?.cgroups.values() {
            let files = self.cgroups.get(group);
            let text = files.and_then(|files| files.get("cpuset.cpus"));
            let bound = parse_cpu_list(text.map_or("", String::as_str)).unwrap_or_default();
            if !bound.is_empty() {
                left.retain(|cpu| bound.contains(&cpu.0));
            }
        }
        match left.is_empty() {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(left),
        }
    }

    fn is_member(&self, thread: &FakeThread, directory: &Path) -> bool {
        thread.cgroups.values().any(|cgroup| cgroup == directory)
    }
}

impl KernelView for FakeKernel {
    fn now(&self) -> Instant {
        self.lock().now
    }

    fn own_process(&self) -> u32 {
        self.lock().own
    }

    fn boot(&self) -> io::Result<String> {
        Ok("fake-boot".into())
    }

    fn threads_of(&self, pid: u32) -> io::Result<Vec<u32>> {
        let inside = self.lock();
        let threads = inside.state.threads.iter();
        let tids: Vec<u32> = threads
            .filter(|(_, thread)| thread.pid == pid)
            .map(|(tid, _)| *tid)
            .collect();
        match tids.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(tids),
        }
    }

    fn children_of(&self, pid: u32) -> io::Result<Vec<u32>> {
        let inside = self.lock();
        let threads = inside.state.threads.values();
        let children: BTreeSet<u32> = threads
            .filter(|thread| thread.parent == pid)
            .map(|thread| thread.pid)
            .collect();
        Ok(children.into_iter().collect())
    }

    fn parents(&self) -> io::Result<BTreeMap<u32, u32>> {
        let inside = self.lock();
        let threads = inside.state.threads.values();
        Ok(threads.map(|thread| (thread.pid, thread.parent)).collect())
    }

    fn unified_root(&self) -> Option<PathBuf> {
        Some(V2_ROOT.into())
    }

    fn process_of(&self, tid: u32) -> io::Result<u32> {
        Ok(self.lock().state.thread(tid)?.pid)
    }

    fn started(&self, tid: u32) -> io::Result<u64> {
        Ok(self.lock().state.thread(tid)?.started)
    }

    fn process_started(&self, pid: u32) -> io::Result<u64> {
        let fake = self.lock();
        let threads = fake.state.threads.values();
        let started = threads.filter(|one| one.pid == pid).map(|one| one.started);
        started.min().ok_or(io::ErrorKind::NotFound.into())
    }

    fn scheduling(&self, tid: u32) -> io::Result<SchedulingSetting> {
        Ok(self.lock().state.thread(tid)?.scheduling)
    }

    fn run_times(&self, tid: u32) -> io::Result<RunTimes> {
        Ok(self.lock().state.thread(tid)?.run_times)
    }

    fn affinity(&self, tid: u32) -> io::Result<CpuSet> {
        Ok(self.lock().state.thread(tid)?.affinity.clone())
    }

    fn cgroup_of(&self, tid: u32, like: &Path) -> io::Result<PathBuf> {
        let inside = self.lock();
        let group = inside
            .state
            .thread(tid)?
            .cgroups
            .get(&root_of(like)?)
            .cloned();
        group.ok_or(io::ErrorKind::InvalidInput.into())
    }

    fn named_cgroup(&self, name: &CgroupName) -> Result<PathBuf, NameError> {
        let directory = self.lock().state.names.get(name).cloned();
        let text = name.text();
        directory.ok_or_else(|| NameError::NotRunning {
            kind: "container",
            name: text.to_owned(),
            place: String::new(),
        })
    }

    fn interrupt_parts(&self, name: &str) -> io::Result<InterruptParts> {
        devices::parts(&self.lock().state, name)
    }

    fn processes_in(&self, cgroup: &Path) -> io::Result<Vec<u32>> {
        let inside = self.lock();
        let state = &inside.state;
        let files = state.cgroups.get(cgroup).ok_or(io::ErrorKind::NotFound)?;
        if files
            .get("cgroup.type")
            .is_some_and(|kind| kind == "threaded")
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let members = state
            .threads
            .values()
            .filter(|t| state.is_member(t, cgroup));
        let pids: BTreeSet<u32> = members.map(|thread| thread.pid).collect();
        Ok(pids.into_iter().collect())
    }

    fn threads_in(&self, cgroup: &Path) -> io::Result<Vec<u32>> {
        let inside = self.lock();
        let state = &inside.state;
        state.cgroups.get(cgroup).ok_or(io::ErrorKind::NotFound)?;
        let members = state
            .threads
            .iter()
            .filter(|(_, t)| state.is_member(t, cgroup));
        Ok(members.map(|(tid, _)| *tid).collect())
    }

    fn cgroups_below(&self, cgroup: &Path) -> io::Result<Vec<PathBuf>> {
        let inside = self.lock();
        let cgroups = &inside.state.cgroups;
        cgroups.get(cgroup).ok_or(io::ErrorKind::NotFound)?;
        let below = cgroups.keys().filter(|path| path.parent() == Some(cgroup));
        Ok(below.cloned().collect())
    }

    fn is_delegated(&self, cgroup: &Path) -> bool {
        let mark = self.read_file(&cgroup.join(DELEGATION_MARK));
        mark.is_ok_and(|mark| mark == "1")
    }

    fn has_directory(&self, directory: &Path) -> bool {
        self.lock().state.cgroups.contains_key(directory)
    }

    fn read_file(&self, file: &Path) -> io::Result<String> {
        let inside = self.lock();
        let directory = file
            .parent()
            .and_then(|path| inside.state.cgroups.get(path));
        let name = file.file_name().and_then(|name| name.to_str());
        let value = directory
            .zip(name)
            .and_then(|(files, name)| files.get(name));
        value.cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn xen_vcpus(&self) -> io::Result<Vec<Vcpu>> {
        Ok(self.lock().state.vcpus.clone())
    }

    fn xen_pools(&self) -> io::Result<Vec<XenPool>> {
        Ok(xen::pools())
    }

    fn packet_tables(&self, network: Option<&NetworkPlace>) -> io::Result<Vec<String>> {
        let inside = self.lock();
        inside.state.check_network(network)?;
        let tables = inside.state.packet_tables.as_ref();
        let tables = tables.ok_or_else(|| io::Error::other("cannot run nft"))?;
        Ok(tables.keys().cloned().collect())
    }

    fn interface_with(
        &self,
        network: Option<&NetworkPlace>,
        address: Ipv4Addr,
    ) -> io::Result<String> {
        self.lock().state.check_network(network)?;
        match address == DEVICE_ADDRESS {
            true => Ok("eth0".to_owned()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl KernelState for FakeKernel {
    fn wait_until(&mut self, at: Instant) {
        let mut inside = self.lock();
        inside.now = inside.now.max(at);
    }

    fn make_cgroup(&mut self, directory: &Path) -> io::Result<()> {
        self.write(|state| {
            let parent = directory.parent().unwrap_or(directory);
            if !state.cgroups.contains_key(parent) {
                return Err(io::ErrorKind::NotFound.into());
            }
            if state.cgroups.contains_key(directory) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state
                .cgroups
                .insert(directory.into(), default_files(directory));
            Ok(())
        })
    }

    fn remove_cgroup(&mut self, directory: &Path) -> io::Result<()> {
        self.write(|state| {
            let below = state
                .cgroups
                .keys()
                .any(|path| path.parent() == Some(directory));
            let member = state
                .threads
                .values()
                .any(|t| state.is_member(t, directory));
            if below || member {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            let removed = state.cgroups.remove(directory);
            removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
        })
    }

    fn write_file(&mut self, file: &Path, value: &str) -> io::Result<()> {
        self.write(|state| {
            if file.ends_with(real_time_groups::BANDWIDTH) {
                state.check_bandwidth(file, value)?;
            }
            if file.ends_with(legacy_real_time::BUDGET) {
                state.check_legacy_budget(file, value)?;
            }
            let directory = file.parent().unwrap_or(file);
            let below_root = directory != Path::new(V2_ROOT);
            let mut threads = state.threads.values();
            let has_members = threads.any(|thread| state.is_member(thread, directory));
            let directory = state.cgroups.get_mut(directory);
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            let held = directory.and_then(|files| files.get_mut(name));
            let held = held.ok_or(io::ErrorKind::NotFound)?;
            if name != "cgroup.subtree_control" {
                value.clone_into(held);
                devices::follow(state, file, value);
                return Ok(());
            }
            let mut on: BTreeSet<&str> = held.split_whitespace().collect();
            match value.split_at_checked(1) {
                Some(("+", _)) if below_root && has_members => {
                    return Err(io::ErrorKind::ResourceBusy.into());
                }
                Some(("+", name)) => _ = on.insert(name),
                Some(("-", name)) => _ = on.remove(name),
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
            *held = on.into_iter().collect::<Vec<_>>().join(" ");
            Ok(())
        })
    }

    fn move_process(&mut self, pid: u32, directory: &Path) -> io::Result<()> {
        self.write(|state| {
            let threads = state.threads.iter().filter(|(_, thread)| thread.pid == pid);
            let tids: Vec<u32> = threads.map(|(tid, _)| *tid).collect();
            if tids.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            tids.into_iter()
                .try_for_each(|tid| state.enter(tid, directory))
        })
    }

    fn move_thread(&mut self, tid: u32, directory: &Path) -> io::Result<()> {
        self.write(|state| state.enter(tid, directory))
    }

    fn set_scheduling(&mut self, tid: u32, setting: SchedulingSetting) -> io::Result<()> {
        self.write(|state| {
            state.thread_mut(tid)?.scheduling = setting;
            Ok(())
        })
    }

    fn set_affinity(&mut self, tid: u32, cpus: &CpuSet) -> io::Result<()> {
        self.write(|state| {
            let cpus = state.within_cpusets(tid, cpus)?;
            state.thread_mut(tid)?.affinity = cpus;
            Ok(())
        })
    }

    fn set_xen_vcpu(&mut self, domain: u32, vcpu: u32, setting: VcpuSetting) -> io::Result<()> {
        self.write(|state| xen::set(&mut state.vcpus, domain, vcpu, setting))
    }

    fn make_packet_table(
        &mut self,
        network: Option<&NetworkPlace>,
        name: &str,
        commands: &[String],
    ) -> io::Result<()> {
        self.write(|state| {
            state.check_network(network)?;
            let tables = state.packet_tables.as_mut();
            let tables = tables.ok_or_else(|| io::Error::other("cannot run nft"))?;
            tables.insert(table_in(network, name), commands.to_vec());
            Ok(())
        })
    }

    fn remove_packet_table(
        &mut self,
        network: Option<&NetworkPlace>,
        name: &str,
    ) -> io::Result<()> {
        self.write(|state| {
            state.check_network(network)?;
            let tables = state.packet_tables.as_mut();
            let removed = tables.and_then(|tables| tables.remove(&table_in(network, name)));
            removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
        })
    }
}
