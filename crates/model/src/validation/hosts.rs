//! Hosts.

use super::{Check, interrupts};
use crate::host::{Host, Placement};
use crate::interface::CpuSet;
use crate::parser::KeyPath;

/// Checks the hosts.
pub(super) fn hosts(check: &mut Check<'_>) {
    let hosts = KeyPath::root().key("hosts");
    if check.description.hosts.is_empty() && check.names("hosts").is_empty() {
        check.error(
            &hosts,
            "there is no host",
            "describe one: [hosts.local] with its `cpus`",
        );
    }
    for (name, host) in &check.description.hosts {
        let place = hosts.key(name);
        if host.cpus.is_empty() {
            check.error(
                &place.key("cpus"),
                "the host has no CPU",
                "name the CPUs that Tailbound may use, such as [0, 1]",
            );
        }
        let outside: CpuSet = host.housekeeping.difference(&host.cpus).copied().collect();
        if let Some(cpu) = outside.first() {
            let message = format!("CPU {cpu} is not among the host's `cpus`");
            check.error(
                &place.key("housekeeping"),
                message,
                "name only CPUs of the host, or add it to `cpus`",
            );
        }
        speeds(check, &place, host);
        overheads(check, &place, host);
        frame(check, &place, name, host);
        super::interference::interference(check, &place, host);
        interrupts::interrupts(check, &place, name, host);
        if host.placement == Placement::Global && host.working_cpus().is_empty() {
            check.error(
                &place.key("placement"),
                "all CPUs are housekeeping CPUs, so there is none for the domains",
                "leave one out of `housekeeping`",
            );
        }
    }
}

fn speeds(check: &mut Check<'_>, place: &KeyPath, host: &Host) {
    if !host.speeds.is_empty() && host.speeds.len() != host.cpus.len() {
        check.error(
            &place.key("speeds"),
            format!(
                "there are {} CPUs and {} speeds",
                host.cpus.len(),
                host.speeds.len()
            ),
            "give a speed for each of `cpus`, in the order of their numbers, such as [100, 50]",
        );
    }
}

fn overheads(check: &mut Check<'_>, place: &KeyPath, host: &Host) {
    let place = place.key("overheads");
    if let Some(tick) = host.overheads.tick {
        let here = place.key("tick");
        check.above_zero(&here.key("period"), "the period", tick.period);
        if tick.cost >= tick.period && !tick.period.is_zero() {
            check.error(
                &here.key("cost"),
                format!(
                    "a tick of {} every {} leaves no time",
                    tick.cost, tick.period
                ),
                "a tick costs less than its period",
            );
        }
    }
}

/// The major frame and the time partitions need each other.
fn frame(check: &mut Check<'_>, place: &KeyPath, name: &str, host: &Host) {
    let description = check.description;
    let is_here = |place: Option<(&str, &Host)>| place.is_some_and(|(other, _)| other == name);
    let reservations = check.reservations();
    let partitioned = reservations.iter().any(|(_, domain, reservation)| {
        let domain = description.domains.get(*domain);
        let host = domain.and_then(|domain| description.host_of(domain));
        reservation.backend.has_windows() && is_here(host)
    });
    let here = place.key("major_frame");
    match host.major_frame {
        Some(frame) => {
            check.above_zero(&here, "the major frame", frame);
            if !partitioned && check.is_whole("domains", description.domains.len()) {
                check.error(
                    &here,
                    "no domain of this host is a time partition",
                    "leave `major_frame` out, or reserve windows (back end \"time-partitions\")",
                );
            }
        }
        None if partitioned => check.error(
            &here,
            "the host has time partitions, and nothing says how long their cycle is",
            "add `major_frame`, such as \"10ms\"",
        ),
        None => {}
    }
    if partitioned && host.placement == Placement::Global {
        check.error(
            &place.key("placement"),
            "time partitions are windows of single CPUs, and this host schedules all CPUs as one",
            "write placement = \"partitioned\", or describe the partitions on a host of their own",
        );
    }
}
