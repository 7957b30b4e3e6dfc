//! Packets of a trace: tracks are described before they are used, names are given once, and counters are
//! told where they change.

use std::collections::BTreeMap;
use std::io;

use prost::Message as _;

use crate::message::{
    self, DebugAnnotation, EventType, InternedData, InternedName, Trace, TracePacket,
    TrackDescriptor, TrackEvent,
};

/// The name of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventName {
    /// One of a few; it is given once and has a number from then on.
    Known(String),
    /// One that does not come again.
    Text(String),
}

/// A fact about an event, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// A number.
    Number(&'static str, u64),
    /// Whether something holds.
    Truth(&'static str, bool),
    /// Text.
    Text(&'static str, String),
}

/// A slice that begins, or an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// The name.
    pub name: EventName,
    /// The number of the flow that joins it with others.
    pub flow: Option<u64>,
    /// Facts.
    pub annotations: Vec<Annotation>,
}

impl PacketEvent {
    /// An event with one of a few names, and nothing else.
    pub fn named(name: &str) -> Self {
        Self {
            name: EventName::Known(name.to_owned()),
            flow: None,
            annotations: Vec::new(),
        }
    }
}

/// Writes packets one by one. The first error of writing is kept, and told at the end.
#[derive(Debug)]
pub struct PacketWriter<W> {
    out: W,
    sequence: u32,
    /// So many tracks were described; they are numbered from 1 on, above the number of the sequence.
    described: u64,
    events: BTreeMap<String, u64>,
    facts: BTreeMap<&'static str, u64>,
    /// What each counter was at last.
    counters: BTreeMap<u64, u64>,
    begun: bool,
    buffer: Vec<u8>,
    problem: Option<io::Error>,
}

impl<W: io::Write> PacketWriter<W> {
    /// Packets of a sequence, from 1; traces whose sequences differ may be written into one file.
    pub fn new(out: W, sequence: u32) -> Self {
        Self {
            out,
            sequence,
            described: 0,
            events: BTreeMap::new(),
            facts: BTreeMap::new(),
            counters: BTreeMap::new(),
            begun: false,
            buffer: Vec::new(),
            problem: None,
        }
    }

    /// Hands the destination back.
    ///
    /// # Errors
    /// The first error of writing, after which nothing more was written.
    pub fn finish(mut self) -> io::Result<W> {
        match self.problem {
            Some(problem) => Err(problem),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    /// Describes a track, and says what it is known by from then on.
    pub fn describe(&mut self, track: TrackDescriptor) -> u64 {
        self.described += 1;
        let uuid = u64::from(self.sequence - 1) << 32 | self.described;
        self.write(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(uuid),
                ..track
            }),
            ..TracePacket::default()
        });
        uuid
    }

    /// A slice begins on a track.
    pub fn begin(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.named(EventType::SliceBegin, track, at, event);
    }

    /// Something happens on a track.
    pub fn instant(&mut self, track: u64, at: u64, event: PacketEvent) {
        self.named(EventType::Instant, track, at, event);
    }

    /// The innermost slice of a track ends.
    pub fn end(&mut self, track: u64, at: u64, annotations: Vec<Annotation>) {
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
    pub fn count(&mut self, track: u64, at: u64, value: u64) {
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

    /// Writes a packet of this sequence.
    pub fn write(&mut self, mut packet: TracePacket) {
        packet.trusted_packet_sequence_id = Some(self.sequence);
        let cleared = if self.begun { 0 } else { message::CLEARED };
        packet.sequence_flags = Some(cleared | message::NEEDS_NAMES);
        self.begun = true;
        self.write_foreign(packet);
    }

    /// Writes a packet of another sequence as it is.
    pub fn write_foreign(&mut self, packet: TracePacket) {
        if self.problem.is_some() {
            return;
        }
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
