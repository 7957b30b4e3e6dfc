//! Looks at the host: reads files, and tries what cannot be read on a thread and cgroups of its
//! own, which are gone when it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tailbound_time::Duration;

use super::kernel_events::kernel_events;
use super::{Feature, Finding, HostCapabilities, Preemption};
use crate::cgroup::{self, Hierarchy};
use crate::host_facts::version_of_release;
use crate::process::is_in_user_namespace;
use crate::scheduling::{self, SchedulingSetting, format_cpu_list, parse_cpu_list};

const ROOT_REMEDY: &str = "run as root, or give CAP_SYS_NICE (setcap, or AmbientCapabilities= in \
                           a systemd unit)";
/// What to do where root is one of a user namespace only.
const ROOT_OF_HOST_REMEDY: &str = "leave the user namespace, in which root is an ordinary user of the host, as in \
                                   rootless containers: run outside, as root";

pub(super) fn probe() -> HostCapabilities {
    let of_kernel = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.map(|text| text.trim().to_owned())
    };
    let kernel_release = of_kernel("osrelease").unwrap_or_else(|_| "unknown".into());
    let kernel_version = of_kernel("version").unwrap_or_default();
    let config = kernel_config(&kernel_release);
    let hierarchies = cgroup::hierarchies().unwrap_or_default();
    let mut host = HostCapabilities {
        preemption: preemption(&kernel_version, &config),
        kernel_release,
        uid: crate::process::effective_uid(),
        privileges: privileges(),
        online_cpus: cpus_in("/sys/devices/system/cpu/online"),
        isolated_cpus: cpus_in("/sys/devices/system/cpu/isolated"),
        tick_hz: tick_hz(),
        rt_runtime_us: number_in("/proc/sys/kernel/sched_rt_runtime_us"),
        rt_period_us: number_in("/proc/sys/kernel/sched_rt_period_us"),
        rt_group_sched: rt_group_sched(&config, &hierarchies),
        ..HostCapabilities::default()
    };
    if host.online_cpus.is_empty() {
        host.online_cpus = scheduling::affinity_of(std::process::id()).unwrap_or_default();
    }
    probe_cgroup_v2(&mut host, &hierarchies);
    probe_cgroup_v1(&mut host, &hierarchies);
    probe_rt_groups(&mut host, &hierarchies);
    probe_policies(&mut host);
    probe_throttling(&mut host);
    probe_debugfs(&mut host);
    let extensible = fs::read_to_string("/sys/kernel/sched_ext/state")
        .map(|state| format!("sched_ext is {}", state.trim()))
        .map_err(|_| "no /sys/kernel/sched_ext".into());
    let remedy = "nothing here needs it; it takes Linux 6.12 with CONFIG_SCHED_CLASS_EXT";
    host.note(Feature::SchedExt, extensible, remedy);
    let remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit";
    host.note(Feature::LockMemory, lock_memory(), remedy);
    let remedy = "run as root, or mount tracefs for a group that you are in (mount -o gid=GROUP,mode=770 -t tracefs \
                  nodev /sys/kernel/tracing); the kernel needs CONFIG_FTRACE and CONFIG_ENABLE_DEFAULT_TRACERS";
    host.note(Feature::KernelEvents, kernel_events(), remedy);
    let remedy = match crate::xen::is_control_domain() {
        true => "boot Xen, built with SCHED_RTDS, with sched=rtds; run as root with xl on the PATH",
        false => "run in dom0 of a Xen that was built with SCHED_RTDS and booted with sched=rtds",
    };
    host.note(Feature::XenRtds, xen_rtds(), remedy);
    let remedy = "run as root of the host and of its network namespace, on Linux 5.12 or later";
    host.note(
        Feature::ReceiveThreads,
        crate::interrupts::receive_threads(),
        remedy,
    );
    host
}

impl HostCapabilities {
    /// Notes what was found of a feature, or why it does not work and what helps.
    fn note(&mut self, feature: Feature, outcome: Result<String, String>, remedy: &str) {
        let works = outcome.is_ok();
        let finding = Finding {
            works,
            state: outcome.unwrap_or_else(|lacking| lacking),
            remedy: if works { "" } else { remedy }.into(),
        };
        self.findings.insert(feature, finding);
    }
}

/// Whether this is the control domain of a Xen host with a pool under RTDS.
fn xen_rtds() -> Result<String, String> {
    if !crate::xen::is_control_domain() {
        return Err("this is no control domain of a Xen host".into());
    }
    let pools = crate::xen::pools().map_err(|error| error.to_string())?;
    let listed = pools
        .iter()
        .map(|pool| format!("{}: {}, {} CPUs", pool.name, pool.scheduler, pool.cpus));
    let listed = Vec::from_iter(listed).join("; ");
    match pools.iter().any(|pool| pool.scheduler == "rtds") {
        true => Ok(listed),
        false => Err(format!("no pool under rtds ({listed})")),
    }
}

fn number_in<T: std::str::FromStr>(file: &str) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn cpus_in(file: &str) -> BTreeSet<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    parse_cpu_list(&text).unwrap_or_default()
}

/// No list of options is longer, in bytes.
const LONGEST_CONFIG: u64 = 16 << 20;

/// The options that the kernel was built with; empty if they cannot be found.
fn kernel_config(release: &str) -> BTreeMap<String, String> {
    let plain = fs::read_to_string(format!("/boot/config-{release}")).ok();
    let text = plain.or_else(|| {
        let packed = File::open("/proc/config.gz").ok()?;
        let mut text = Vec::new();
        GzDecoder::new(packed)
            .take(LONGEST_CONFIG)
            .read_to_end(&mut text)
            .ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    });
    text.unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn preemption(version: &str, config: &BTreeMap<String, String>) -> Preemption {
    let chosen = fs::read_to_string("/sys/kernel/debug/sched/preempt").unwrap_or_default();
    let chosen = chosen.split(['(', ')']).nth(1).unwrap_or("");
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let booted = command_line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("preempt="))
        .unwrap_or("");
    let set = |name: &str| config.contains_key(name);
    match (chosen, booted) {
        _ if version.contains("PREEMPT_RT") => Preemption::RealTime,
        ("none", _) | ("", "none") => Preemption::None,
        ("voluntary", _) | ("", "voluntary") => Preemption::Voluntary,
        ("full", _) | ("", "full") => Preemption::Full,
        ("lazy", _) | ("", "lazy") => Preemption::Lazy,
        _ if set("CONFIG_PREEMPT_NONE") => Preemption::None,
        _ if set("CONFIG_PREEMPT_VOLUNTARY") => Preemption::Voluntary,
        _ if set("CONFIG_PREEMPT_LAZY") => Preemption::Lazy,
        _ if set("CONFIG_PREEMPT") => Preemption::Full,
        _ => Preemption::Unknown,
    }
}

/// Our effective capabilities that matter to enforcement.
pub(super) fn privileges() -> BTreeSet<String> {
    // The numbers of linux/capability.h.
    const NAMED: [(u32, &str); 8] = [
        (1, "CAP_DAC_OVERRIDE"),
        (5, "CAP_KILL"),
        (14, "CAP_IPC_LOCK"),
        (19, "CAP_SYS_PTRACE"),
        (21, "CAP_SYS_ADMIN"),
        (23, "CAP_SYS_NICE"),
        (24, "CAP_SYS_RESOURCE"),
        (38, "CAP_PERFMON"),
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let held = NAMED.iter().filter(|(bit, _)| effective >> bit & 1 == 1);
    held.map(|(_, name)| (*name).to_owned()).collect()
}

/// Ticks per second, from the resolution of the clock that is updated at ticks.
fn tick_hz() -> Option<u32> {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_getres writes one timespec.
    let outcome = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    let tick_ns = u32::try_from(resolution.tv_nsec).ok()?;
    if outcome != 0 || resolution.tv_sec != 0 || tick_ns == 0 {
        return None;
    }
    // 3 333 333 ns at HZ=300: round to the nearest.
    Some((1_000_000_000 + tick_ns / 2) / tick_ns)
}

fn rt_group_sched(config: &BTreeMap<String, String>, hierarchies: &[Hierarchy]) -> bool {
    if let Some(cpu) = v1_root(hierarchies, "cpu") {
        return cpu.join("cpu.rt_runtime_us").exists();
    }
    // Since 6.14 it can be built in and be off until asked for on the command line.
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let asked = command_line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("rt_group_sched="));
    let built = config.contains_key("CONFIG_RT_GROUP_SCHED");
    let off = config.contains_key("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED");
    built && asked.map_or(!off, |asked| asked == "1")
}

fn v1_root(hierarchies: &[Hierarchy], controller: &str) -> Option<PathBuf> {
    let hierarchy = hierarchies
        .iter()
        .find(|hierarchy| hierarchy.controllers.iter().any(|name| name == controller));
    hierarchy.map(|hierarchy| hierarchy.root.clone())
}

/// How the names of the cgroups of probes begin; the numbers of the process and of the thread follow.
const PROBE_GROUP: &str = "tailbound-probe-";
/// An age that no group of a probe under way has: a probe takes milliseconds.
const LEFT_BEHIND: std::time::Duration = std::time::Duration::from_secs(60);

/// A cgroup that is removed when this goes.
struct ProbeGroup(PathBuf);

impl ProbeGroup {
    fn make(root: &Path) -> io::Result<Self> {
        remove_leftovers(root);
        let thread = crate::process::own_thread();
        let directory = root.join(format!("{PROBE_GROUP}{}-{thread}", std::process::id()));
        cgroup::make(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for ProbeGroup {
    fn drop(&mut self) {
        // Nothing is ever put into it, so this only fails if it has gone already.
        let _gone = cgroup::remove(&self.0);
    }
}

/// Removes the groups of probes that were killed. A process of another PID namespace may have a number that nobody has
/// here, so the group has to be old as well.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name
            .to_str()
            .and_then(|name| name.strip_prefix(PROBE_GROUP));
        let Some((process, _)) = numbers.and_then(|numbers| numbers.split_once('-')) else {
            continue;
        };
        let lives = Path::new("/proc").join(process).exists();
        let made = entry.metadata().and_then(|group| group.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > LEFT_BEHIND));
        if !lives && is_old {
            // Another probe may remove it at the same time.
            let _gone = cgroup::remove(&entry.path());
        }
    }
}

fn probe_cgroup_v2(host: &mut HostCapabilities, hierarchies: &[Hierarchy]) {
    const MOUNT: &str = "mount it: mount -t cgroup2 none /sys/fs/cgroup/unified";
    const DELEGATE: &str = "run as root; without it, cgroups cannot be made there";
    let Some(root) = hierarchies.iter().find(|hierarchy| hierarchy.unified) else {
        let unmounted = Err("no cgroup2 file system is mounted".into());
        host.note(Feature::CgroupV2, unmounted, MOUNT);
        for &resting in Feature::CgroupV2.supports() {
            host.note(resting, Err("there is no cgroup v2".into()), MOUNT);
        }
        return;
    };
    let root = root.root.clone();
    let shown = root.display();
    let controllers = cgroup::read_control(&root.join("cgroup.controllers")).unwrap_or_default();
    let controllers: BTreeSet<String> = controllers.split_whitespace().map(Into::into).collect();
    let group = ProbeGroup::make(&root);
    let made = match &group {
        Ok(_) => Ok(format!("{shown}, groups can be made")),
        Err(error) => Err(format!("{shown}, but no group can be made there: {error}")),
    };
    host.note(Feature::CgroupV2, made, DELEGATE);
    let file = |name: &str| match &group {
        Ok(group) if group.0.join(name).exists() => Ok(format!("{name} is there")),
        Ok(_) => Err(format!("a group has no {name}")),
        Err(error) => Err(format!("no group can be made: {error}")),
    };
    let (freezer, threads) = (file("cgroup.freeze"), file("cgroup.threads"));
    host.note(Feature::FreezerV2, freezer, "it takes Linux 5.2");
    host.note(Feature::ThreadedCgroups, threads, "it takes Linux 4.14");
    let controller = |name: &str| match (&group, controllers.contains(name)) {
        (Ok(_), true) => Ok(format!("{shown} has the {name} controller")),
        (Err(error), _) => Err(format!("no group can be made: {error}")),
        (_, false) => Err(format!("{shown} has no {name} controller")),
    };
    const UNIFIED: &str = "it is in cgroup v1, or not built in; boot with \
                           systemd.unified_cgroup_hierarchy=1 to have it in v2";
    host.note(Feature::CpuV2, controller("cpu"), UNIFIED);
    host.note(Feature::CpusetV2, controller("cpuset"), UNIFIED);
    let alarm = match &group {
        Ok(group) => perf_alarm(&group.0, &host.online_cpus),
        Err(error) => Err(format!("no group can be made: {error}")),
    };
    let remedy = "run as root or with CAP_PERFMON; it takes CONFIG_CGROUP_PERF";
    host.note(Feature::PerfCgroupEvents, alarm, remedy);
    host.cgroup_v2_root = Some(root);
    host.cgroup_v2_controllers = controllers;
}

fn perf_alarm(group: &Path, online: &BTreeSet<u32>) -> Result<String, String> {
    let cpu = online.first().copied().unwrap_or(0);
    crate::perf::CgroupAlarm::open(group, cpu, Duration::from_millis(10))
        .map(|_| "the CPU time of a group can be watched".into())
        .map_err(|error| error.to_string())
}

fn probe_cgroup_v1(host: &mut HostCapabilities, hierarchies: &[Hierarchy]) {
    for hierarchy in hierarchies.iter().filter(|hierarchy| !hierarchy.unified) {
        for controller in &hierarchy.controllers {
            host.cgroup_v1_roots
                .entry(controller.clone())
                .or_insert_with(|| hierarchy.root.clone());
        }
    }
    const RT: &str = "it takes a kernel with CONFIG_RT_GROUP_SCHED (Debian's has it not) and the \
                      cpu controller in cgroup v1; the default back end needs neither";
    let mount = |controller: &str| {
        format!(
            "mount it (mount -t cgroup -o {controller} none DIRECTORY) if nothing uses the \
             controller in v2"
        )
    };
    let cpu = |files: &[&str]| v1_files(hierarchies, "cpu", files);
    let in_v1 = host.cgroup_v1_roots.contains_key("cpu");
    let of_groups = |legacy: &str, file: &str| match in_v1 {
        true => cpu(&[legacy]),
        false => v2_file(hierarchies, file),
    };
    let burst = of_groups("cpu.cfs_burst_us", "cpu.max.burst");
    let idle = of_groups("cpu.idle", "cpu.idle");
    let exclusive = ["cpuset.cpu_exclusive", "cpuset.sched_load_balance"];
    let cpuset = v1_files(hierarchies, "cpuset", &exclusive);
    let real_time = cpu(&["cpu.rt_runtime_us", "cpu.rt_period_us"]);
    host.note(Feature::QuotaV1, cpu(&["cpu.cfs_quota_us"]), &mount("cpu"));
    host.note(Feature::RtRuntimeV1, real_time, RT);
    let remedy = "it takes Linux 5.14 and the cpu controller";
    host.note(Feature::QuotaBurst, burst, remedy);
    let remedy = "it takes Linux 5.15 and the cpu controller";
    host.note(Feature::IdleGroups, idle, remedy);
    host.note(Feature::CpusetV1, cpuset, &mount("cpuset"));
}

/// Looks for `cpu.rt.max`. Threads of a group without a budget are then those of the nearest group above that has
/// one, or the host's, so that none is refused its real-time policy.
fn probe_rt_groups(host: &mut HostCapabilities, hierarchies: &[Hierarchy]) {
    const FILE: &str = "cpu.rt.max";
    const KERNEL: &str = "it takes a kernel with HCBS (proposed as RFC v6 in June 2026; no release has it), where the \
                          kernel serves the budgets of groups itself; the default back end serves them without it";
    let Some(root) = host.cgroup_v2_root.clone() else {
        return;
    };
    if !host.cgroup_v2_controllers.contains("cpu") {
        let without = format!("{} has no cpu controller, so no {FILE}", root.display());
        host.note(Feature::RtMaxV2, Err(without), KERNEL);
        return;
    }
    let file = root.join(FILE);
    let bound = cgroup::read_control(&file).ok();
    let bound = bound.and_then(|text| runtime_and_period(&text));
    let remedy = format!("echo \"900000 1000000\" > {}", file.display());
    let (outcome, remedy) = match bound {
        Some((0, _)) => {
            let off = format!("{} is 0: groups have no real-time budgets", file.display());
            (Err(off), remedy.as_str())
        }
        Some((runtime, period)) => {
            let share = format!(
                "groups get at most {runtime} of every {period} microseconds of a CPU together"
            );
            (Ok(share), "")
        }
        None => (v2_file(hierarchies, FILE), KERNEL),
    };
    host.rt_group_sched &= bound.is_none() && outcome.is_err();
    host.rt_groups_us = bound;
    host.note(Feature::RtMaxV2, outcome, remedy);
}

/// The two numbers of `cpu.rt.max`; `None` where no bound is set.
fn runtime_and_period(text: &str) -> Option<(u64, u64)> {
    let (runtime, period) = text.split_once(' ')?;
    Some((runtime.parse().ok()?, period.parse().ok()?))
}

/// A group of cgroup v2 shows the files of a controller only where its parent hands the controller down, which
/// the groups below the root are asked for.
fn v2_file(hierarchies: &[Hierarchy], file: &str) -> Result<String, String> {
    let unified = hierarchies.iter().find(|hierarchy| hierarchy.unified);
    let root = unified.ok_or("no cgroup hierarchy with the cpu controller is mounted")?;
    let groups = cgroup::cgroups_below(&root.root).map_err(|error| error.to_string())?;
    let has = |file: &str| groups.iter().any(|group| group.join(file).exists());
    match (has("cpu.max"), has(file)) {
        (_, true) => Ok(format!("groups have {file}")),
        (true, false) => Err(format!("groups have cpu.max and no {file}")),
        (false, false) => Err(format!(
            "no group below {} has the cpu controller yet",
            root.root.display()
        )),
    }
}

fn v1_files(hierarchies: &[Hierarchy], controller: &str, files: &[&str]) -> Result<String, String> {
    let root = v1_root(hierarchies, controller);
    let root = root.ok_or_else(|| format!("no cgroup v1 {controller} hierarchy is mounted"))?;
    if let Some(lacking) = files.iter().find(|file| !root.join(file).exists()) {
        return Err(format!("{} has no {lacking}", root.display()));
    }
    match ProbeGroup::make(&root) {
        Ok(_) => Ok(format!("{}, groups can be made", root.display())),
        Err(error) => Err(format!(
            "{}, but no group can be made there: {error}",
            root.display()
        )),
    }
}

/// Tries both real-time policies on a thread of its own, which spins for a moment at most.
fn probe_policies(host: &mut HostCapabilities) {
    let online = host.online_cpus.clone();
    let tried = std::thread::Builder::new()
        .name("tailbound-probe".into())
        .spawn(move || (try_fifo(), try_deadline(&online)))
        .map(|thread| thread.join());
    let (fifo, deadline) = match tried {
        Ok(Ok(outcomes)) => outcomes,
        Ok(Err(_)) | Err(_) => {
            let failed = || Err("no thread could be started to try it".into());
            (failed(), failed())
        }
    };
    let group = match host.rt_group_sched {
        true => "; this kernel groups real-time threads: start from the root cpu cgroup",
        false => "",
    };
    let root = match is_in_user_namespace() {
        Ok(true) => ROOT_OF_HOST_REMEDY,
        Ok(false) | Err(_) => ROOT_REMEDY,
    };
    host.note(Feature::SchedFifo, fifo, &format!("{root}{group}"));
    let remedy =
        "run as root, with all CPUs allowed (taskset, cpuset), and free SCHED_DEADLINE bandwidth";
    host.note(Feature::SchedDeadline, deadline, remedy);
}

fn try_fifo() -> Result<String, String> {
    let own = crate::process::own_thread();
    let before = scheduling::scheduling_of(own).map_err(|error| error.to_string())?;
    let fifo = SchedulingSetting::Fifo {
        priority: 1,
        reset_on_fork: true,
    };
    scheduling::set_scheduling(own, fifo)
        .map_err(|error| format!("sched_setattr to SCHED_FIFO: {error}"))?;
    scheduling::set_scheduling(own, before).map_err(|error| error.to_string())?;
    Ok("a thread of ours can be SCHED_FIFO".into())
}

fn try_deadline(online: &BTreeSet<u32>) -> Result<String, String> {
    let own = crate::process::own_thread();
    // The thread may be asked to run on fewer CPUs than its root domain has; the kernel refuses
    // that, and widening what we allow ourselves costs nothing.
    scheduling::set_affinity(own, online).map_err(|error| error.to_string())?;
    let deadline = SchedulingSetting::Deadline {
        runtime_ns: 100_000,
        deadline_ns: 100_000_000,
        period_ns: 100_000_000,
        flags: scheduling::RESET_ON_FORK,
    };
    let outcome = scheduling::set_scheduling(own, deadline);
    if outcome
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    {
        // The kernel got as far as its admission test, so it has the class and we have the right.
        return Ok("SCHED_DEADLINE is there, but all of its bandwidth is in use now".into());
    }
    outcome.map_err(|error| {
        let allowed = scheduling::affinity_of(own).unwrap_or_default();
        format!(
            "sched_setattr to SCHED_DEADLINE: {error} (CPUs allowed: {}, online: {})",
            format_cpu_list(allowed),
            format_cpu_list(online.iter().copied())
        )
    })?;
    // It leaves while running and before its zero-lag time, so no bandwidth leaks.
    scheduling::set_scheduling(own, SchedulingSetting::Other { nice: 0 })
        .map_err(|error| error.to_string())?;
    Ok("a thread of ours can be SCHED_DEADLINE".into())
}

fn probe_throttling(host: &mut HostCapabilities) {
    let outcome = match (host.rt_runtime_us, host.rt_period_us) {
        (Some(runtime), Some(period)) if runtime >= 0 => Ok(format!(
            "real-time threads get at most {runtime} of every {period} microseconds of a CPU"
        )),
        (Some(_), _) => Err("sched_rt_runtime_us is -1".into()),
        _ => Err("/proc/sys/kernel/sched_rt_runtime_us cannot be read".into()),
    };
    let remedy = "sysctl kernel.sched_rt_runtime_us=950000; without it a real-time loop takes a \
                  CPU whole";
    host.note(Feature::RtThrottling, outcome, remedy);
}

fn probe_debugfs(host: &mut HostCapabilities) {
    let debug = Path::new("/sys/kernel/debug");
    let features = ["sched/features", "sched_features"]
        .iter()
        .find_map(|file| fs::read_to_string(debug.join(file)).ok());
    let hrtick = match &features {
        Some(words) if words.split_whitespace().any(|word| word == "HRTICK_DL") => {
            Ok("the scheduler feature HRTICK_DL is on".into())
        }
        Some(_) => Err("the scheduler feature HRTICK_DL is off".into()),
        None => Err("the scheduler features cannot be read; off is the kernel's default".into()),
    };
    let remedy = match features {
        Some(_) => "echo HRTICK_DL > /sys/kernel/debug/sched/features",
        None => {
            "mount -t debugfs none /sys/kernel/debug, then echo HRTICK_DL > \
                 /sys/kernel/debug/sched/features (locked kernels refuse)"
        }
    };
    host.note(Feature::HrtickDl, hrtick, remedy);
    let server = debug.join("sched/fair_server");
    let fair = match fs::read_to_string(server.join("cpu0/runtime")) {
        Ok(runtime) => Ok(format!(
            "it gives SCHED_OTHER {} ns a second on CPU 0",
            runtime.trim()
        )),
        Err(_) if version_of_release(&host.kernel_release) >= Some((6, 12)) => Ok(format!(
            "Linux {} has it; its setting cannot be read (debugfs); 50 ms a second is the default",
            host.kernel_release
        )),
        Err(_) => Err(format!("Linux {} has none", host.kernel_release)),
    };
    let remedy = "nothing here needs it: RT throttling protects the host instead";
    host.note(Feature::FairServer, fair, remedy);
}

fn lock_memory() -> Result<String, String> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit writes one rlimit.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let privileged = privileges().contains("CAP_IPC_LOCK");
    match (privileged, outcome == 0, limit.rlim_cur) {
        (true, ..) => Ok("CAP_IPC_LOCK".to_owned()),
        (_, true, libc::RLIM_INFINITY) => Ok("the memlock limit is unlimited".to_owned()),
        (_, true, bytes) => Err(format!("the memlock limit is {bytes} bytes")),
        _ => Err("the memlock limit cannot be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn releases_are_understood() {
        assert_eq!(version_of_release("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version_of_release("6.1-rc3"), Some((6, 1)));
        assert_eq!(version_of_release("rubbish"), None);
    }

    #[test]
    fn the_bandwidth_of_all_groups_is_understood() {
        assert_eq!(runtime_and_period("0 1000000"), Some((0, 1_000_000)));
        assert_eq!(
            runtime_and_period("900000 1000000"),
            Some((900_000, 1_000_000))
        );
        assert_eq!(runtime_and_period("max 0"), None);
        assert_eq!(runtime_and_period(""), None);
    }

    #[test]
    fn leaves_no_group_behind() {
        let host = probe();
        let roots = host.cgroup_v1_roots.values().chain(&host.cgroup_v2_root);
        let mine = format!(
            "tailbound-probe-{}-{}",
            std::process::id(),
            crate::process::own_thread()
        );
        for root in roots {
            assert!(!root.join(&mine).exists(), "{}", root.display());
        }
    }

    #[test]
    fn groups_of_killed_probes_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let (nobody, own) = (u32::MAX, std::process::id());
        let long_ago = std::time::SystemTime::now() - LEFT_BEHIND * 2;
        let group = |name: String, is_old: bool| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            if is_old {
                File::open(&path).unwrap().set_modified(long_ago).unwrap();
            }
            path
        };
        let killed = group(format!("{PROBE_GROUP}{nobody}-1"), true);
        let kept = [
            group(format!("{PROBE_GROUP}{nobody}-2"), false),
            group(format!("{PROBE_GROUP}{own}-1"), true),
            group(format!("service-{nobody}-1"), true),
        ];
        remove_leftovers(root.path());
        assert!(!killed.exists());
        assert!(kept.iter().all(|path| path.exists()), "{kept:?}");
    }

    proptest! {
        #[test]
        fn no_release_panics(release in "\\PC*") {
            let _version = version_of_release(&release);
        }
    }
}
