//! What happened on named tracks, whoever saw it, as a trace that Perfetto opens.

use std::io;

use serde::{Deserialize, Serialize};
use tailbound_perfetto::message::{ChildOrdering, TrackDescriptor};
use tailbound_perfetto::{Annotation, EventName, PacketEvent, PacketWriter, SIMULATED_SEQUENCE};

/// A track: a name, what lasted, what happened at an instant, and tracks below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineTrack {
    /// What it is about.
    pub name: String,
    /// What lasted. No two of them overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<TimelineSlice>,
    /// What happened at an instant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<TimelineMark>,
    /// Tracks that stand below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<TimelineTrack>,
}

/// Something that lasted, in nanoseconds of whatever clock all tracks share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineSlice {
    /// What.
    pub name: String,
    /// Since when.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// What else is to be said; nothing if empty.
    pub remark: String,
}

/// Something that happened at an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineMark {
    /// What.
    pub name: String,
    /// When.
    pub at_ns: u64,
    /// What else is to be said; nothing if empty.
    pub remark: String,
}

impl TimelineTrack {
    /// A track without anything on it.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Puts a slice onto a track below this one that has that name, or onto the first of `NAME 2`, `NAME
    /// 3` and so on that is free then.
    pub fn add(&mut self, below: &str, slice: TimelineSlice) {
        let overlaps = |other: &TimelineSlice| {
            other.from_ns < slice.until_ns && slice.from_ns < other.until_ns
        };
        let mut name = below.to_owned();
        for next in 2.. {
            match self.below.iter_mut().find(|track| track.name == name) {
                Some(track) if track.slices.iter().any(overlaps) => {
                    name = format!("{below} {next}");
                }
                Some(track) => return track.slices.push(slice),
                None => {
                    let mut track = Self::named(&name);
                    track.slices.push(slice);
                    return self.below.push(track);
                }
            }
        }
    }
}

/// Writes tracks as a trace in Perfetto's format, in their order, for <https://ui.perfetto.dev> and its
/// trace processor. What is to be said of a slice or an instant is its argument `remark`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_timeline<W: io::Write>(tracks: &[TimelineTrack], out: W) -> io::Result<W> {
    let mut packets = PacketWriter::new(out, SIMULATED_SEQUENCE);
    for (place, track) in tracks.iter().enumerate() {
        write_track(&mut packets, track, place, None);
    }
    packets.finish()
}

fn write_track<W: io::Write>(
    packets: &mut PacketWriter<W>,
    track: &TimelineTrack,
    place: usize,
    parent_uuid: Option<u64>,
) {
    let uuid = packets.describe(TrackDescriptor {
        name: Some(track.name.clone()),
        parent_uuid,
        child_ordering: (!track.below.is_empty()).then(|| ChildOrdering::Explicit.into()),
        sibling_order_rank: Some(i32::try_from(place).unwrap_or(i32::MAX)),
        ..TrackDescriptor::default()
    });
    let mut slices: Vec<&TimelineSlice> = track.slices.iter().collect();
    slices.sort_by_key(|slice| (slice.from_ns, slice.until_ns));
    for slice in slices {
        packets.begin(uuid, slice.from_ns, event(&slice.name, &slice.remark));
        packets.end(uuid, slice.until_ns, Vec::new());
    }
    for mark in &track.marks {
        packets.instant(uuid, mark.at_ns, event(&mark.name, &mark.remark));
    }
    for (place, below) in track.below.iter().enumerate() {
        write_track(packets, below, place, Some(uuid));
    }
}

fn event(name: &str, remark: &str) -> PacketEvent {
    let remark = Some(remark).filter(|remark| !remark.is_empty());
    let remark = remark.map(|remark| Annotation::Text("remark", remark.to_owned()));
    PacketEvent {
        name: EventName::Known(name.to_owned()),
        flow: None,
        annotations: remark.into_iter().collect(),
    }
}
