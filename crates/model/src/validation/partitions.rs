//! Time partitions.

use tailbound_time::Duration;

use super::Check;
use crate::description::{Domain, DomainKind};
use crate::parser::KeyPath;

/// Checks the windows of the time partitions, each on its own and against each other.
pub(super) fn partitions(check: &mut Check<'_>) {
    for (place, name, domain) in check.domains() {
        if domain.kind != DomainKind::TimePartition {
            if !domain.windows.is_empty() {
                check.error(
                    &place.key("windows"),
                    "windows are for time partitions",
                    "leave them out, or set kind = \"time-partition\"",
                );
            }
            continue;
        }
        partition(check, &place, name, domain);
        against_others(check, &place, name, domain);
    }
}

fn partition(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    if domain.windows.is_empty() {
        check.error(
            place,
            "the time partition has no window, so it never runs",
            "add `windows`, such as [{ offset = \"0ms\", length = \"4ms\" }]",
        );
    }
    let held = check
        .reservations()
        .into_iter()
        .find(|(_, held, _)| *held == name);
    if let Some((reserved, _, _)) = held {
        check.error(
            &reserved,
            "a time partition gets its windows and no reservation",
            "leave the reservation out, or choose another kind",
        );
    }
    if domain.inside.is_some() {
        check.error(
            &place.key("inside"),
            "the windows of a time partition are those of the host",
            "leave `inside` out, or give the domain a reservation in place of windows",
        );
    }
    let frame = check.description.host_of(domain);
    let frame = frame.and_then(|(_, host)| host.major_frame);
    let mut end = Duration::ZERO;
    for (index, window) in domain.windows.iter().enumerate() {
        let here = place.key("windows").index(index);
        check.above_zero(&here.key("length"), "the window", window.length);
        if window.offset < end {
            check.error(
                &here.key("offset"),
                format!(
                    "the window begins at {}, before the one in front of it ends",
                    window.offset
                ),
                format!("windows are in order; begin it at \"{end}\" or later"),
            );
        }
        end = end.max(window.offset.saturating_add(window.length));
        if let Some(frame) = frame.filter(|frame| end > *frame && !frame.is_zero()) {
            check.error(
                &here,
                format!("the window ends at {end}, after the major frame of {frame}"),
                "shorten it, or lengthen `major_frame` of the host",
            );
            return;
        }
    }
}

/// Complains of windows that overlap those of a partition that stands before it.
fn against_others(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let description = check.description;
    let mine = description.cpus_of(domain);
    let host = description.host_of(domain).map(|(name, _)| name);
    let others = description.domains.iter();
    for (rival, other) in others.take_while(|(other, _)| *other != name) {
        let together = other.kind == DomainKind::TimePartition
            && description.host_of(other).map(|(name, _)| name) == host
            && description
                .cpus_of(other)
                .intersection(&mine)
                .next()
                .is_some();
        if !together {
            continue;
        }
        let clash = domain.windows.iter().position(|window| {
            let end = window.offset.saturating_add(window.length);
            other.windows.iter().any(|theirs| {
                window.offset < theirs.offset.saturating_add(theirs.length) && theirs.offset < end
            })
        });
        if let Some(index) = clash {
            check.error(
                &place.key("windows").index(index),
                format!("the window overlaps one of `{rival}` on the same CPU"),
                "move or shorten one of them, or use another CPU",
            );
        }
    }
}
