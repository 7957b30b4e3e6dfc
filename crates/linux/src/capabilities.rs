//! What the kernel and our privileges allow on this host.
//!
//! [`HostCapabilities::probe`] looks; it changes nothing that outlives it. The environment variable
//! `TAILBOUND_WITHOUT=feature,feature` (names of [`Feature`]) hides features from it, to see what
//! Tailbound does on kernels that lack them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{IntoDeserializer, value};
use serde::{Deserialize, Serialize};

mod kernel_events;
mod probe;

/// Whether this process has an effective capability, such as `CAP_SYS_ADMIN`.
pub fn is_privileged(capability: &str) -> bool {
    probe::privileges().contains(capability)
}

/// The variable whose comma-separated [`Feature`] names the probe hides.
pub const WITHOUT_VARIABLE: &str = "TAILBOUND_WITHOUT";

/// Something that a host may or may not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Feature {
    /// A cgroup v2 hierarchy in which we may make groups.
    CgroupV2,
    /// `cgroup.freeze` in cgroup v2 (Linux 5.2).
    FreezerV2,
    /// Threaded cgroups (Linux 4.14).
    ThreadedCgroups,
    /// The cpu controller in cgroup v2 (`cpu.max`).
    CpuV2,
    /// The cpuset controller in cgroup v2 (`cpuset.cpus.partition`).
    CpusetV2,
    /// CFS quotas in a cgroup v1 cpu hierarchy.
    QuotaV1,
    /// Quotas that a group saves up for bursts (Linux 5.14).
    QuotaBurst,
    /// Groups that run only while nothing else does (`cpu.idle`, Linux 5.15).
    IdleGroups,
    /// Real-time budgets in a cgroup v1 cpu hierarchy (`cpu.rt_runtime_us`).
    RtRuntimeV1,
    /// Real-time budgets in a cgroup v2 cpu hierarchy (`cpu.rt.max`), which are proposed and in no release yet.
    RtMaxV2,
    /// A cgroup v1 cpuset hierarchy.
    CpusetV1,
    /// SCHED_FIFO for our threads.
    SchedFifo,
    /// SCHED_DEADLINE for our threads.
    SchedDeadline,
    /// High-resolution enforcement of SCHED_DEADLINE budgets.
    HrtickDl,
    /// RT throttling is on, so that a real-time loop cannot take a CPU whole.
    RtThrottling,
    /// The server that gives SCHED_OTHER time beneath real-time threads (Linux 6.12).
    FairServer,
    /// CPU time of a cgroup as a perf event.
    PerfCgroupEvents,
    /// Loadable schedulers (Linux 6.12).
    SchedExt,
    /// Memory of our real-time threads can be locked.
    LockMemory,
    /// Recordings of the kernel's events, in instances of tracefs.
    KernelEvents,
    /// Xen's RTDS scheduler, from the control domain.
    XenRtds,
    /// Threads of the kernel for packets that network devices receive (threaded NAPI, Linux 5.12).
    ReceiveThreads,
}

impl Feature {
    /// All there are.
    pub const ALL: [Self; 22] = [
        Self::CgroupV2,
        Self::FreezerV2,
        Self::ThreadedCgroups,
        Self::CpuV2,
        Self::CpusetV2,
        Self::QuotaV1,
        Self::QuotaBurst,
        Self::IdleGroups,
        Self::RtRuntimeV1,
        Self::RtMaxV2,
        Self::CpusetV1,
        Self::SchedFifo,
        Self::SchedDeadline,
        Self::HrtickDl,
        Self::RtThrottling,
        Self::FairServer,
        Self::PerfCgroupEvents,
        Self::SchedExt,
        Self::LockMemory,
        Self::KernelEvents,
        Self::XenRtds,
        Self::ReceiveThreads,
    ];

    /// The features that are nothing without this one.
    pub const fn supports(self) -> &'static [Self] {
        match self {
            Self::CgroupV2 => &[
                Self::FreezerV2,
                Self::ThreadedCgroups,
                Self::CpuV2,
                Self::CpusetV2,
                Self::RtMaxV2,
                Self::PerfCgroupEvents,
            ],
            Self::CpuV2 => &[Self::RtMaxV2],
            Self::SchedDeadline => &[Self::HrtickDl],
            _ => &[],
        }
    }
}

/// The name in `TAILBOUND_WITHOUT` and in results.
impl fmt::Display for Feature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

/// A text that names no [`Feature`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is no feature; the features are {}", Feature::ALL.map(|one| one.to_string()).join(", "))]
pub struct UnknownFeature {
    /// The text.
    pub name: String,
}

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let read = Self::deserialize(name.trim().into_deserializer());
        read.map_err(|_: value::Error| UnknownFeature { name: name.into() })
    }
}

/// What was found of one feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether it works for us, now.
    pub works: bool,
    /// The state of the host that was looked at.
    #[serde(rename = "found")]
    pub state: String,
    /// What the user can do to have it; empty if it works or nothing helps.
    pub remedy: String,
}

/// The kernel's preemption model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// Kernel code is preempted at few points.
    None,
    /// Kernel code is preempted at marked points.
    Voluntary,
    /// Kernel code is preemptible.
    Full,
    /// Real-time threads preempt at once, others at the tick (Linux 6.13).
    Lazy,
    /// PREEMPT_RT.
    RealTime,
    /// Could not be told.
    #[default]
    Unknown,
}

/// `sched_rt_runtime_us` of a kernel as it is installed.
const USUAL_RT_RUNTIME_US: i64 = 950_000;

/// `sched_rt_period_us` of a kernel as it is installed.
const USUAL_RT_PERIOD_US: u64 = 1_000_000;

/// What the kernel and our privileges allow on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCapabilities {
    /// As `uname -r` prints it.
    pub kernel_release: String,
    /// Our effective user.
    pub uid: u32,
    /// Our effective capabilities that matter here, such as `CAP_SYS_NICE`.
    pub privileges: BTreeSet<String>,
    /// CPUs that are on.
    pub online_cpus: BTreeSet<u32>,
    /// CPUs kept from the general scheduler at boot (`isolcpus=`).
    pub isolated_cpus: BTreeSet<u32>,
    /// Ticks per second, if it could be told; 250 is assumed otherwise where it matters.
    pub tick_hz: Option<u32>,
    /// The preemption model.
    pub preemption: Preemption,
    /// The root of cgroup v2, wherever it is mounted.
    pub cgroup_v2_root: Option<PathBuf>,
    /// The controllers that cgroup v2 has.
    pub cgroup_v2_controllers: BTreeSet<String>,
    /// The roots of the cgroup v1 hierarchies, by controller.
    pub cgroup_v1_roots: BTreeMap<String, PathBuf>,
    /// `sched_rt_runtime_us`: real-time time per period and CPU; -1 if throttling is off.
    pub rt_runtime_us: Option<i64>,
    /// `sched_rt_period_us`.
    pub rt_period_us: Option<u64>,
    /// What groups with real-time budgets may have of each CPU together (`cpu.rt.max` of the root of cgroup v2), as
    /// runtime and period in microseconds; `None` where the kernel has no such bound.
    #[serde(default)]
    pub rt_groups_us: Option<(u64, u64)>,
    /// Whether the kernel refuses real-time threads in cpu cgroups without a budget (CONFIG_RT_GROUP_SCHED in force).
    pub rt_group_sched: bool,
    /// What was found of every feature.
    pub findings: BTreeMap<Feature, Finding>,
}

impl HostCapabilities {
    /// Whether `feature` works here.
    pub fn has(&self, feature: Feature) -> bool {
        self.findings
            .get(&feature)
            .is_some_and(|finding| finding.works)
    }

    /// Looks at this host. Features named by `TAILBOUND_WITHOUT` are hidden; names there that are
    /// none of a feature are passed over.
    pub fn probe() -> Self {
        let capabilities = probe::probe();
        let hidden = std::env::var(WITHOUT_VARIABLE).unwrap_or_default();
        let hidden: Vec<Feature> = hidden
            .split(',')
            .filter_map(|name| name.parse().ok())
            .collect();
        capabilities.without(&hidden)
    }

    /// A host with these CPUs on which every feature works, with the limits of a kernel as it is installed: for hosts of
    /// which no more is known than their CPUs.
    pub fn usual(online_cpus: impl IntoIterator<Item = u32>) -> Self {
        let taken_for_granted = |_| Finding {
            works: true,
            state: "it is taken for granted of a host that is not looked at".into(),
            remedy: String::new(),
        };
        let findings = Feature::ALL.map(|feature| (feature, taken_for_granted(feature)));
        Self {
            online_cpus: online_cpus.into_iter().collect(),
            rt_runtime_us: Some(USUAL_RT_RUNTIME_US),
            rt_period_us: Some(USUAL_RT_PERIOD_US),
            findings: findings.into(),
            ..Self::default()
        }
    }

    /// The same host without `features` and what rests on them, to see how others fare.
    #[must_use]
    pub fn without(mut self, features: &[Feature]) -> Self {
        for &feature in features {
            self.hide(feature);
            for &resting in feature.supports() {
                self.hide(resting);
            }
        }
        self
    }

    fn hide(&mut self, feature: Feature) {
        let finding = Finding {
            works: false,
            state: "hidden on request".into(),
            remedy: format!("take {feature} out of {WITHOUT_VARIABLE}"),
        };
        self.findings.insert(feature, finding);
        match feature {
            Feature::CgroupV2 => self.cgroup_v2_root = None,
            Feature::CpuV2 => _ = self.cgroup_v2_controllers.remove("cpu"),
            Feature::CpusetV2 => _ = self.cgroup_v2_controllers.remove("cpuset"),
            Feature::CpusetV1 => _ = self.cgroup_v1_roots.remove("cpuset"),
            _ => {}
        }
    }

    /// The length of a tick; 4 ms (HZ=250) if it could not be told.
    pub fn tick(&self) -> tailbound_time::Duration {
        let hertz = u64::from(self.tick_hz.unwrap_or(250).max(1));
        tailbound_time::Duration::from_nanos(1_000_000_000 / hertz)
    }

    /// RT throttling as the kernel tells it, if it does.
    pub fn throttling(&self) -> Option<crate::host_facts::Throttling> {
        Some(crate::host_facts::Throttling {
            runtime_us: self.rt_runtime_us?,
            period_us: self.rt_period_us?,
        })
    }

    /// The share of each CPU that real-time threads may use, as time and period in microseconds;
    /// `None` if RT throttling is off or could not be read.
    pub fn rt_share(&self) -> Option<(u64, u64)> {
        let runtime = u64::try_from(self.rt_runtime_us?).ok()?;
        Some((runtime, self.rt_period_us.filter(|&period| period > 0)?))
    }

    /// What was found of `feature`.
    pub fn finding(&self, feature: Feature) -> Finding {
        self.findings.get(&feature).cloned().unwrap_or(Finding {
            works: false,
            state: "it was not looked for".into(),
            remedy: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn features_are_told_by_name() {
        for feature in Feature::ALL {
            assert_eq!(feature.to_string().parse(), Ok(feature));
            assert_eq!(format!(" {feature}").parse(), Ok(feature));
        }
        assert_eq!(format!("{:>12}", Feature::CgroupV2), "   cgroup-v2");
        assert!(
            "freezer"
                .parse::<Feature>()
                .unwrap_err()
                .to_string()
                .contains("freezer-v2")
        );
    }

    #[test]
    fn every_feature_is_looked_for_and_told() {
        let host = HostCapabilities::probe();
        for feature in Feature::ALL {
            let finding = &host.findings[&feature];
            assert!(!finding.state.is_empty(), "{feature}");
            assert!(
                finding.works || finding.state != "it was not looked for",
                "{feature}"
            );
        }
        assert!(!host.online_cpus.is_empty());
        assert!(!host.kernel_release.is_empty());
    }

    #[test]
    fn hiding_a_feature_hides_what_rests_on_it() {
        let works = Finding {
            works: true,
            state: "yes".into(),
            remedy: String::new(),
        };
        let host = HostCapabilities {
            cgroup_v2_root: Some("/x".into()),
            findings: Feature::ALL
                .into_iter()
                .map(|f| (f, works.clone()))
                .collect(),
            ..Default::default()
        };
        let hidden = host.clone().without(&[Feature::CgroupV2]);
        assert!(host.has(Feature::FreezerV2) && !hidden.has(Feature::FreezerV2));
        assert!(hidden.cgroup_v2_root.is_none() && hidden.has(Feature::SchedFifo));
    }

    #[test]
    fn the_rt_share_needs_throttling() {
        let host = |runtime| HostCapabilities {
            rt_runtime_us: Some(runtime),
            rt_period_us: Some(1_000_000),
            ..Default::default()
        };
        assert_eq!(host(950_000).rt_share(), Some((950_000, 1_000_000)));
        assert_eq!(host(-1).rt_share(), None);
    }
}
