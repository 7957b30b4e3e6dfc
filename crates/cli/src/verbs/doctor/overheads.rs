//! What the operating system takes for itself here, as a table of a description.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_enforcement::{ReservationRequest, standing_reservations, state_directory};
use tailbound_linux::HostCapabilities;
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::affinity_of;
use tailbound_measurement::overheads::series::Spread;
use tailbound_measurement::overheads::{MeasuredCost, NotAboveNoise, Subject};
use tailbound_measurement::{MeasuredOverheads, OverheadPlan, fingerprint_line, measure_overheads};
use tailbound_model::{Cpu, overheads_to_toml};
use tailbound_time::Duration;

use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

/// The host of the table that is printed; `import` calls it so as well.
const HOST: &str = "local";

/// What was measured, and what a description says of it.
#[derive(Serialize)]
pub(super) struct OverheadTable {
    #[serde(flatten)]
    measured: MeasuredOverheads,
    /// The description's table, with where it comes from.
    pub(super) toml: String,
}

/// What is to be measured: on the first CPU that was asked for, and between it and the next one.
/// Refuses what cannot be, before anything is begun.
pub(super) fn plan(
    arguments: &DoctorArguments,
    host: &HostCapabilities,
) -> Result<OverheadPlan, Failure> {
    let standing = standing_reservations(&state_directory()).map_err(Failure::from_error)?;
    // Where it may not run, as in a container of fewer CPUs, it is not asked to.
    let own =
        affinity_of(own_thread()).unwrap_or_else(|_| host.online_cpus.iter().copied().collect());
    let own: Vec<u32> = own.into_iter().collect();
    let plan = planned(&arguments.cpus, &own, arguments.duration, &standing)?;
    plan.check().map_err(Failure::from_error)?;
    Ok(plan)
}

/// The CPUs that were asked for, or else those of the process. A load at a real-time priority takes from
/// a reservation below it what it was promised, and one above it spoils what is measured: a CPU with a
/// reservation is refused where it was asked for or is the first, and passed over otherwise.
fn planned(
    asked: &[u32],
    own: &[u32],
    length: Duration,
    standing: &[ReservationRequest],
) -> Result<OverheadPlan, Failure> {
    let holder = |cpu: u32| {
        let mut holders = standing.iter();
        holders.find(|request| request.interface.cpus.contains(&Cpu(cpu)))
    };
    let mut candidates = asked.iter().chain(own).copied();
    let first = candidates.next().unwrap_or(0);
    let other =
        candidates.find(|cpu| *cpu != first && (asked.contains(cpu) || holder(*cpu).is_none()));
    for cpu in [Some(first), other].into_iter().flatten() {
        if let Some(request) = holder(cpu) {
            return Err(Failure::with_help(
                format!(
                    "overheads are not measured on CPU {cpu}, since \"{}\" has a reservation there: \
                     threads at real-time priorities would disturb each other",
                    request.domain
                ),
                "choose CPUs without a reservation (-c), or take it back first (tailbound revert)",
            ));
        }
    }
    Ok(OverheadPlan {
        cpu: Cpu(first),
        other_cpu: other.map(Cpu),
        length,
    })
}

/// Measures what was planned.
pub(super) fn carry_out(
    plan: OverheadPlan,
    facts: &BTreeMap<String, String>,
    output: &Output,
) -> Result<OverheadTable, Failure> {
    output.detail(format!("measuring overheads on CPU {}", plan.cpu));
    let measured = measure_overheads(plan).map_err(Failure::from_error)?;
    OverheadTable::of(measured, facts)
}

/// Where the table comes from, as comments. Facts of the host may hold anything but line breaks.
fn origin(overheads: &MeasuredOverheads, facts: &BTreeMap<String, String>) -> String {
    let policy = if overheads.fifo {
        "SCHED_FIFO"
    } else {
        "the default policy"
    };
    let host = fingerprint_line(facts);
    let governor = facts.get("governor").map_or("unknown", String::as_str);
    let cpu = overheads.plan.cpu;
    let mut lines = vec![
        format!("measured by tailbound doctor on CPU {cpu}, at {policy}: medians"),
        host,
        format!("governor: {governor}"),
    ];
    for missing in &overheads.missing {
        lines.push(format!("not measured: {}", missing.what));
    }
    for doubtful in overheads.not_above_noise() {
        let NotAboveNoise { key, value, floor } = doubtful;
        lines.push(format!(
            "not above the noise: {key} {value} (floor {floor})"
        ));
    }
    lines
        .iter()
        .map(|line| format!("# {}\n", line.replace(['\n', '\r'], " ")))
        .collect()
}

impl OverheadTable {
    fn of(measured: MeasuredOverheads, facts: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let table = overheads_to_toml(HOST, &measured.overheads()).map_err(Failure::from_error)?;
        let toml = origin(&measured, facts) + &table;
        Ok(Self { measured, toml })
    }

    /// The tables for people, and what to paste.
    pub(super) fn text(&self) -> Vec<String> {
        let measured = &self.measured;
        let mut rows: Vec<Vec<String>> = measured.costs.iter().map(cost_row).collect();
        if let Some(tick) = &measured.tick {
            let cost = tick.gaps.median.saturating_sub(measured.reading);
            rows.push(vec![
                "tick".into(),
                format!("one every {}", tick.period),
                cost.to_string(),
                "-".into(),
                spread_cell(&tick.gaps),
                measured.reading.to_string(),
                tick.gaps.count.to_string(),
            ]);
        }
        let cpu = format!("overheads of CPU {}", measured.plan.cpu);
        let header = [
            cpu.as_str(),
            "what",
            "cost",
            "noise",
            "with",
            "without",
            "samples",
        ];
        let mut parts = vec![table(&header, &rows)];
        if let Some(whole) = measured.cost_of(Subject::Preemption) {
            parts.push(format!(
                "A preemption by its parts (an interrupt, two looks and two switches): {}; measured as a \
                 whole: {}.",
                measured.preemption_of_parts(),
                whole.value
            ));
        }
        for missing in &measured.missing {
            parts.push(format!("! not measured: {}: {}", missing.what, missing.why));
        }
        parts.push(self.toml.trim_end().to_string());
        parts
    }
}

fn cost_row(measured: &MeasuredCost) -> Vec<String> {
    let (name, meaning) = measured.subject.words();
    let cost = &measured.cost;
    let value = match cost.is_above_floor() {
        true => cost.value.to_string(),
        false => format!("{} (not above the noise)", cost.value),
    };
    vec![
        name.into(),
        meaning.into(),
        value,
        cost.floor.to_string(),
        spread_cell(&cost.with),
        spread_cell(&cost.without),
        cost.with.count.to_string(),
    ]
}

/// Least, median and p99.
fn spread_cell(spread: &Spread) -> String {
    format!("{} / {} / {}", spread.min, spread.median, spread.p99)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_enforcement::Target;
    use tailbound_measurement::overheads::series::{Cost, Series};
    use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Priority, ResourceInterface};

    use super::*;

    fn held(domain: &str, cpu: u32) -> ReservationRequest {
        ReservationRequest {
            domain: domain.into(),
            target: Target::Processes(Vec::new()),
            interface: ResourceInterface {
                budget: Duration::from_millis(2),
                period: Duration::from_millis(10),
                priority: Priority(1),
                cpus: [Cpu(cpu)].into(),
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            },
            backend: BackendKind::DsFreeze,
            options: BackendOptions::default(),
            interference: Default::default(),
        }
    }

    #[test]
    fn cpus_with_reservations_are_refused_or_passed_over() {
        let length = Duration::from_millis(1);
        let cpus = |asked: &[u32], standing: &[ReservationRequest]| {
            let plan = planned(asked, &[0, 1, 2], length, standing)?;
            Ok::<_, Failure>((plan.cpu.0, plan.other_cpu.map(|cpu| cpu.0)))
        };
        assert_eq!(cpus(&[], &[]).unwrap(), (0, Some(1)));
        assert_eq!(cpus(&[], &[held("web", 1)]).unwrap(), (0, Some(2)));
        assert_eq!(cpus(&[2], &[held("web", 0)]).unwrap(), (2, Some(1)));
        let both = [held("web", 0), held("batch", 1)];
        assert_eq!(cpus(&[2], &both).unwrap(), (2, None));
        for (asked, domain, cpu) in [
            (&[] as &[u32], "web", 0),
            (&[1], "batch", 1),
            (&[2, 1], "batch", 1),
        ] {
            let refused = cpus(asked, &both).unwrap_err();
            let Failure::Error { message, help } = &refused else {
                panic!("{refused}");
            };
            assert!(message.contains(&format!("CPU {cpu}")), "{message}");
            assert!(message.contains(&format!("\"{domain}\"")), "{message}");
            assert!(help.as_ref().unwrap().contains("tailbound revert"));
        }
    }

    #[test]
    fn keys_not_above_the_noise_are_told_in_both_formats() {
        let series = |even_ns: u64, odd_ns: u64| Series {
            even: vec![Duration::from_nanos(even_ns)],
            odd: vec![Duration::from_nanos(odd_ns)],
        };
        let of = |subject, with, without| MeasuredCost {
            subject,
            cost: Cost::between(&with, &without).unwrap(),
        };
        let measured = MeasuredOverheads {
            plan: planned(&[], &[0, 1], Duration::from_millis(1), &[]).unwrap(),
            fifo: true,
            reading: Duration::from_nanos(20),
            costs: vec![
                of(Subject::Interrupt, series(900, 900), series(30, 30)),
                of(Subject::Migration, series(140, 1_040), series(100, 100)),
            ],
            tick: None,
            missing: Vec::new(),
        };
        let findings = OverheadTable::of(measured, &BTreeMap::new()).unwrap();
        let line = "# not above the noise: migration 40ns (floor 900ns)";
        let comments = findings.toml.lines().filter(|line| line.contains("noise"));
        assert_eq!(comments.collect::<Vec<_>>(), [line]);
        let json = serde_json::to_value(&findings).unwrap();
        assert_eq!(
            json["not_above_noise"],
            serde_json::json!([{ "key": "migration", "value_ns": 40, "noise_floor_ns": 900 }])
        );
        let above = |place: usize| json["costs"][place]["above_noise"].as_bool();
        assert_eq!([above(0), above(1)], [Some(true), Some(false)]);
    }
}
