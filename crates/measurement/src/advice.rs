//! What on this host may spoil a result, and what to do about it.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::host_facts::{CpuTimes, HostFacts};
use tailbound_model::{Cpu, CpuSet};
use tailbound_time::{Clock, Duration};

use crate::Noise;

/// How long the CPUs' load is watched.
const WATCH: Duration = Duration::from_millis(200);
/// The share of a CPU that others may use without a word.
const TOLERATED_LOAD: f64 = 0.10;
/// The share of a CPU that the hypervisor may take without a word.
const TOLERATED_STEAL: f64 = 0.01;
/// Interrupts of one source on a served CPU, per second, from which there is a word.
const TOLERATED_INTERRUPTS: f64 = 20.0;

/// Something that may spoil a result, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What was seen.
    pub what: String,
    /// What can be done.
    pub advice: String,
}

/// What advice is asked about.
#[derive(Clone, Debug, Default)]
pub struct AdviceQuery<'a> {
    /// The CPUs under reservations.
    pub served: CpuSet,
    /// The CPUs of load generators and everything else.
    pub housekeeping: CpuSet,
    /// Noise that was sampled before.
    pub noise: &'a [Noise],
    /// The highest share of lost time that needs no word, such as 0.01.
    pub tolerated_noise: f64,
}

/// Looks at the host as it is now. Takes about 0.2 s, in which it watches the CPUs' load; ask
/// before anything of the experiment runs.
pub fn advice(query: &AdviceQuery<'_>) -> Vec<Advice> {
    let facts = HostFacts::of_this_host();
    let before = CpuActivity::now(&facts);
    let _less_at_worst = sleep_until(Monotonic.now() + WATCH);
    let after = CpuActivity::now(&facts);
    let mut all = from_facts(&facts, query);
    all.extend(from_activity(query, &before, &after, WATCH));
    all.extend(from_noise(query));
    all
}

/// What the CPUs did so far.
#[derive(Clone, Debug, Default)]
struct CpuActivity {
    times: BTreeMap<u32, CpuTimes>,
    /// Counts of each interrupt source by CPU, by number and name.
    interrupts: BTreeMap<(u32, String), BTreeMap<u32, u64>>,
}

impl CpuActivity {
    fn now(facts: &HostFacts) -> Self {
        let sources = facts.interrupts().into_iter();
        Self {
            times: facts.cpu_times(),
            interrupts: sources
                .map(|source| ((source.number, source.name), source.counts))
                .collect(),
        }
    }
}

fn say(what: String, advice: &str) -> Advice {
    Advice {
        what,
        advice: advice.into(),
    }
}

fn list(cpus: &[Cpu]) -> String {
    let names: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// What stands in files and does not move.
fn from_facts(facts: &HostFacts, query: &AdviceQuery<'_>) -> Vec<Advice> {
    let mut all = frequency(facts, &query.served);
    all.extend(shared_cores(facts, &query.served));
    all.extend(throttling(facts));
    all.extend(fair_server(facts, &query.served));
    all.extend(slow_cgroup_moves(facts));
    let both: Vec<Cpu> = query
        .served
        .intersection(&query.housekeeping)
        .copied()
        .collect();
    if !both.is_empty() {
        all.push(say(
            format!("CPU {} is both served and for housekeeping", list(&both)),
            "give load generators a CPU of their own, or they delay what they measure",
        ));
    }
    let online = facts.online_cpus();
    let asked = query.served.union(&query.housekeeping);
    let missing: Vec<Cpu> = asked
        .filter(|cpu| !online.contains(&cpu.0))
        .copied()
        .collect();
    if !online.is_empty() && !missing.is_empty() {
        all.push(say(
            format!("CPU {} is not online", list(&missing)),
            "name CPUs that this host has",
        ));
    }
    all
}

fn frequency(facts: &HostFacts, served: &CpuSet) -> Vec<Advice> {
    let mut by_governor: BTreeMap<String, Vec<Cpu>> = BTreeMap::new();
    for cpu in served {
        let fixed = facts
            .frequency_range_khz(cpu.0)
            .is_some_and(|(low, high)| low == high);
        if let Some(governor) = facts.governor(cpu.0)
            && governor != "performance"
            && !fixed
        {
            by_governor.entry(governor).or_default().push(*cpu);
        }
    }
    let advice = by_governor.into_iter().map(|(governor, cpus)| {
        say(
            format!(
                "the frequency of CPU {} changes with load (governor {governor}), and execution \
                 times with it",
                list(&cpus)
            ),
            "set the governor to performance: cpupower frequency-set -g performance",
        )
    });
    advice.collect()
}

fn shared_cores(facts: &HostFacts, served: &CpuSet) -> Vec<Advice> {
    let advice = served.iter().filter_map(|cpu| {
        let siblings: Vec<Cpu> = facts.smt_siblings(cpu.0).into_iter().map(Cpu).collect();
        (!siblings.is_empty()).then(|| {
            say(
                format!("CPU {cpu} shares its core with CPU {}", list(&siblings)),
                "leave the sibling idle (offline, or in an isolated cpuset), or switch SMT off: \
                 what runs there slows down what runs here by up to half",
            )
        })
    });
    advice.collect()
}

fn slow_cgroup_moves(facts: &HostFacts) -> Option<Advice> {
    let at = facts.slow_cgroup_moves()?;
    Some(Advice {
        what: format!(
            "cgroup v2 at {} is mounted without favordynmods: while anybody moves a process \
             between cgroups, the kernel may hold up reservations (such a move took up to 20 ms)",
            at.display()
        ),
        advice: format!(
            "start no containers or services while measuring, or: mount -o \
             remount,favordynmods {}",
            at.display()
        ),
    })
}

fn throttling(facts: &HostFacts) -> Option<Advice> {
    let limit = facts.throttling()?;
    if limit.runtime_us < 0 {
        return Some(say(
            "real-time throttling is off".into(),
            "switch it on (sysctl kernel.sched_rt_runtime_us=950000): without it a runaway \
             real-time thread takes its CPU for good",
        ));
    }
    let share = limit.runtime_us as f64 / limit.period_us.max(1) as f64;
    (share < 0.5).then(|| {
        say(
            format!(
                "real-time threads may use only {:.0}% of a CPU",
                share * 100.0
            ),
            "raise kernel.sched_rt_runtime_us above the bandwidth of all reservations of a CPU",
        )
    })
}

fn fair_server(facts: &HostFacts, served: &CpuSet) -> Option<Advice> {
    let advice = "keep the bandwidth of all reservations of a CPU below the rest (95%), or keep \
                  ordinary tasks off it";
    for cpu in served {
        match facts.fair_server_ns(cpu.0) {
            Some((runtime, period)) if runtime > 0 => {
                return Some(say(
                    format!(
                        "the kernel's fair server gives ordinary tasks {} in every {} of CPU \
                         {cpu}, before real-time threads",
                        Duration::from_nanos(runtime),
                        Duration::from_nanos(period)
                    ),
                    advice,
                ));
            }
            Some(_) => {}
            // Not shown; the kernel has one from 6.12 on, with 50 ms a second unless changed.
            None if facts
                .kernel_version()
                .is_some_and(|version| version >= (6, 12)) =>
            {
                return Some(say(
                    format!(
                        "this kernel has a fair server: once real-time threads take all of CPU \
                         {cpu}, ordinary tasks get 50 ms a second before them (whether it is on \
                         could not be seen: debugfs is not mounted or not ours)"
                    ),
                    advice,
                ));
            }
            None => {}
        }
    }
    None
}

/// What others do on the CPUs.
fn from_activity(
    query: &AdviceQuery<'_>,
    before: &CpuActivity,
    after: &CpuActivity,
    watched: Duration,
) -> Vec<Advice> {
    let mut all = Vec::new();
    for cpu in query.served.union(&query.housekeeping) {
        let times = before.times.get(&cpu.0).zip(after.times.get(&cpu.0));
        let Some((earlier, now)) = times else {
            continue;
        };
        let (busy, stolen) = now.shares_since(earlier);
        if busy > TOLERATED_LOAD {
            all.push(say(
                format!("others use {:.0}% of CPU {cpu}", busy * 100.0),
                "stop them or move them to other CPUs (taskset, cpusets) while measuring",
            ));
        }
        if stolen > TOLERATED_STEAL {
            all.push(say(
                format!(
                    "the hypervisor takes {:.0}% of CPU {cpu} away",
                    stolen * 100.0
                ),
                "measure on a host of its own, or compare only runs that are interleaved",
            ));
        }
    }
    all.extend(busy_interrupts(&query.served, before, after, watched));
    all
}

fn busy_interrupts(
    served: &CpuSet,
    before: &CpuActivity,
    after: &CpuActivity,
    watched: Duration,
) -> Vec<Advice> {
    let mut all = Vec::new();
    for (source, counts) in &after.interrupts {
        for cpu in served {
            let now = counts.get(&cpu.0).copied().unwrap_or(0);
            let earlier = before.interrupts.get(source);
            let earlier = earlier.and_then(|counts| counts.get(&cpu.0)).copied();
            let new = now.saturating_sub(earlier.unwrap_or(now));
            let rate = new as f64 / watched.as_secs_f64();
            if rate > TOLERATED_INTERRUPTS {
                let (number, name) = source;
                all.push(say(
                    format!(
                        "interrupt {number} ({name}) comes {rate:.0} times a second to CPU {cpu}"
                    ),
                    &format!(
                        "move it: write housekeeping CPUs to /proc/irq/{number}/smp_affinity_list"
                    ),
                ));
            }
        }
    }
    all
}

fn from_noise(query: &AdviceQuery<'_>) -> Vec<Advice> {
    let loud = query
        .noise
        .iter()
        .filter(|noise| noise.share() > query.tolerated_noise);
    let advice = loud.map(|noise| {
        say(
            format!(
                "a busy thread on CPU {} lost {:.2}% of its time, {} at once at worst",
                noise.cpu,
                noise.share() * 100.0,
                noise.longest
            ),
            "compare with the noise floor (the same setting measured twice) before trusting \
             small differences; fewer interrupts, a quieter host or isolcpus make it smaller",
        )
    });
    advice.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::path::Path;

    use tailbound_distribution::{Distribution, Evidence, Provenance};

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Four CPUs, of which CPU 1 has this governor and these siblings.
    fn put_cpus(root: &Path, governor: &str, siblings: &str) {
        let cpu = "sys/devices/system/cpu";
        put(root, &format!("{cpu}/online"), "0-3\n");
        let files = [
            ("cpufreq/scaling_governor", governor),
            ("topology/thread_siblings_list", siblings),
        ];
        for (file, text) in files {
            put(root, &format!("{cpu}/cpu1/{file}"), &format!("{text}\n"));
        }
    }

    fn query(served: &[u32], housekeeping: &[u32]) -> AdviceQuery<'static> {
        let set = |cpus: &[u32]| cpus.iter().map(|cpu| Cpu(*cpu)).collect();
        AdviceQuery {
            served: set(served),
            housekeeping: set(housekeeping),
            noise: &[],
            tolerated_noise: 0.01,
        }
    }

    fn in_words(all: &[Advice]) -> String {
        let lines: Vec<String> = all
            .iter()
            .map(|one| format!("{}: {}", one.what, one.advice))
            .collect();
        lines.join("\n")
    }

    #[test]
    fn a_quiet_host_needs_no_word() {
        let folder = tempfile::tempdir().unwrap();
        put_cpus(folder.path(), "performance", "1");
        put(
            folder.path(),
            "proc/sys/kernel/sched_rt_runtime_us",
            "950000\n",
        );
        put(
            folder.path(),
            "proc/sys/kernel/sched_rt_period_us",
            "1000000\n",
        );
        put(
            folder.path(),
            "proc/sys/kernel/osrelease",
            "6.1.0-30-amd64\n",
        );
        let all = from_facts(&HostFacts::under(folder.path()), &query(&[1], &[0]));
        assert_eq!(all, []);
    }

    #[test]
    fn each_flaw_of_a_host_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        put_cpus(folder.path(), "schedutil", "1,3");
        put(folder.path(), "proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        put(
            folder.path(),
            "proc/sys/kernel/sched_rt_period_us",
            "1000000\n",
        );
        put(folder.path(), "proc/sys/kernel/osrelease", "6.12.1\n");
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        put(folder.path(), "proc/self/mounts", mounts);
        let facts = HostFacts::under(folder.path());
        let text = in_words(&from_facts(&facts, &query(&[1, 9], &[1])));
        for expected in [
            "governor schedutil",
            "shares its core with CPU 3",
            "throttling is off",
            "fair server",
            "remount,favordynmods /sys/fs/cgroup",
            "both served and for housekeeping",
            "CPU 9 is not online",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let fair = "sys/kernel/debug/sched/fair_server/cpu1";
        put(folder.path(), &format!("{fair}/runtime"), "0\n");
        put(folder.path(), &format!("{fair}/period"), "1000000000\n");
        let text = in_words(&from_facts(&facts, &query(&[1], &[0])));
        assert!(!text.contains("fair server"), "it is off:\n{text}");
    }

    #[test]
    fn load_stolen_time_and_interrupts_are_seen_between_two_looks() {
        let activity = |busy, idle, stolen, count| CpuActivity {
            times: BTreeMap::from([(1, CpuTimes { busy, idle, stolen })]),
            interrupts: BTreeMap::from([((24, "disk".into()), BTreeMap::from([(1, count)]))]),
        };
        let (before, after) = (activity(100, 100, 0, 1000), activity(115, 180, 5, 1010));
        let text = in_words(&from_activity(&query(&[1], &[]), &before, &after, WATCH));
        for expected in [
            "others use 15% of CPU 1",
            "takes 5% of CPU 1",
            "interrupt 24 (disk) comes 50",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let calm = activity(101, 195, 0, 1001);
        assert_eq!(from_activity(&query(&[1], &[]), &before, &calm, WATCH), []);
    }

    #[test]
    fn only_noise_above_the_level_is_told() {
        let noise = |lost_us| Noise {
            cpu: Cpu(1),
            sampled: Duration::from_secs(1),
            fifo: true,
            threshold: Duration::from_micros(2),
            lost: Duration::from_micros(lost_us),
            longest: Duration::from_micros(700),
            gaps: Distribution::from_samples(Provenance::new(Evidence::Sample, "", ""), vec![]),
        };
        let noises = [noise(900), noise(25_000)];
        let mut query = query(&[1], &[0]);
        query.noise = &noises;
        let text = in_words(&from_noise(&query));
        assert!(
            text.contains("lost 2.50% of its time, 700us") && text.lines().count() == 1,
            "{text}"
        );
    }

    #[test]
    fn looking_at_this_host_works() {
        let _whatever_it_says = advice(&query(&[0], &[0]));
    }
}
