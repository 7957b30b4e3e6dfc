//! The Common Trace Format, version 1.8: a folder with a description of all events and a stream for each CPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::error::ExportError;
use super::fields::{ExportedValue, fields};
use super::program_events::{ComingEvents, ProgramEvent, ProgramEvents};
use super::thread_names::ThreadNames;
use crate::kernel::KernelEventKind;
use crate::recording::{KernelRecording, PositionedBytes};

/// The beginning of every packet.
const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of a packet's header and context, without the number of a CPU.
const PACKET_HEADER_BYTES: usize = 4 + 4 + 5 * 8;
/// The name of the class of a program's events, in their own stream.
const PROGRAM_EVENT: &str = "program_event";
/// The number of that class.
const PROGRAM_CLASS: u16 = 0;
/// Bytes of events from which a packet is written.
const PACKET_BYTES: usize = 64 << 10;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CtfType {
    Number,
    Signed,
    Text,
}

/// The classes of events, by name: a number, and the fields.
type EventClasses = BTreeMap<&'static str, (u16, Vec<(&'static str, CtfType)>)>;

/// Writes the files `metadata` and `cpuN` for each CPU, which `open` opens in an empty folder, and `programs` where there
/// are events of programs. Events that were lost are counted as the format does it, by packets.
///
/// # Errors
/// The recording cannot be read, or a file not be written.
pub fn write_ctf<B: PositionedBytes, W: Write>(
    recording: &KernelRecording<B>,
    programs: &ProgramEvents,
    mut open: impl FnMut(&str) -> io::Result<W>,
) -> Result<(), ExportError> {
    let decoder = recording.decoder()?;
    let header = recording.header();
    let mut streams = BTreeMap::new();
    for cpu in &header.cpus {
        let out = open(&format!("cpu{cpu}"))?;
        streams.insert(*cpu, PacketStream::new(Some(*cpu), out));
    }
    let mut of_programs = match programs.events.is_empty() {
        true => None,
        false => Some(PacketStream::new(None, open("programs")?)),
    };
    let mut coming = ComingEvents::new(programs);
    let mut names = ThreadNames::new(header);
    let mut classes = EventClasses::new();
    let mut events = recording.events(&decoder);
    while let Some(event) = events.next_event()? {
        if let Some(stream) = &mut of_programs {
            push_programs(&mut coming, event.at.as_nanos(), &names, stream)?;
        }
        let Some(stream) = streams.get_mut(&event.cpu) else {
            continue;
        };
        names.note(&event);
        if let KernelEventKind::Lost { count } = event.kind {
            // The format has no loss that is not counted: it is one event at least.
            stream.lose(count.unwrap_or(1))?;
            continue;
        }
        let fields = fields(&event.kind, header);
        let next = classes.len() as u16;
        let class = classes.entry(event.kind.name());
        let (number, _) = class.or_insert_with(|| (next, types(&fields)));
        let thread = (event.thread, names.name(event.thread));
        stream.push(*number, event.at.as_nanos(), thread, fields)?;
    }
    if let Some(mut stream) = of_programs.take() {
        push_programs(&mut coming, u64::MAX, &names, &mut stream)?;
        stream.lose(programs.lost)?;
        stream.finish()?;
    }
    for stream in streams.into_values() {
        stream.finish()?;
    }
    let mut out = open("metadata")?;
    let kernel = header.host.get("kernel");
    let text = metadata(&classes, kernel, !programs.events.is_empty());
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes the program events up to an instant.
fn push_programs<W: Write>(
    coming: &mut ComingEvents<'_>,
    until: u64,
    names: &ThreadNames,
    stream: &mut PacketStream<W>,
) -> io::Result<()> {
    while let Some(event) = coming.next_until(until) {
        let thread = (event.thread, names.name(event.thread));
        stream.push(
            PROGRAM_CLASS,
            event.instant_ns,
            thread,
            program_fields(event),
        )?;
    }
    Ok(())
}

fn program_fields(event: &ProgramEvent) -> Vec<(&'static str, ExportedValue)> {
    vec![
        ("trigger", ExportedValue::Text(event.trigger.clone())),
        ("arguments", ExportedValue::Text(event.arguments_text())),
    ]
}

fn types(fields: &[(&'static str, ExportedValue)]) -> Vec<(&'static str, CtfType)> {
    let kind = |value: &ExportedValue| match value {
        ExportedValue::Number(_) => CtfType::Number,
        ExportedValue::Signed(_) => CtfType::Signed,
        ExportedValue::Text(_) => CtfType::Text,
    };
    fields
        .iter()
        .map(|(name, value)| (*name, kind(value)))
        .collect()
}

/// The stream of a CPU, or of programs, of which at most one packet is in memory.
struct PacketStream<W> {
    cpu: Option<u32>,
    out: W,
    events: Vec<u8>,
    begin: u64,
    end: u64,
    discarded: u64,
}

impl<W: Write> PacketStream<W> {
    fn new(cpu: Option<u32>, out: W) -> Self {
        Self {
            cpu,
            out,
            events: Vec::new(),
            begin: 0,
            end: 0,
            discarded: 0,
        }
    }

    fn push(
        &mut self,
        class: u16,
        at: u64,
        (thread, name): (u32, String),
        fields: Vec<(&'static str, ExportedValue)>,
    ) -> io::Result<()> {
        if self.events.is_empty() {
            self.begin = at;
        }
        self.end = at;
        self.events.extend(class.to_le_bytes());
        self.events.extend(at.to_le_bytes());
        self.events.extend(thread.to_le_bytes());
        self.text(&name);
        for (_, value) in fields {
            match value {
                ExportedValue::Number(number) => self.events.extend(number.to_le_bytes()),
                ExportedValue::Signed(number) => self.events.extend(number.to_le_bytes()),
                ExportedValue::Text(text) => self.text(&text),
            }
        }
        match self.events.len() >= PACKET_BYTES {
            true => self.end_packet(),
            false => Ok(()),
        }
    }

    /// The end of a text is a zero, which it cannot have within.
    fn text(&mut self, text: &str) {
        self.events.extend(text.bytes().filter(|byte| *byte != 0));
        self.events.push(0);
    }

    fn lose(&mut self, count: u64) -> io::Result<()> {
        self.end_packet()?;
        self.discarded = self.discarded.saturating_add(count);
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.end_packet()?;
        self.out.flush()
    }

    fn end_packet(&mut self) -> io::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let cpu = self.cpu.map(u32::to_le_bytes);
        let cpu = cpu.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let bits = (PACKET_HEADER_BYTES + cpu.len() + self.events.len()) as u64 * 8;
        let stream = u32::from(self.cpu.is_none());
        self.out.write_all(&MAGIC.to_le_bytes())?;
        self.out.write_all(&stream.to_le_bytes())?;
        for number in [self.begin, self.end, bits, bits, self.discarded] {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.out.write_all(cpu)?;
        self.out.write_all(&self.events)?;
        self.events.clear();
        Ok(())
    }
}

/// The description of all streams, in the format's own language.
fn metadata(classes: &EventClasses, kernel: Option<&String>, has_programs: bool) -> String {
    let kernel = kernel
        .map_or("", |kernel| kernel)
        .replace(['"', '\\', '\n'], " ");
    let mut text = String::from("/* CTF 1.8 */\n\n");
    for (name, size, signed) in [
        ("u16", 16, false),
        ("u32", 32, false),
        ("u64", 64, false),
        ("i64", 64, true),
    ] {
        let _written = writeln!(
            text,
            "typealias integer {{ size = {size}; align = 8; signed = {signed}; }} := {name};"
        );
    }
    text.push_str(
        "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := instant;\n\n\
         trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\
         \tpacket.header := struct { u32 magic; u32 stream_id; };\n};\n\n",
    );
    let _written = write!(
        text,
        "env {{\n\tdomain = \"kernel\";\n\ttracer_name = \"tailbound\";\n\tkernel_release = \"{kernel}\";\n}};\n\n"
    );
    text.push_str(
        "clock {\n\tname = monotonic;\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\toffset = 0;\n\
         };\n",
    );
    text.push_str(&stream_class(0, " u32 cpu_id;"));
    for (name, (number, fields)) in classes {
        text.push_str(&event_class(name, (0, *number), fields));
    }
    if has_programs {
        let fields = [("trigger", CtfType::Text), ("arguments", CtfType::Text)];
        text.push_str(&stream_class(1, ""));
        text.push_str(&event_class(PROGRAM_EVENT, (1, PROGRAM_CLASS), &fields));
    }
    text
}

/// A stream whose packets have some more fields.
fn stream_class(number: u32, more: &str) -> String {
    format!(
        "\nstream {{\n\tid = {number};\n\
         \tpacket.context := struct {{ instant timestamp_begin; instant timestamp_end; u64 content_size; \
         u64 packet_size; u64 events_discarded;{more} }};\n\
         \tevent.header := struct {{ u16 id; instant timestamp; }};\n\
         \tevent.context := struct {{ u32 tid; string name; }};\n}};\n"
    )
}

/// The class of events with a name, by the number of its stream and its own.
fn event_class(name: &str, (stream, number): (u32, u16), fields: &[(&str, CtfType)]) -> String {
    let mut text = format!(
        "\nevent {{\n\tname = \"{name}\";\n\tid = {number};\n\tstream_id = {stream};\n\tfields := struct {{\n"
    );
    for (name, kind) in fields {
        let kind = match kind {
            CtfType::Number => "u64",
            CtfType::Signed => "i64",
            CtfType::Text => "string",
        };
        let _written = writeln!(text, "\t\t{kind} _{name};");
    }
    text.push_str("\t};\n};\n");
    text
}
