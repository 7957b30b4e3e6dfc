//! Interference on every CPU of a host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_model::{Cpu, CpuSet, Host};

use super::InterferenceLoad;

/// `HostInterference` is the interference on each CPU of a host, as far as it has a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<CpuInterference>", into = "Vec<CpuInterference>")]
pub struct HostInterference(BTreeMap<Cpu, InterferenceLoad>);

/// `CpuInterference` is an entry of [`HostInterference`] in a file or message. A map would do in JSON, but its keys are texts,
/// which are no numbers of CPUs any more once a tagged line of a journal has buffered them.
#[derive(Serialize, Deserialize)]
struct CpuInterference {
    cpu: Cpu,
    sources: InterferenceLoad,
}

impl From<Vec<CpuInterference>> for HostInterference {
    fn from(entries: Vec<CpuInterference>) -> Self {
        let mut all = Self::default();
        for CpuInterference { cpu, sources } in entries {
            all.0.entry(cpu).or_default().include(&sources);
        }
        all
    }
}

impl From<HostInterference> for Vec<CpuInterference> {
    fn from(all: HostInterference) -> Self {
        let entries = all.0.into_iter();
        entries
            .map(|(cpu, sources)| CpuInterference { cpu, sources })
            .collect()
    }
}

impl HostInterference {
    /// The interference that a description of the host names. CPUs without a bound are left out; reading the description
    /// warns of them.
    pub fn described(host: &Host) -> Self {
        let loads = InterferenceLoad::of_host(host).into_iter();
        Self(
            loads
                .filter_map(|(cpu, load)| Some((cpu, load.ok()?)))
                .collect(),
        )
    }

    /// The part of it that is on these CPUs.
    #[must_use]
    pub fn on_cpus(&self, cpus: &CpuSet) -> Self {
        let here = self.0.iter().filter(|(cpu, _)| cpus.contains(cpu));
        Self(here.map(|(cpu, load)| (*cpu, load.clone())).collect())
    }

    /// The interference on one CPU.
    pub fn on(&self, cpu: Cpu) -> InterferenceLoad {
        self.0.get(&cpu).cloned().unwrap_or_default()
    }

    /// Adds what another description says of the same host. Sources of one CPU with the same name are the same source; where
    /// their bounds differ, the larger one counts in each window.
    pub fn include(&mut self, other: &Self) {
        for (cpu, load) in &other.0 {
            self.0.entry(*cpu).or_default().include(load);
        }
    }

    /// Whether no CPU has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::interference::InterferenceBound;
    use proptest::prelude::*;
    use tailbound_model::ArrivalCurve;
    use tailbound_time::Duration;

    fn bound(
        source: &str,
        longest_ns: u64,
        gap_ns: u64,
        may_use_budget: bool,
    ) -> InterferenceBound {
        InterferenceBound {
            source: source.into(),
            curve: ArrivalCurve::of_distances(&[Duration::from_nanos(gap_ns)]).unwrap(),
            longest: Duration::from_nanos(longest_ns),
            may_use_budget,
        }
    }

    fn on_cpu_0(bounds: Vec<InterferenceBound>) -> HostInterference {
        HostInterference([(Cpu(0), InterferenceLoad::of(bounds))].into())
    }

    proptest! {
        /// Of two descriptions of a source the larger one counts, in any order and however often they come; sources of
        /// other names add up.
        #[test]
        fn descriptions_of_one_source_do_not_add_up(
            (one, other, third) in ((1_u64..50, 50_u64..90), (1_u64..50, 50_u64..90), (1_u64..50, 50_u64..90)),
            window in 1_u64..2_000,
        ) {
            let window = Duration::from_nanos(window);
            let alone = |(longest, gap): (u64, u64), name| on_cpu_0(vec![bound(name, longest, gap, true)]);
            let taken = |all: &HostInterference| all.on(Cpu(0)).taken_in(window).as_nanos();
            let mut all = alone(one, "irq");
            let before = all.clone();
            all.include(&before);
            prop_assert_eq!(&all, &before);
            all.include(&alone(other, "irq"));
            let larger = taken(&alone(one, "irq")).max(taken(&alone(other, "irq")));
            prop_assert_eq!(taken(&all), larger);
            all.include(&alone(third, "net"));
            prop_assert_eq!(taken(&all), larger + taken(&alone(third, "net")));
            let least = [one, other].map(|bounds| alone(bounds, "irq").on(Cpu(0)).left());
            prop_assert!(least.iter().all(|left| all.on(Cpu(0)).left() <= *left));
        }
    }

    #[test]
    fn a_load_keeps_its_bounds_on_the_wire() {
        let mut all = on_cpu_0(vec![bound("irq", 3, 50, true), bound("napi", 4, 60, false)]);
        all.include(&on_cpu_0(vec![bound("irq", 5, 90, true)]));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            serde_json::from_str::<HostInterference>(&text).unwrap(),
            all
        );
        let falling = text.replace("\"50ns\"", "\"0ns\"");
        assert!(serde_json::from_str::<HostInterference>(&falling).is_err());
    }

    /// Bounds as large as a request can carry neither wrap around nor panic.
    #[test]
    fn the_largest_bounds_saturate() {
        let most = u64::MAX;
        let load = InterferenceLoad::of(vec![bound("a", most, 1, true), bound("b", most, 1, true)]);
        assert_eq!(load.taken_in(Duration::MAX), Duration::MAX);
        assert_eq!(load.charged_in(Duration::MAX), Duration::MAX);
        assert_eq!(load.left(), tailbound_time::Fraction::new(0, 1));
    }
}
