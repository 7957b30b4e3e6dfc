//! A line for each event.

use std::io::Write;

use super::error::ExportError;
use super::fields::{ExportedValue, fields};
use super::thread_names::ThreadNames;
use crate::recording::{KernelRecording, PositionedBytes};

/// The columns.
const COLUMNS: [&str; 6] = ["time_ns", "cpu", "thread", "name", "event", "fields"];

/// Writes a line of CSV for each event, in order of time: nanoseconds of CLOCK_MONOTONIC, the CPU, the number and the
/// name of the thread that it ran, the event, and the event's fields as `NAME=VALUE` with spaces between.
///
/// # Errors
/// The recording cannot be read, or `out` not be written.
pub fn write_csv<B: PositionedBytes>(
    recording: &KernelRecording<B>,
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
    let mut events = recording.events(&decoder);
    while let Some(event) = events.next_event()? {
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
    out.flush()?;
    Ok(())
}

fn text(value: ExportedValue) -> String {
    match value {
        ExportedValue::Number(number) => number.to_string(),
        ExportedValue::Signed(number) => number.to_string(),
        ExportedValue::Text(text) => text,
    }
}
