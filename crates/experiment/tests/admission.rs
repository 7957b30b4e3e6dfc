//! The admission of descriptions beside that of hosts, and beside simulations.

use std::fmt::Write as _;

use proptest::prelude::*;
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Description, InputFiles};
use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS, simulate_host};
use tailbound_time::Duration;

use tailbound_assessment::schedulability::judge;
use tailbound_experiment::host_set::HostSet;

use crate::verdicts::Verdicts;

const BACKENDS: [BackendKind; 5] = [
    BackendKind::Dedicated,
    BackendKind::DsFreeze,
    BackendKind::RtGroup,
    BackendKind::Deadline,
    BackendKind::CfsQuota,
];

/// A reservation of the random hosts.
#[derive(Clone, Debug)]
struct Asked {
    backend: BackendKind,
    budget_ms: u64,
    period_ms: u64,
    priority: u8,
    cpu: u32,
    is_there: bool,
}

fn asked(periods_ms: &'static [u64]) -> impl Strategy<Value = Asked> {
    let backend = proptest::sample::select(&BACKENDS[..]);
    let period = proptest::sample::select(periods_ms);
    (
        backend,
        1_u64..100,
        period,
        1_u8..90,
        0_u32..2,
        any::<bool>(),
    )
        .prop_map(
            |(backend, percent, period_ms, priority, cpu, is_there)| Asked {
                backend,
                budget_ms: (period_ms * percent / 200).max(1),
                period_ms,
                priority,
                cpu,
                is_there,
            },
        )
}

impl Asked {
    /// As a table of a description.
    fn reservation(&self) -> String {
        let Asked {
            backend,
            budget_ms,
            period_ms,
            priority,
            cpu,
            is_there: _,
        } = self;
        let time = match backend.has_budget() {
            true => format!(r#"budget = "{budget_ms}ms", period = "{period_ms}ms", "#),
            false => String::new(),
        };
        format!(r#"{{ backend = "{backend}", {time}priority = {priority}, cpus = [{cpu}] }}"#)
    }
}

/// Two hosts with these reservations, each full of work: a job of its whole budget in each period. If there is a second
/// mode, the first reservation has another budget there.
fn description(all: &[Asked], second_mode_ms: Option<u64>) -> Option<Description> {
    let initial = second_mode_ms.map_or("", |_| "initial_mode = \"low\"\n");
    let mut text = format!(
        "schema_version = 1\nname = \"random\"\n{initial}hosts.here = {{ cpus = [0, 1, 2], housekeeping = [2] }}\nhosts.there = {{ cpus = [0, 1, 2] }}\n",
    );
    for (index, one) in all.iter().enumerate() {
        let Asked {
            budget_ms,
            period_ms,
            ..
        } = one;
        let reservation = one.reservation();
        let host = if one.is_there { "there" } else { "here" };
        write!(
            text,
            r#"
[domains.d{index}]
host = "{host}"
kind = "process"
builtin = "synthetic-service"
reservation = {reservation}

[services.s{index}]
domain = "d{index}"
protocol = "synthetic"
endpoint = "unix:/tmp/s{index}.sock"

[services.s{index}.tasks.work]
arrivals = {{ kind = "periodic", period = "{period_ms}ms" }}
execution_time = {{ kind = "constant", value = "{budget_ms}ms" }}
"#
        )
        .unwrap();
    }
    if let (Some(budget_ms), Some(first)) = (second_mode_ms, all.first()) {
        let changed = Asked {
            budget_ms: budget_ms.min(first.period_ms),
            ..first.clone()
        };
        let changed = changed.reservation();
        write!(
            text,
            "\n[modes.low]\n[modes.high]\nreservations.d0 = {changed}\n"
        )
        .unwrap();
    }
    tailbound_model::parse(&text, "random.toml").ok()
}

/// The hosts of a description, of which the first is this machine: one that can do everything, with the kernel's default
/// limits.
pub fn hosts(description: &Description) -> HostSet {
    let first = description.hosts.keys().next().unwrap();
    HostSet::with_here(description, first, &HostCapabilities::usual([0, 1, 2])).unwrap()
}

fn is_admitted(description: &Description) -> bool {
    let modes = judge(description, &InputFiles::default()).unwrap();
    modes
        .iter()
        .all(|mode| mode.cpus.iter().all(|cpu| cpu.admitted))
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_verb_has_one_verdict_on_a_description(
        all in proptest::collection::vec(asked(&[5, 10, 20, 25, 30, 100]), 1..5),
        second_mode_ms in proptest::option::of(1_u64..30),
    ) {
        let description = description(&all, second_mode_ms);
        prop_assert!(description.is_some(), "{:?} {:?}", all, second_mode_ms);
        let description = description.unwrap();
        let expected = Verdicts::all(is_admitted(&description));
        prop_assert_eq!(Verdicts::of(&description, &hosts(&description)), expected, "{:?} {:?}", all, second_mode_ms);
    }

    #[test]
    fn no_simulation_refutes_an_admission(
        all in proptest::collection::vec(asked(&[5, 10, 20, 30]), 1..5),
        by_priority in any::<bool>(),
    ) {
        let mut all = all;
        for one in &mut all {
            // The grid on which all are replenished is that of ds-freeze.
            one.is_there = false;
            one.backend = if by_priority { BackendKind::DsFreeze } else { BackendKind::Deadline };
        }
        let description = description(&all, None);
        prop_assume!(description.as_ref().is_some_and(is_admitted));
        let description = description.unwrap();
        let simulation = simulate_host(&HostQuery {
            description: &description,
            host: "here",
            inputs: &InputFiles::default(),
            seed: 1,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(600),
            kept: Kept::All,
            most_events: MOST_EVENTS,
        })
        .unwrap();
        for (index, one) in all.iter().enumerate() {
            let responses = simulation.services[&format!("s{index}")].as_ref().unwrap();
            let longest = responses.max().and_then(|longest| longest.exact()).unwrap();
            prop_assert!(
                longest <= Duration::from_millis(one.period_ms),
                "{:?}: {} takes {}", all, index, longest
            );
        }
    }
}
