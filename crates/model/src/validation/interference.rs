//! Interference on the CPUs of hosts.

use super::{Check, workload};
use crate::arrival_curve::ArrivalCurve;
use crate::host::Host;
use crate::interference::Interference;
use crate::parser::KeyPath;
use crate::workload::{Arrivals, ExecutionTime};

/// Checks the sources of a host.
pub(super) fn interference(check: &mut Check<'_>, host_place: &KeyPath, host: &Host) {
    let sources = host_place.key("interference");
    for (index, source) in host.interference.iter().enumerate() {
        let place = sources.index(index);
        if source.source.trim().is_empty() {
            check.error(
                &place.key("source"),
                "the source has no name",
                "name it, such as \"irq 24 (virtio0)\"",
            );
        }
        let before = host.interference.iter().take(index);
        if before
            .into_iter()
            .any(|other| (other.cpu, &other.source) == (source.cpu, &source.source))
        {
            check.error(
                &place.key("source"),
                format!(
                    "CPU {} has a source `{}` already",
                    source.cpu, source.source
                ),
                "give each source of a CPU a name of its own, or leave one out",
            );
        }
        if !host.cpus.contains(&source.cpu) {
            check.error(
                &place.key("cpu"),
                format!("CPU {} is not among the host's `cpus`", source.cpu),
                "name a CPU of the host, or add it to `cpus`",
            );
        }
        events(check, &place, source);
        lengths(check, &place, source);
    }
}

fn events(check: &mut Check<'_>, place: &KeyPath, source: &Interference) {
    let here = place.key("arrivals");
    workload::arrivals(check, &here, &source.arrivals);
    match &source.arrivals {
        Arrivals::Trace { .. } => check.error(
            &here,
            "a recording has no least distance between events, which analysis needs",
            "name the file in `recorded`, and give `minimum-distances` here (`tailbound trace model` finds them)",
        ),
        Arrivals::Users {} => check.error(
            &here,
            "interference has no users who would wait for it",
            "describe when its events come, such as { kind = \"sporadic\", min_gap = \"1ms\", max_gap = \"2ms\" }",
        ),
        Arrivals::Poisson { .. } | Arrivals::MarkovModulatedPoisson { .. } => check.warning(
            &here,
            "these events may come arbitrarily close together, so no deadline on the CPU is certain",
            "give minimum distances, such as { kind = \"minimum-distances\", distances = [\"200us\", \"1ms\"] }",
        ),
        _ => {}
    }
}

fn lengths(check: &mut Check<'_>, place: &KeyPath, source: &Interference) {
    let here = place.key("execution_time");
    workload::lengths(check, &here, &source.execution_time);
    match &source.execution_time {
        ExecutionTime::Trace {} => check.error(
            &here,
            "the lengths of a recording are in the file of `recorded`",
            "describe them here too, such as by a histogram, for analysis",
        ),
        ExecutionTime::Calibrated { .. } => check.error(
            &here,
            "a calibration sends requests, and interference takes none",
            "use constant, uniform, exponential, lognormal, samples or histogram",
        ),
        _ => {}
    }
    if let Some(longest) = source.longest {
        check.above_zero(&place.key("longest"), "the longest event", longest);
        if let Some(of_law) = source.execution_time.longest().filter(|law| *law > longest) {
            check.error(
                &place.key("longest"),
                format!("events may take {of_law} by `execution_time`, longer than {longest}"),
                "lengthen `longest`, or shorten the longest execution time (`max`)",
            );
        }
    }
    let is_of_file = source.execution_time.longest().is_none();
    let is_law = !matches!(
        source.execution_time,
        ExecutionTime::Trace {} | ExecutionTime::Calibrated { .. }
    );
    if source.longest.is_none() && is_of_file && is_law {
        check.warning(
            place,
            "the longest event is not described, so no deadline on the CPU is certain",
            "add `longest`, the longest execution time of the file",
        );
    }
    full_cpu(check, place, source);
}

/// A source that fills the CPU leaves nothing to anybody.
fn full_cpu(check: &mut Check<'_>, place: &KeyPath, source: &Interference) {
    let (Some(curve), Some(longest)) = (ArrivalCurve::of(&source.arrivals), source.longest_event())
    else {
        return;
    };
    let (events, length) = curve.rate();
    if u128::from(events) * u128::from(longest.as_nanos()) >= u128::from(length.as_nanos()) {
        check.warning(
            &place.key("arrivals"),
            format!("{events} events of {longest} in {length} fill the CPU"),
            "lengthen the distances, or shorten the events; else nothing on the CPU has a bound",
        );
    }
}
