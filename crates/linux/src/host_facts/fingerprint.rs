//! The host's fingerprint: name and value of what may influence timing.

use std::collections::BTreeMap;

use super::HostFacts;

/// Boot parameters that influence timing; others may hold secrets and are left out.
const TIMING_PARAMETERS: [&str; 24] = [
    "amd_pstate",
    "clocksource",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "haltpoll.guest_halt_poll_ns",
    "hugepages",
    "idle",
    "intel_idle.max_cstate",
    "intel_pstate",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "skew_tick",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
];

/// Facts that are one file each.
const FILES: [(&str, &str); 13] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    ("kernel-build", "/proc/sys/kernel/version"),
    ("cpus", "/sys/devices/system/cpu/online"),
    ("isolated-cpus", "/sys/devices/system/cpu/isolated"),
    ("tickless-cpus", "/sys/devices/system/cpu/nohz_full"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    ("frequency-boost", "/sys/devices/system/cpu/cpufreq/boost"),
    (
        "intel-pstate-no-turbo",
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
    ),
    (
        "idle-driver",
        "/sys/devices/system/cpu/cpuidle/current_driver",
    ),
    (
        "clock-source",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    (
        "clock-sources-available",
        "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    ),
    (
        "transparent-huge-pages",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ),
    ("timer-migration", "/proc/sys/kernel/timer_migration"),
];

pub(super) fn fingerprint(facts: &HostFacts) -> BTreeMap<String, String> {
    let mut fingerprint = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            fingerprint.insert(name.to_string(), value);
        }
    };
    for (name, path) in FILES {
        put(name, facts.read(path));
    }
    put("architecture", Some(std::env::consts::ARCH.into()));
    put("distribution", distribution(facts));
    put("memory", memory(facts));
    let cpuinfo = facts.read("/proc/cpuinfo").unwrap_or_default();
    put("cpu-model", cpu_model(&cpuinfo));
    put("microcode", field(&cpuinfo, "microcode"));
    put("virtualisation", Some(virtualisation(facts, &cpuinfo)));
    put("container", container(facts));
    put("governor", governors(facts));
    put("preemption", preemption(facts));
    put("mitigations", mitigations(facts));
    put("boot-parameters", boot_parameters(facts));
    put(
        "real-time-throttling",
        facts.throttling().map(|limit| match limit.runtime_us {
            ..0 => "off".into(),
            runtime => format!("{runtime}us in {}us", limit.period_us),
        }),
    );
    let fair = facts.online_cpus().first().and_then(|cpu| {
        let (runtime, period) = facts.fair_server_ns(*cpu)?;
        Some(format!("{runtime}ns in {period}ns"))
    });
    put("fair-server", fair);
    fingerprint
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 and PowerPC, ARM boards, and what is left.
    ["model name", "cpu", "Model", "CPU part"]
        .iter()
        .find_map(|name| field(cpuinfo, name))
}

fn distribution(facts: &HostFacts) -> Option<String> {
    let text = facts.read("/etc/os-release")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

fn memory(facts: &HostFacts) -> Option<String> {
    field(&facts.read("/proc/meminfo")?, "MemTotal")
}

fn virtualisation(facts: &HostFacts, cpuinfo: &str) -> String {
    let of_firmware = || {
        let vendor = facts.read("/sys/class/dmi/id/sys_vendor")?;
        let product = facts.read("/sys/class/dmi/id/product_name");
        Some(
            format!("{vendor} {}", product.unwrap_or_default())
                .trim()
                .to_string(),
        )
    };
    if let Some(kind) = facts.read("/sys/hypervisor/type") {
        return kind;
    }
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    if flags
        .split_ascii_whitespace()
        .any(|flag| flag == "hypervisor")
    {
        return match of_firmware() {
            Some(firmware) => format!("virtual machine ({firmware})"),
            None => "virtual machine".into(),
        };
    }
    "none seen".into()
}

fn container(facts: &HostFacts) -> Option<String> {
    if let Some(kind) = facts.read("/run/systemd/container") {
        return Some(kind);
    }
    facts.exists("/.dockerenv").then(|| "docker".into())
}

fn governors(facts: &HostFacts) -> Option<String> {
    let mut governors: Vec<String> = facts
        .online_cpus()
        .into_iter()
        .filter_map(|cpu| facts.governor(cpu))
        .collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        return Some("frequency not governed by this kernel".into());
    }
    let driver = facts.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver");
    Some(format!(
        "{} ({})",
        governors.join(", "),
        driver.unwrap_or_default()
    ))
}

fn preemption(facts: &HostFacts) -> Option<String> {
    if facts.read("/sys/kernel/realtime").as_deref() == Some("1") {
        return Some("real-time".into());
    }
    // Such as `none voluntary (full)`.
    let switched = facts.read("/sys/kernel/debug/sched/preempt");
    if let Some((_, rest)) = switched.as_deref().and_then(|text| text.split_once('(')) {
        return rest.split_once(')').map(|(model, _)| model.to_string());
    }
    let build = facts.read("/proc/sys/kernel/version")?;
    let named = ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT"];
    let preemption = named
        .iter()
        .find(|name| build.split_ascii_whitespace().any(|word| word == **name));
    Some(match preemption {
        Some(&"PREEMPT_RT") => "real-time".into(),
        Some(&"PREEMPT_DYNAMIC") => "chosen at boot; which one is not shown without debugfs".into(),
        Some(&"PREEMPT_LAZY") => "lazy".into(),
        Some(_) => "full".into(),
        None => "none or voluntary".into(),
    })
}

/// What the kernel does against flaws of the CPU, those it is not affected by left out.
fn mitigations(facts: &HostFacts) -> Option<String> {
    let folder = facts.path("/sys/devices/system/cpu/vulnerabilities");
    let mut mitigations: Vec<String> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = text.trim();
            (text != "Not affected").then(|| format!("{name}: {text}"))
        })
        .collect();
    mitigations.sort();
    Some(mitigations.join("; "))
}

fn boot_parameters(facts: &HostFacts) -> Option<String> {
    let line = facts.read("/proc/cmdline")?;
    let kept: Vec<&str> = line
        .split_ascii_whitespace()
        .filter(|word| {
            let name = word.split_once('=').map_or(*word, |(name, _)| name);
            TIMING_PARAMETERS.contains(&name)
        })
        .collect();
    Some(kept.join(" "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn boot_parameters_keep_what_matters_and_no_secrets() {
        let folder = std::env::temp_dir().join(format!("host-facts-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        let line = "root=/dev/sda token=secret isolcpus=1 nosmt nohz_full=1\n";
        std::fs::write(folder.join("proc/cmdline"), line).unwrap();
        let kept = boot_parameters(&HostFacts::under(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(kept.as_deref(), Some("isolcpus=1 nosmt nohz_full=1"));
    }

    #[test]
    fn finds_fields_and_cpu_models() {
        let text = "processor : 0\nmodel name\t: A: B\nflags : x hypervisor\n";
        assert_eq!(cpu_model(text).as_deref(), Some("A: B"));
        assert_eq!(field(text, "none"), None);
        let kind = virtualisation(&HostFacts::under("/nonexistent"), text);
        assert_eq!(kind, "virtual machine");
    }
}
