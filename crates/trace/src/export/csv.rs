//! A line for each event.

use std::io::Write;

use super::error::ExportError;
use super::fields::{ExportedValue, fields};
use super::program_events::{ComingEvents, ProgramEvent, ProgramEvents};
use super::thread_names::ThreadNames;
use crate::recording::{KernelRecording, PositionedBytes};

/// The columns.
const COLUMNS: [&str; 6] = ["time_ns", "cpu", "thread", "name", "event", "fields"];

/// Writes a line of CSV for each event, in order of time: nanoseconds of CLOCK_MONOTONIC, the CPU, the number and the
/// name of the thread that it ran, the event, and the event's fields as `NAME=VALUE` with spaces between. Events of
/// programs have the name of their trigger, no CPU, and their arguments as one field.
///
/// # Errors
/// The recording cannot be read, or `out` not be written.
pub fn write_csv<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    programs: &ProgramEvents,
    out: impl Write,
) -> Result<(), ExportError> {
    let decoder = recording.decoder()?;
    let header = recording.header();
    let mut names = ThreadNames::new(header);
    let mut out = csv::Writer::from_writer(out);
    let write = |out: &mut csv::Writer<_>, row: &[String; 6]| {
        out.write_record(row).map_err(std::io::Error::from)
    };
    write(&mut out, &COLUMNS.map(String::from))?;
    let mut coming = ComingEvents::new(programs);
    let mut events = recording.events(&decoder);
    while let Some(event) = events.next_event()? {
        while let Some(of_program) = coming.next_until(event.at.as_nanos()) {
            write(&mut out, &program_row(of_program, &names))?;
        }
        names.note(&event);
        let fields = fields(&event.kind, header).into_iter();
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect();
        let row = [
            event.at.as_nanos().to_string(),
            event.cpu.to_string(),
            event.thread.to_string(),
            names.name(event.thread),
            event.kind.name().to_string(),
            fields.join(" "),
        ];
        write(&mut out, &row)?;
    }
    while let Some(of_program) = coming.next_until(u64::MAX) {
        write(&mut out, &program_row(of_program, &names))?;
    }
    out.flush()?;
    Ok(())
}

fn program_row(event: &ProgramEvent, names: &ThreadNames) -> [String; 6] {
    [
        event.instant_ns.to_string(),
        String::new(),
        event.thread.to_string(),
        names.name(event.thread),
        event.trigger.clone(),
        format!("arguments={}", event.arguments_text()),
    ]
}

fn text(value: ExportedValue) -> String {
    match value {
        ExportedValue::Number(number) => number.to_string(),
        ExportedValue::Signed(number) => number.to_string(),
        ExportedValue::Text(text) => text,
    }
}
