//! A reader of Perfetto's traces that shares nothing with what writes them: protocol buffers by their wire
//! format, and the names, numbers and kinds of fields as perfetto/trace/*.proto has them. It refuses
//! every field that it does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

#[derive(Clone, Copy)]
enum Kind {
    Number,
    Fixed64,
    Text,
    Message(&'static [Field]),
}

type Field = (u64, &'static str, Kind);

const TRACE: &[Field] = &[(1, "packet", Kind::Message(PACKET))];
const PACKET: &[Field] = &[
    (1, "ftrace_events", Kind::Message(BUNDLE)),
    (2, "process_tree", Kind::Message(PROCESSES)),
    (8, "timestamp", Kind::Number),
    (10, "trusted_packet_sequence_id", Kind::Number),
    (11, "track_event", Kind::Message(EVENT)),
    (12, "interned_data", Kind::Message(INTERNED)),
    (13, "sequence_flags", Kind::Number),
    (60, "track_descriptor", Kind::Message(TRACK)),
];
const BUNDLE: &[Field] = &[
    (1, "cpu", Kind::Number),
    (2, "event", Kind::Message(KERNEL_EVENT)),
    (3, "lost_events", Kind::Number),
];
const KERNEL_EVENT: &[Field] = &[
    (1, "timestamp", Kind::Number),
    (2, "pid", Kind::Number),
    (4, "sched_switch", Kind::Message(SWITCH)),
    (
        13,
        "cpu_idle",
        Kind::Message(&[(1, "state", Kind::Number), (2, "cpu_id", Kind::Number)]),
    ),
    (20, "sched_waking", Kind::Message(WAKING)),
    (
        24,
        "softirq_entry",
        Kind::Message(&[(1, "vec", Kind::Number)]),
    ),
    (
        25,
        "softirq_exit",
        Kind::Message(&[(1, "vec", Kind::Number)]),
    ),
    (
        36,
        "irq_handler_entry",
        Kind::Message(&[(1, "irq", Kind::Number), (2, "name", Kind::Text)]),
    ),
    (
        37,
        "irq_handler_exit",
        Kind::Message(&[(1, "irq", Kind::Number), (2, "ret", Kind::Number)]),
    ),
    (235, "task_newtask", Kind::Message(NEW_TASK)),
    (
        236,
        "task_rename",
        Kind::Message(&[(1, "pid", Kind::Number), (3, "newcomm", Kind::Text)]),
    ),
    (
        238,
        "sched_process_exit",
        Kind::Message(&[(2, "pid", Kind::Number)]),
    ),
    (329, "sys_enter", Kind::Message(&[(1, "id", Kind::Number)])),
    (
        330,
        "sys_exit",
        Kind::Message(&[(1, "id", Kind::Number), (2, "ret", Kind::Number)]),
    ),
];
const SWITCH: &[Field] = &[
    (1, "prev_comm", Kind::Text),
    (2, "prev_pid", Kind::Number),
    (3, "prev_prio", Kind::Number),
    (4, "prev_state", Kind::Number),
    (5, "next_comm", Kind::Text),
    (6, "next_pid", Kind::Number),
    (7, "next_prio", Kind::Number),
];
const WAKING: &[Field] = &[
    (1, "comm", Kind::Text),
    (2, "pid", Kind::Number),
    (5, "target_cpu", Kind::Number),
];
const NEW_TASK: &[Field] = &[
    (1, "pid", Kind::Number),
    (2, "comm", Kind::Text),
    (3, "clone_flags", Kind::Number),
];
const PROCESSES: &[Field] = &[
    (
        1,
        "processes",
        Kind::Message(&[(1, "pid", Kind::Number), (3, "cmdline", Kind::Text)]),
    ),
    (
        2,
        "threads",
        Kind::Message(&[
            (1, "tid", Kind::Number),
            (2, "name", Kind::Text),
            (3, "tgid", Kind::Number),
        ]),
    ),
];
const INTERNED: &[Field] = &[
    (2, "event_names", Kind::Message(NAME)),
    (3, "debug_annotation_names", Kind::Message(NAME)),
];
const NAME: &[Field] = &[(1, "iid", Kind::Number), (2, "name", Kind::Text)];
const TRACK: &[Field] = &[
    (1, "uuid", Kind::Number),
    (2, "name", Kind::Text),
    (
        4,
        "thread",
        Kind::Message(&[
            (1, "pid", Kind::Number),
            (2, "tid", Kind::Number),
            (5, "thread_name", Kind::Text),
        ]),
    ),
    (5, "parent_uuid", Kind::Number),
    (8, "counter", Kind::Message(&[(3, "unit", Kind::Number)])),
    (11, "child_ordering", Kind::Number),
    (12, "sibling_order_rank", Kind::Number),
];
const EVENT: &[Field] = &[
    (4, "debug_annotations", Kind::Message(FACT)),
    (9, "type", Kind::Number),
    (10, "name_iid", Kind::Number),
    (11, "track_uuid", Kind::Number),
    (23, "name", Kind::Text),
    (30, "counter_value", Kind::Number),
    (47, "flow_ids", Kind::Fixed64),
];
const FACT: &[Field] = &[
    (1, "name_iid", Kind::Number),
    (2, "bool_value", Kind::Number),
    (3, "uint_value", Kind::Number),
    (6, "string_value", Kind::Text),
];

/// A message: its fields with their values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(Vec<(&'static str, Value)>);

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
    Message(Message),
}

impl Message {
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find_map(|(key, value)| match value {
            Value::Number(number) if *key == name => Some(*number),
            _ => None,
        })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|(key, value)| match value {
            Value::Text(text) if *key == name => Some(text.as_str()),
            _ => None,
        })
    }

    pub fn messages(&self, name: &str) -> Vec<&Message> {
        let fields = self.0.iter().filter(|(key, _)| *key == name);
        fields
            .filter_map(|(_, value)| match value {
                Value::Message(message) => Some(message),
                _ => None,
            })
            .collect()
    }
}

/// The packets of a trace.
pub fn packets(mut bytes: &[u8]) -> Result<Vec<Message>, String> {
    let trace = read(&mut bytes, TRACE)?;
    Ok(trace.messages("packet").into_iter().cloned().collect())
}

fn read(bytes: &mut &[u8], fields: &[Field]) -> Result<Message, String> {
    let mut message = Message::default();
    while !bytes.is_empty() {
        let tag = varint(bytes)?;
        let (_, name, kind) = fields
            .iter()
            .find(|(number, _, _)| *number == tag >> 3)
            .ok_or(format!("unknown field {}", tag >> 3))?;
        let value = match (kind, tag & 7) {
            (Kind::Number, 0) => Value::Number(varint(bytes)?),
            (Kind::Fixed64, 1) => {
                let (eight, rest) = bytes.split_first_chunk::<8>().ok_or("cut short")?;
                *bytes = rest;
                Value::Number(u64::from_le_bytes(*eight))
            }
            (Kind::Text, 2) => {
                let text = String::from_utf8(chunk(bytes)?.to_vec());
                Value::Text(text.map_err(|error| error.to_string())?)
            }
            (Kind::Message(fields), 2) => Value::Message(read(&mut chunk(bytes)?, fields)?),
            (_, wire) => return Err(format!("{name} has wire type {wire}")),
        };
        message.0.push((name, value));
    }
    Ok(message)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first().ok_or("cut short")?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number that does not end".into())
}

fn chunk<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = varint(bytes)? as usize;
    if length > bytes.len() {
        return Err("cut short".into());
    }
    let (chunk, rest) = bytes.split_at(length);
    *bytes = rest;
    Ok(chunk)
}

/// What a trace shows, as Perfetto would understand it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Each track by its path.
    pub tracks: BTreeMap<u64, String>,
    /// Slices of each track: name, begin, and end if there is one.
    pub slices: BTreeMap<String, Vec<(String, u64, Option<u64>)>>,
    /// Instant events of each track: name and instant.
    pub instants: BTreeMap<String, Vec<(String, u64)>>,
    /// Values of each counter: instant and value.
    pub counters: BTreeMap<String, Vec<(u64, u64)>>,
    /// The kernel's events of each CPU: instant, thread and name.
    pub kernel: BTreeMap<u64, Vec<(u64, u64, &'static str)>>,
    counting: BTreeSet<u64>,
    sequences: BTreeSet<u64>,
    names: BTreeMap<(u64, u64), String>,
    facts: BTreeSet<(u64, u64)>,
}

impl Shown {
    /// Reads packets one after the other; a track, a name or a slice that is used before it is there
    /// is an error.
    pub fn of(packets: &[Message]) -> Result<Self, String> {
        let mut shown = Self::default();
        for (index, packet) in packets.iter().enumerate() {
            let cleared = packet.number("sequence_flags").unwrap_or(0) & 1 == 1;
            let sequence = packet.number("trusted_packet_sequence_id");
            let sequence = sequence.ok_or(format!("packet {index} is of no sequence"))?;
            if cleared != shown.sequences.insert(sequence) {
                return Err(format!("packet {index} has the wrong flags"));
            }
            shown.packet(packet, sequence)?;
        }
        Ok(shown)
    }

    fn packet(&mut self, packet: &Message, sequence: u64) -> Result<(), String> {
        self.kernel_events(packet)?;
        for names in packet.messages("interned_data") {
            for name in names.messages("event_names") {
                let iid = name.number("iid").ok_or("a name without a number")?;
                let text = name.text("name").ok_or("a number without a name")?;
                self.names.insert((sequence, iid), text.to_owned());
            }
            for name in names.messages("debug_annotation_names") {
                let iid = name.number("iid").ok_or("a name without a number")?;
                self.facts.insert((sequence, iid));
            }
        }
        for track in packet.messages("track_descriptor") {
            let uuid = track.number("uuid").ok_or("a track without a number")?;
            let of_thread = track.messages("thread").into_iter().next();
            let thread = of_thread.map(|thread| {
                let number = |name| thread.number(name).unwrap_or_default();
                format!("thread {} of {}", number("tid"), number("pid"))
            });
            let name = track.text("name").or(thread.as_deref());
            let name = name.ok_or("a track without a name")?;
            let path = match track.number("parent_uuid") {
                Some(parent) => {
                    let parent = self
                        .tracks
                        .get(&parent)
                        .ok_or("a track before its parent")?;
                    format!("{parent}/{name}")
                }
                None => name.to_owned(),
            };
            if !track.messages("counter").is_empty() {
                self.counting.insert(uuid);
            }
            if self.tracks.insert(uuid, path).is_some() {
                return Err(format!("track {uuid} is there twice"));
            }
        }
        for event in packet.messages("track_event") {
            let at = packet
                .number("timestamp")
                .ok_or("an event without a time")?;
            self.event(at, event, sequence)?;
        }
        Ok(())
    }

    fn kernel_events(&mut self, packet: &Message) -> Result<(), String> {
        for bundle in packet.messages("ftrace_events") {
            let cpu = bundle.number("cpu").ok_or("a bundle without a CPU")?;
            for event in bundle.messages("event") {
                let at = event.number("timestamp").ok_or("an event without a time")?;
                let thread = event.number("pid").ok_or("an event without a thread")?;
                let (name, _) = event.0.last().ok_or("an event without a kind")?;
                self.kernel.entry(cpu).or_default().push((at, thread, name));
            }
        }
        Ok(())
    }

    fn event(&mut self, at: u64, event: &Message, sequence: u64) -> Result<(), String> {
        let uuid = event
            .number("track_uuid")
            .ok_or("an event without a track")?;
        let path = self.tracks.get(&uuid).ok_or("an event before its track")?;
        // Tracks of one name beside each other are told apart by their numbers.
        let track = if path.ends_with("/jobs") {
            format!("{path} {uuid}")
        } else {
            path.clone()
        };
        for fact in event.messages("debug_annotations") {
            let iid = fact.number("name_iid").ok_or("a fact without a name")?;
            if !self.facts.contains(&(sequence, iid)) {
                return Err("a fact before its name".into());
            }
        }
        let name = match (event.number("name_iid"), event.text("name")) {
            (Some(iid), None) => self
                .names
                .get(&(sequence, iid))
                .ok_or("an unknown name")?
                .clone(),
            (None, text) => text.unwrap_or_default().to_owned(),
            _ => return Err("two names".into()),
        };
        let kind = event.number("type").ok_or("an event without a type")?;
        if self.counting.contains(&uuid) != (kind == 4) {
            return Err(format!("{track} has an event of another kind"));
        }
        match kind {
            1 => self.slices.entry(track).or_default().push((name, at, None)),
            2 => {
                let slices = self.slices.entry(track).or_default();
                let open = slices.last_mut().filter(|(_, _, end)| end.is_none());
                open.ok_or("an end without a begin")?.2 = Some(at);
            }
            3 => self.instants.entry(track).or_default().push((name, at)),
            4 => {
                let value = event.number("counter_value").ok_or("no value")?;
                self.counters.entry(track).or_default().push((at, value));
            }
            other => return Err(format!("unknown type {other}")),
        }
        Ok(())
    }

    /// Slices that begin before the one in front of them has ended, and values that go back in time.
    pub fn disorder(&self) -> Vec<String> {
        let mut disorder = Vec::new();
        for (track, slices) in &self.slices {
            for pair in slices.windows(2) {
                if pair[0].2.is_none_or(|end| end > pair[1].1) {
                    disorder.push(format!("{track}: {:?} and {:?}", pair[0], pair[1]));
                }
            }
        }
        for (track, values) in &self.counters {
            if !values.is_sorted_by_key(|(at, _)| *at) {
                disorder.push(format!("{track}: {values:?}"));
            }
        }
        disorder
    }

    /// All of it as text, a line a track.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (track, slices) in &self.slices {
            let _written = write!(text, "{track}:");
            for (name, from, until) in slices {
                let until = until.map_or_else(String::new, |until| until.to_string());
                let _written = write!(text, " {name} {from}-{until}");
            }
            text.push('\n');
        }
        for (track, instants) in &self.instants {
            let _written = writeln!(text, "{track}: {instants:?}");
        }
        for (track, values) in &self.counters {
            let _written = writeln!(text, "{track}: {values:?}");
        }
        text
    }
}
