//! `tailbound trace triggers`: the triggers of a running process.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration as Pause, Instant};

use serde::Serialize;
use tailbound_linux::process::state_letter;
use tailbound_linux::trigger_control::{TriggerControl, TriggerControlError};
use tailbound_time::Duration;
use tailbound_trace::export::{ProgramEvent, ProgramEvents};
use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::{RecordingReader, TriggerEvent, TriggerState};

use crate::arguments::{TriggerArguments, TriggerRequest};
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// The time between two readings of a recording.
const READ_EVERY: Pause = Pause::from_millis(5);

/// The triggers of a process, as JSON.
#[derive(Serialize)]
struct TriggerList {
    pid: u32,
    triggers: Vec<TriggerRow>,
}

#[derive(Serialize)]
struct TriggerRow {
    name: String,
    is_enabled: bool,
    copies: usize,
}

/// Switches triggers if that is asked for, and lists them.
pub fn carry_out(arguments: &TriggerArguments, output: &Output) -> Result<(), Failure> {
    let mut control = TriggerControl::connect(arguments.pid).map_err(Failure::from_error)?;
    match arguments.request.as_ref().unwrap_or(&TriggerRequest::List) {
        TriggerRequest::List => Ok(()),
        TriggerRequest::Enable { pattern } => control.enable(pattern),
        TriggerRequest::Disable { pattern } => control.disable(pattern),
        TriggerRequest::Record {
            pattern,
            duration,
            events,
        } => return record(&mut control, pattern, (*duration, *events), output),
    }
    .map_err(Failure::from_error)?;
    let triggers = control.triggers().map_err(Failure::from_error)?;
    let row = |trigger: &TriggerState| {
        let state = if trigger.is_enabled { "on" } else { "off" };
        vec![
            trigger.name.clone(),
            state.into(),
            trigger.copies.to_string(),
        ]
    };
    let rows: Vec<_> = triggers.iter().map(row).collect();
    let list = TriggerList {
        pid: arguments.pid,
        triggers: triggers
            .into_iter()
            .map(|it| TriggerRow {
                name: it.name,
                is_enabled: it.is_enabled,
                copies: it.copies,
            })
            .collect(),
    };
    output.rows(&["trigger", "state", "copies"], &rows, &list)
}

/// Records until the end of `duration`, Ctrl-C or so many events.
fn record(
    control: &mut TriggerControl,
    pattern: &str,
    (duration, most): (Option<Duration>, usize),
    output: &Output,
) -> Result<(), Failure> {
    let no_memory = |error| Failure::error(format!("no memory for the recording: {error}"));
    let file = RecordingLayout::default()
        .anonymous_file()
        .map_err(no_memory)?;
    let mut reader = RecordingReader::open(&file).map_err(no_memory)?;
    let stop = interrupts::watch()?;
    let before = control.triggers().map_err(Failure::from_error)?;
    control.record(&file).map_err(Failure::from_error)?;
    control.enable(pattern).map_err(Failure::from_error)?;
    let end = duration.map(|it| Instant::now() + Pause::from_nanos(it.as_nanos()));
    let mut events: Vec<TriggerEvent> = Vec::new();
    while !stop.load(Ordering::Relaxed)
        && end.is_none_or(|end| Instant::now() < end)
        && events.len() < most
    {
        sleep(READ_EVERY);
        reader.drain(|event| events.push(*event));
    }
    let ending = end_recording(control, &before);
    reader.drain(|event| events.push(*event));
    events.truncate(most);
    print(&reader, &events, output)?;
    match ending {
        Err(error) if is_running(control.pid()) => Err(Failure::error(format!(
            "the events above were recorded, but their recording was not ended: {error}"
        ))),
        // A process that has ended has nothing to switch off.
        _ => Ok(()),
    }
}

/// Ends the recording, and switches the triggers off that were off before; both are tried.
fn end_recording(
    control: &mut TriggerControl,
    before: &[TriggerState],
) -> Result<(), TriggerControlError> {
    let switched = switch_off_others(control, before);
    control.stop().and(switched)
}

/// Whether a process runs, and is no zombie.
fn is_running(pid: u32) -> bool {
    state_letter(pid).is_ok_and(|state| !"ZX".contains(state))
}

/// Switches triggers off that were off.
fn switch_off_others(
    control: &mut TriggerControl,
    before: &[TriggerState],
) -> Result<(), TriggerControlError> {
    for trigger in control.triggers()? {
        let was_enabled = before
            .iter()
            .any(|it| it.name == trigger.name && it.is_enabled);
        if trigger.is_enabled && !was_enabled {
            control.disable(&trigger.name)?;
        }
    }
    Ok(())
}

fn print(
    reader: &RecordingReader,
    events: &[TriggerEvent],
    output: &Output,
) -> Result<(), Failure> {
    let conversion = reader.conversion();
    let mut rows: Vec<ProgramEvent> = (events.iter())
        .map(|event| ProgramEvent {
            instant_ns: conversion.monotonic_ns(event.instant),
            thread: event.thread,
            trigger: reader
                .name(event.site)
                .unwrap_or_else(|| format!("#{}", event.site)),
            arguments: event.arguments().to_vec(),
        })
        .collect();
    rows.sort_by_key(|row| row.instant_ns);
    let list = ProgramEvents {
        lost: reader.lost(),
        clock_error_ns: conversion.error_ns(),
        events: rows,
    };
    let cells: Vec<_> = (list.events.iter())
        .map(|row| {
            let arguments: Vec<_> = row.arguments.iter().map(u64::to_string).collect();
            let instant = row.instant_ns.to_string();
            vec![
                instant,
                row.thread.to_string(),
                row.trigger.clone(),
                arguments.join(" "),
            ]
        })
        .collect();
    output.note(format!(
        "{} events, {} lost; instants on CLOCK_MONOTONIC to {}",
        list.events.len(),
        list.lost,
        Duration::from_nanos(list.clock_error_ns)
    ));
    output.rows(
        &["instant_ns", "thread", "trigger", "arguments"],
        &cells,
        &list,
    )
}
