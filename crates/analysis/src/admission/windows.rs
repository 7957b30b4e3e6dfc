//! Whether time partitions on one CPU have their windows to themselves.
//!
//! Frames of one length begin together, at multiples of that length on the clock common to all, so windows are compared
//! as they stand. Frames of two lengths drift through each other, and sooner or later every window meets every other.

use tailbound_model::{Cpu, Window};

use super::{AdmissionRefusal, Reserved};

/// The refusal of a time partition beside one that is there, if their windows can overlap.
pub(super) fn overlap(
    cpu: Cpu,
    one: &Reserved<'_>,
    held: &[&Reserved<'_>],
) -> Option<AdmissionRefusal> {
    let partitions = held
        .iter()
        .filter(|other| other.backend.has_windows() && one.backend.has_windows());
    partitions.into_iter().find_map(|other| {
        let (own, theirs) = (one.interface, other.interface);
        if own.period != theirs.period {
            return Some(AdmissionRefusal::FramesDiffer {
                cpu,
                domain: one.domain.to_owned(),
                frame: own.period,
                other: other.name(),
                other_frame: theirs.period,
            });
        }
        let both = first_meeting(&own.windows, &theirs.windows);
        // Slack lies in windows of a partition that comes first in them; a receiver at its priority or above would not leave
        // them to it.
        let taken = || {
            let is_above = own.priority >= theirs.priority;
            is_above
                .then(|| first_meeting(&own.slack, &theirs.windows))
                .flatten()
        };
        let given = || {
            let is_above = theirs.priority >= own.priority;
            is_above
                .then(|| first_meeting(&own.windows, &theirs.slack))
                .flatten()
        };
        let (window, their) = both.or_else(taken).or_else(given)?;
        Some(AdmissionRefusal::WindowsOverlap {
            cpu,
            domain: one.domain.to_owned(),
            begin: window.offset,
            end: window.end(),
            other: other.name(),
            other_begin: their.offset,
            other_end: their.end(),
        })
    })
}

/// The first two windows that meet, one of each list.
fn first_meeting<'a>(own: &'a [Window], theirs: &'a [Window]) -> Option<(&'a Window, &'a Window)> {
    let mut pairs = own
        .iter()
        .flat_map(|window| theirs.iter().map(move |their| (window, their)));
    pairs.find(|(window, their)| meet(window, their))
}

fn meet(one: &Window, other: &Window) -> bool {
    one.offset < other.end() && other.offset < one.end()
}
