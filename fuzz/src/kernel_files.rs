//! What the kernel, Xen's `xl` and procfs show.

use std::fs;
use std::path::Path;

use tailbound_linux::cgroup::parse_hierarchies;
use tailbound_linux::host_facts::HostFacts;
use tailbound_linux::scheduling::{format_cpu_list, parse_cpu_list};
use tailbound_linux::xen::{parse_pools, parse_vcpus};

/// Files below a root that all hold the fuzzed bytes.
const FILES: [&str; 13] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "proc/stat",
    "proc/interrupts",
    "proc/cpuinfo",
    "proc/self/mounts",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/sched_rt_runtime_us",
    "proc/sys/kernel/sched_rt_period_us",
];

/// Readers of the kernel's files take anything; the two readers of CPU lists agree.
pub fn check(bytes: &[u8]) {
    facts(bytes);
    let Some(text) = crate::text(bytes) else {
        return;
    };
    cpu_lists(text);
    for hierarchy in parse_hierarchies(text) {
        assert!(!hierarchy.unified || hierarchy.controllers.is_empty());
    }
    if let Err(error) = parse_vcpus(text) {
        assert!(
            (1..=text.lines().count() + 1).contains(&error.line),
            "{error}"
        );
    }
    if let Ok(pools) = parse_pools(text) {
        assert!(pools.len() <= text.lines().count());
    }
}

fn cpu_lists(text: &str) {
    if let Ok(cpus) = parse_cpu_list(text) {
        let written = format_cpu_list(cpus.iter().copied());
        assert_eq!(parse_cpu_list(&written).unwrap(), cpus);
    }
}

fn facts(bytes: &[u8]) {
    let root = crate::folder().join("root");
    for file in FILES {
        write(&root.join(file), bytes);
    }
    let facts = HostFacts::under(&root);
    let _any = (
        facts.online_cpus(),
        facts.governor(0),
        facts.frequency_range_khz(0),
        facts.smt_siblings(0),
        facts.interrupts(),
        facts.throttling(),
        facts.slow_cgroup_moves(),
        facts.kernel_version(),
    );
    for times in facts.cpu_times().values() {
        let (busy, stolen) = times.shares_since(times);
        assert!(busy.is_finite() && stolen.is_finite());
    }
    assert!(!facts.fingerprint().contains_key(""));
}

fn write(file: &Path, bytes: &[u8]) {
    if fs::write(file, bytes).is_err() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}
