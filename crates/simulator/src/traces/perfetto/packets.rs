//! Packets of a trace: tracks are described before they are used, names are given once, and counters are
//! told where they change.

use std::collections::BTreeMap;
use std::io;

use prost::Message as _;

use super::message::{
    self, ChildOrdering, CounterDescriptor, DebugAnnotation, EventType, InternedData, InternedName,
    Trace, TracePacket, TrackDescriptor, TrackEvent, Unit,
};
use crate::traces::balance::BalanceKind;
use crate::traces::setting::Setting;

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// What a track is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    Cpus,
    Cpu(usize),
    Reservations,
    Reservation(usize),
    Balance(usize, BalanceKind),
    Tasks,
    Task(usize),
    Lane(usize, usize),
}

impl Track {
    fn parent(self) -> Option<Self> {
        match self {
            Self::Cpus | Self::Reservations | Self::Tasks => None,
            Self::Cpu(_) => Some(Self::Cpus),
            Self::Reservation(_) => Some(Self::Reservations),
            Self::Balance(reservation, _) => Some(Self::Reservation(reservation)),
            Self::Task(_) => Some(Self::Tasks),
            Self::Lane(task, _) => Some(Self::Task(task)),
        }
    }

    fn name(self, setting: &Setting) -> String {
        match self {
            Self::Cpus => "CPUs".into(),
            Self::Cpu(cpu) => format!("CPU {cpu}"),
            Self::Reservations => "Reservations".into(),
            Self::Reservation(number) => setting.reservation(number).map_or_else(
                || format!("reservation {number}"),
                |reservation| reservation.name.clone(),
            ),
            Self::Balance(_, BalanceKind::Left) => "budget left".into(),
            Self::Balance(_, BalanceKind::Used) => "used since replenishment".into(),
            Self::Tasks => "Tasks".into(),
            Self::Task(task) => setting.task_name(task),
            // Tracks of one name beside each other are drawn as one, on as many lines as needed.
            Self::Lane(..) => "jobs".into(),
        }
    }

    /// Its place among its siblings.
    fn rank(self) -> i32 {
        let place = match self {
            Self::Cpus | Self::Balance(..) | Self::Lane(..) => 0,
            Self::Reservations => 1,
            Self::Tasks => 2,
            Self::Cpu(place) | Self::Reservation(place) | Self::Task(place) => place,
        };
        i32::try_from(place).unwrap_or(i32::MAX)
    }
}

/// The name of an event.
pub(super) enum EventName {
    /// One of a few; it is given once and has a number from then on.
    Known(String),
    /// One that does not come again.
    Text(String),
}

/// A fact about an event.
pub(super) enum Annotation {
    Number(&'static str, u64),
    Truth(&'static str, bool),
    Text(&'static str, String),
}

pub(super) struct PacketEvent {
    pub(super) name: EventName,
    /// What joins it with others.
    pub(super) flow: Option<u64>,
    pub(super) annotations: Vec<Annotation>,
}

/// Where packets go.
#[derive(Debug)]
pub(super) struct Packets<W> {
    out: W,
    tracks: BTreeMap<Track, u64>,
    /// So many tracks were described; they are known by their numbers from 1 on.
    described: u64,
    events: BTreeMap<String, u64>,
    facts: BTreeMap<&'static str, u64>,
    /// What each counter was at last.
    counters: BTreeMap<u64, u64>,
    begun: bool,
    buffer: Vec<u8>,
    problem: Option<io::Error>,
}

impl<W: io::Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            tracks: BTreeMap::new(),
            described: 0,
            events: BTreeMap::new(),
            facts: BTreeMap::new(),
            counters: BTreeMap::new(),
            begun: false,
            buffer: Vec::new(),
            problem: None,
        }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        match self.problem {
            Some(problem) => Err(problem),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    /// What a track is known by in the file, where it is described before its first use.
    pub(super) fn uuid(&mut self, track: Track, setting: &Setting) -> u64 {
        if let Some(uuid) = self.tracks.get(&track) {
            return *uuid;
        }
        let parent_uuid = track.parent().map(|parent| self.uuid(parent, setting));
        let counter = matches!(track, Track::Balance(..)).then_some(CounterDescriptor {
            unit: Some(Unit::TimeNs.into()),
        });
        let ordered = matches!(track, Track::Cpus | Track::Reservations | Track::Tasks);
        let uuid = self.describe(TrackDescriptor {
            name: Some(track.name(setting)),
            parent_uuid,
            counter,
            child_ordering: ordered.then(|| ChildOrdering::Explicit.into()),
            sibling_order_rank: Some(track.rank()),
            ..TrackDescriptor::default()
        });
        self.tracks.insert(track, uuid);
        uuid
    }

    /// Describes a track, and says what it is known by from then on.
    pub(super) fn describe(&mut self, track: TrackDescriptor) -> u64 {
        self.described += 1;
        self.write(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(self.described),
                ..track
            }),
            ..TracePacket::default()
        });
        self.described
    }

    pub(super) fn begin(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.named(EventType::SliceBegin, track, at, event);
    }

    pub(super) fn instant(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.named(EventType::Instant, track, at, event);
    }

    pub(super) fn end(&mut self, track: u64, at: u64, annotations: Vec<Annotation>) {
        let mut names = InternedData::default();
        let debug_annotations = self.facts(annotations, &mut names);
        let event = TrackEvent {
            r#type: Some(EventType::SliceEnd.into()),
            track_uuid: Some(track),
            debug_annotations,
            ..TrackEvent::default()
        };
        self.event(at, event, names);
    }

    /// The value of a counter, if it is another one than before.
    pub(super) fn count(&mut self, track: u64, at: u64, value: u64) {
        if self.counters.insert(track, value) == Some(value) {
            return;
        }
        let event = TrackEvent {
            r#type: Some(EventType::Counter.into()),
            track_uuid: Some(track),
            counter_value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
            ..TrackEvent::default()
        };
        self.event(at, event, InternedData::default());
    }

    fn named(&mut self, kind: EventType, track: u64, at: u64, event: PacketEvent) {
        let mut names = InternedData::default();
        let (name_iid, name) = match event.name {
            EventName::Text(text) => (None, Some(text)),
            EventName::Known(text) => (Some(self.event_name(text, &mut names)), None),
        };
        let debug_annotations = self.facts(event.annotations, &mut names);
        let event = TrackEvent {
            r#type: Some(kind.into()),
            track_uuid: Some(track),
            name_iid,
            name,
            flow_ids: event.flow.into_iter().collect(),
            debug_annotations,
            ..TrackEvent::default()
        };
        self.event(at, event, names);
    }

    fn event_name(&mut self, text: String, names: &mut InternedData) -> u64 {
        if let Some(iid) = self.events.get(&text) {
            return *iid;
        }
        let iid = self.events.len() as u64 + 1;
        names.event_names.push(InternedName {
            iid: Some(iid),
            name: Some(text.clone()),
        });
        self.events.insert(text, iid);
        iid
    }

    fn facts(&mut self, facts: Vec<Annotation>, names: &mut InternedData) -> Vec<DebugAnnotation> {
        let annotations = facts.into_iter().map(|fact| {
            let mut annotation = DebugAnnotation::default();
            let name = match fact {
                Annotation::Number(name, value) => {
                    annotation.uint_value = Some(value);
                    name
                }
                Annotation::Truth(name, value) => {
                    annotation.bool_value = Some(value);
                    name
                }
                Annotation::Text(name, value) => {
                    annotation.string_value = Some(value);
                    name
                }
            };
            let next = self.facts.len() as u64 + 1;
            let iid = *self.facts.entry(name).or_insert_with(|| {
                names.debug_annotation_names.push(InternedName {
                    iid: Some(next),
                    name: Some(name.to_owned()),
                });
                next
            });
            DebugAnnotation {
                name_iid: Some(iid),
                ..annotation
            }
        });
        annotations.collect()
    }

    fn event(&mut self, at: u64, event: TrackEvent, names: InternedData) {
        self.write(TracePacket {
            timestamp_ns: Some(at),
            interned_data: (names != InternedData::default()).then_some(names),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    fn write(&mut self, mut packet: TracePacket) {
        if self.problem.is_some() {
            return;
        }
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        let cleared = if self.begun { 0 } else { message::CLEARED };
        packet.sequence_flags = Some(cleared | message::NEEDS_NAMES);
        self.begun = true;
        self.buffer.clear();
        let trace = Trace {
            packet: vec![packet],
        };
        self.problem = match trace.encode(&mut self.buffer) {
            Ok(()) => self.out.write_all(&self.buffer).err(),
            Err(error) => Some(io::Error::other(error)),
        };
    }
}
