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
        let mut pairs = own
            .windows
            .iter()
            .flat_map(|window| theirs.windows.iter().map(move |their| (window, their)));
        let (window, their) = pairs.find(|(window, their)| meet(window, their))?;
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

fn meet(one: &Window, other: &Window) -> bool {
    one.offset < other.end() && other.offset < one.end()
}
