//! What a fingerprint of this host needs: CPUs, frequencies, interrupts, load.
//!
//! Everything is read from files under a root, which is `/` but for tests. A file that is not
//! there makes a fact unknown, never an error: kernels and containers differ in what they show.

mod fingerprint;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::scheduling::parse_cpu_list;

/// Facts about a host, read when asked for.
#[derive(Clone, Debug)]
pub struct HostFacts {
    root: PathBuf,
}

/// One source of interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// What it is for, as the kernel prints it.
    pub name: String,
    /// How often each CPU took it since boot, by CPU.
    pub counts: BTreeMap<u32, u64>,
    /// The CPUs that may take it, if the kernel says.
    pub affinity: Vec<u32>,
}

/// CPU time since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Spent on anything but idling, interrupts included.
    pub busy: u64,
    /// Idle, or waiting for input and output.
    pub idle: u64,
    /// Taken by the hypervisor for others.
    pub stolen: u64,
}

impl CpuTimes {
    /// The shares of busy and stolen time between `earlier` and now, from 0 to 1.
    pub fn shares_since(&self, earlier: &Self) -> (f64, f64) {
        let busy = self.busy.saturating_sub(earlier.busy) as f64;
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let stolen = self.stolen.saturating_sub(earlier.stolen) as f64;
        let total = (busy + idle + stolen).max(1.0);
        (busy / total, stolen / total)
    }
}

/// Real-time throttling: FIFO and round-robin threads get `runtime_us` of every `period_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// Below zero: throttling is off.
    pub runtime_us: i64,
    /// The period.
    pub period_us: u64,
}

impl HostFacts {
    /// Facts about the host that this runs on.
    pub fn of_this_host() -> Self {
        Self::under("/")
    }

    /// Facts from a copy of /proc, /sys and /etc under `root`.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&text).trim().to_string();
        (!text.is_empty()).then_some(text)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn of_cpu(&self, cpu: u32, file: &str) -> Option<String> {
        self.read(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}"))
    }

    /// The CPUs that are on, ascending.
    pub fn online_cpus(&self) -> Vec<u32> {
        cpus_in(self.read("/sys/devices/system/cpu/online"))
    }

    /// The frequency governor of a CPU, if its frequency is governed at all.
    pub fn governor(&self, cpu: u32) -> Option<String> {
        self.of_cpu(cpu, "cpufreq/scaling_governor")
    }

    /// The lowest and highest frequency that a CPU may be set to, in kHz.
    pub fn frequency_range_khz(&self, cpu: u32) -> Option<(u64, u64)> {
        let of = |file: &str| self.of_cpu(cpu, file)?.parse().ok();
        Some((
            of("cpufreq/scaling_min_freq")?,
            of("cpufreq/scaling_max_freq")?,
        ))
    }

    /// The other logical CPUs of the same core, ascending.
    pub fn smt_siblings(&self, cpu: u32) -> Vec<u32> {
        let mut cpus = cpus_in(self.of_cpu(cpu, "topology/thread_siblings_list"));
        cpus.retain(|other| *other != cpu);
        cpus
    }

    /// CPU time since boot, by CPU.
    pub fn cpu_times(&self) -> BTreeMap<u32, CpuTimes> {
        let text = self.read("/proc/stat").unwrap_or_default();
        text.lines().filter_map(parse_cpu_times).collect()
    }

    /// The numbered interrupts.
    pub fn interrupts(&self) -> Vec<Interrupt> {
        let text = self.read("/proc/interrupts").unwrap_or_default();
        let mut interrupts = parse_interrupts(&text);
        for interrupt in &mut interrupts {
            let file = |name: &str| self.read(&format!("/proc/irq/{}/{name}", interrupt.number));
            let listed = file("effective_affinity_list").or_else(|| file("smp_affinity_list"));
            interrupt.affinity = cpus_in(listed);
        }
        interrupts
    }

    /// Real-time throttling, if the kernel says.
    pub fn throttling(&self) -> Option<Throttling> {
        let of = |file: &str| self.read(&format!("/proc/sys/kernel/sched_rt_{file}_us"));
        Some(Throttling {
            runtime_us: of("runtime")?.parse().ok()?,
            period_us: of("period")?.parse().ok()?,
        })
    }

    /// What the kernel's fair server may take from real-time threads on a CPU for ordinary ones,
    /// as run time and period in nanoseconds. `None` where the kernel has none or does not show it
    /// (debugfs).
    pub fn fair_server_ns(&self, cpu: u32) -> Option<(u64, u64)> {
        let of = |file: &str| {
            let path = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/{file}");
            self.read(&path)?.parse().ok()
        };
        Some((of("runtime")?, of("period")?))
    }

    /// Where cgroup v2 is mounted without `favordynmods`, on a kernel that knows it (6.0). There,
    /// whoever moves a process between cgroups holds the lock that freezing needs for an RCU
    /// grace period; moves of 8 ms (median) to 20 ms were seen, and of 0.1 ms with the option.
    pub fn slow_cgroup_moves(&self) -> Option<PathBuf> {
        if self.kernel_version()? < (6, 0) {
            return None;
        }
        let mounts = self.read("/proc/self/mounts")?;
        let mut slow = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
            let fast = options.split(',').any(|option| option == "favordynmods");
            (kind == "cgroup2" && !fast).then(|| PathBuf::from(at))
        });
        slow.next()
    }

    /// The kernel's release as major and minor number.
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        version_of_release(&self.read("/proc/sys/kernel/osrelease")?)
    }

    /// What identifies the host and may influence timing, by name; what is unknown is left out.
    pub fn fingerprint(&self) -> BTreeMap<String, String> {
        fingerprint::fingerprint(self)
    }

    fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// The CPUs of a list such as `0-3,5,8-9`, ascending; without a list, or for what is no list, none.
fn cpus_in(list: Option<String>) -> Vec<u32> {
    let cpus = parse_cpu_list(&list.unwrap_or_default()).unwrap_or_default();
    cpus.into_iter().collect()
}

/// The first two numbers of a release such as `6.18.44-x`.
pub(crate) fn version_of_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// One `cpuN` line of /proc/stat.
fn parse_cpu_times(line: &str) -> Option<(u32, CpuTimes)> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let tick = |place: usize| ticks.get(place).copied().unwrap_or(0);
    ticks.get(3)?;
    let busy = [0, 1, 2, 5, 6].map(tick).into_iter();
    let times = CpuTimes {
        busy: busy.fold(0, u64::saturating_add),
        idle: tick(3).saturating_add(tick(4)),
        stolen: tick(7),
    };
    Some((cpu, times))
}

/// The numbered lines of /proc/interrupts, without affinities.
fn parse_interrupts(text: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let cpus: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number = number.trim().parse().ok()?;
            let mut words = rest.split_ascii_whitespace();
            let mut counts = BTreeMap::new();
            for cpu in &cpus {
                counts.insert(*cpu, words.next()?.parse().ok()?);
            }
            Some(Interrupt {
                number,
                name: words.collect::<Vec<_>>().join(" "),
                counts,
                affinity: Vec::new(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_cpu_lists() {
        let listed = |text: &str| cpus_in(Some(text.to_owned()));
        assert_eq!(listed("0-2,5, 7-7\n"), [0, 1, 2, 5, 7]);
        assert!(listed("").is_empty() && cpus_in(None).is_empty());
        for wrong in ["a", "3-1", "1-", "0-4294967295"] {
            assert!(listed(wrong).is_empty(), "{wrong}");
        }
    }

    #[test]
    fn reads_cpu_times_and_their_shares() {
        let (cpu, before) = parse_cpu_times("cpu1 10 0 10 100 0 0 0 0 0 0").unwrap();
        let (_, after) = parse_cpu_times("cpu1 30 5 15 150 10 2 3 5 9 9").unwrap();
        assert_eq!(cpu, 1);
        let (busy, stolen) = after.shares_since(&before);
        assert!((busy - 35.0 / 100.0).abs() < 1e-9 && (stolen - 0.05).abs() < 1e-9);
        assert_eq!(parse_cpu_times("cpu  1 2 3 4"), None);
        assert_eq!(parse_cpu_times("intr 1"), None);
        assert_eq!(before.shares_since(&before), (0.0, 0.0));
    }

    #[test]
    fn reads_interrupts() {
        let text = "           CPU0       CPU2\n 24:   1   7  IO-APIC   5-edge      disk\n\
                    TLB:  5 6  TLB shootdowns\n 25: 1\n";
        let interrupts = parse_interrupts(text);
        assert_eq!(interrupts.len(), 1);
        assert_eq!(interrupts[0].counts, BTreeMap::from([(0, 1), (2, 7)]));
        assert_eq!(interrupts[0].name, "IO-APIC 5-edge disk");
    }

    #[test]
    fn an_empty_root_knows_nothing_and_does_not_fail() {
        let facts = HostFacts::under("/nonexistent");
        assert!(facts.online_cpus().is_empty() && facts.interrupts().is_empty());
        assert!(facts.cpu_times().is_empty() && facts.smt_siblings(0).is_empty());
        assert_eq!((facts.governor(0), facts.throttling()), (None, None));
        assert_eq!(
            (facts.fair_server_ns(0), facts.kernel_version()),
            (None, None)
        );
    }

    #[test]
    fn slow_moves_between_cgroups_are_seen() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["proc/self", "proc/sys/kernel"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let slow = |release: &str, options: &str| {
            let mounts =
                format!("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw{options} 0 0\n");
            std::fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
            std::fs::write(root.path().join("proc/sys/kernel/osrelease"), release).unwrap();
            HostFacts::under(root.path()).slow_cgroup_moves()
        };
        assert_eq!(slow("6.1.0", ",nsdelegate"), Some("/sys/fs/cgroup".into()));
        assert_eq!(slow("6.1.0", ",favordynmods"), None);
        assert_eq!(slow("5.15.0", ""), None, "it does not know the option");
    }

    #[test]
    fn this_host_shows_its_cpus() {
        let facts = HostFacts::of_this_host();
        assert!(!facts.online_cpus().is_empty());
        assert!(facts.kernel_version().is_some());
        let fingerprint = facts.fingerprint();
        assert!(fingerprint.contains_key("kernel") && fingerprint.contains_key("cpus"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[0-9,\\- \n:CPU]{0,60}") {
            let _lists = parse_cpu_list(&text);
            let _times = parse_cpu_times(&text);
            let _interrupts = parse_interrupts(&text);
        }
    }
}
