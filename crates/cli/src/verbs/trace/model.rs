//! `tailbound trace model`: the tasks and the interference of a recording, as a description.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tailbound_model::kernel_trace::{
    ModelledTask, RecordedTrace, ThreadSelection, TraceModel, TraceReader, TracedEvent,
    TracedEventKind, TracedInterrupt, TracedThread, recorded_trace,
};
use tailbound_model::{Problems, interference_to_toml, to_toml};
use tailbound_time::{Duration, Instant};
use tailbound_trace::explain::Stalls;
use tailbound_trace::kernel::{InterruptContext, KernelEvent, KernelEventKind, OffCpuState};
use tailbound_trace::recording::{KernelRecording, KernelRecordingError};

use crate::arguments::TraceModelArguments;
use crate::excerpt;
use crate::failure::Failure;
use crate::output::Output;

const HEADER: [&str; 7] = [
    "kind",
    "name",
    "cpu",
    "count",
    "period_ns",
    "jitter_ns",
    "longest_ns",
];

/// Prints a description, or the interference alone; losses go to standard error.
pub fn carry_out(arguments: &TraceModelArguments, output: &Output) -> Result<(), Failure> {
    let selection = ThreadSelection {
        pids: arguments.pid.clone(),
        comm: arguments.comm.clone(),
    };
    let (trace, text) = match is_recording(&arguments.file)? {
        true => (
            of_recording(&arguments.file, &selection, output)?,
            String::new(),
        ),
        false => of_text(&arguments.file, &selection)?,
    };
    if output.speaks() && !trace.notes.is_empty() {
        excerpt::render(&Problems::new(trace.notes.clone()), &text);
    }
    let model = TraceModel::of(&trace);
    for left_out in &model.left_out {
        output.note(format!("left out: {left_out}"));
    }
    let toml = toml(&model, arguments)?;
    output
        .exporting(&arguments.export)
        .rows_with(|| toml, &HEADER, &rows(&model), &model)
}

/// Whether a file is a recording of ours, and not a text.
fn is_recording(path: &Path) -> Result<bool, Failure> {
    let open = File::open(path).map_err(|error| unreadable(path, &error))?;
    match KernelRecording::open(open) {
        Err(KernelRecordingError::NotARecording { .. }) => Ok(false),
        // What else is wrong is said where it is read.
        _ => Ok(true),
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::with_help(
        format!("cannot read {}: {error}", path.display()),
        "name a recording of `tailbound trace record`, or the text of ftrace, trace-cmd report or perf script",
    )
}

fn of_text(path: &Path, selection: &ThreadSelection) -> Result<(RecordedTrace, String), Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match recorded_trace(&text, &path.display().to_string(), selection) {
        Ok(trace) => Ok((trace, text)),
        Err(problems) => Err(Failure::Description { problems, text }),
    }
}

/// The jobs and the interference of a recording of ours.
fn of_recording(
    path: &Path,
    selection: &ThreadSelection,
    output: &Output,
) -> Result<RecordedTrace, Failure> {
    let recording = super::open(path, output)?;
    let failed =
        |cause: &dyn std::fmt::Display| Failure::error(format!("{}: {cause}", path.display()));
    let decoder = recording.decoder().map_err(|cause| failed(&cause))?;
    let mut events = recording.events(&decoder);
    let mut stalls = stalls_of(&recording).map_err(|cause| failed(&cause))?;
    let mut reader = TraceReader::of(selection);
    while let Some(event) = events.next_event().map_err(|cause| failed(&cause))? {
        take(&mut reader, &event, &recording.header().interrupt_lines);
        while let Some(stall) = stalls
            .next(event.at, &mut events)
            .map_err(|cause| failed(&cause))?
        {
            let length_ns = stall.end.saturating_sub(stall.start);
            reader.take(&TracedEvent {
                at_ns: stall.start,
                cpu: Some(stall.cpu),
                kind: TracedEventKind::Stall { length_ns },
            });
        }
    }
    let trace = reader.finish(&path.display().to_string());
    match trace.jobs.is_empty() && trace.interference.is_empty() {
        true => Err(Failure::with_help(
            format!(
                "{}: no whole job of a chosen thread, and no interference",
                path.display()
            ),
            "record for longer, or choose other threads; `tailbound trace report` shows which there are",
        )),
        false => Ok(trace),
    }
}

fn stalls_of(recording: &KernelRecording<File>) -> Result<Stalls, KernelRecordingError> {
    let header = recording.header();
    let mut delays = Vec::new();
    for cpu in &header.cpus {
        delays.extend(recording.sampler_delays(*cpu)?);
    }
    Ok(Stalls::new(
        &delays,
        header.looks_apart.unwrap_or(Duration::ZERO),
    ))
}

/// Takes an event of a recording, if the derivation knows it.
fn take(
    reader: &mut TraceReader,
    event: &KernelEvent,
    lines: &std::collections::BTreeMap<u32, String>,
) {
    let mut take = |kind: TracedEventKind<'_>| {
        reader.take(&TracedEvent {
            at_ns: nanoseconds(event.at),
            cpu: Some(event.cpu),
            kind,
        });
    };
    match &event.kind {
        KernelEventKind::ThreadSwitch(switch) => {
            let (from, to) = (switch.previous_name.text(), switch.next_name.text());
            take(TracedEventKind::Switch {
                from: TracedThread {
                    pid: switch.previous,
                    comm: &from,
                },
                runnable: switch.state == OffCpuState::Runnable,
                to: TracedThread {
                    pid: switch.next,
                    comm: &to,
                },
            });
        }
        KernelEventKind::Waking { thread, name, .. } => {
            let comm = name.text();
            take(TracedEventKind::WakeUp(TracedThread {
                pid: *thread,
                comm: &comm,
            }));
        }
        KernelEventKind::InterruptEntry(interrupt) => {
            let name = name_of(*interrupt, lines);
            take(TracedEventKind::Begin(traced(*interrupt, &name)));
        }
        KernelEventKind::InterruptExit(interrupt) => {
            let name = name_of(*interrupt, lines);
            take(TracedEventKind::End(traced(*interrupt, &name)));
        }
        KernelEventKind::Lost { .. } => take(TracedEventKind::Lost),
        _ => {}
    }
}

fn nanoseconds(at: Instant) -> u64 {
    at.as_nanos()
}

fn name_of(interrupt: InterruptContext, lines: &std::collections::BTreeMap<u32, String>) -> String {
    interrupt.name(|number| lines.get(&number).cloned())
}

fn traced(interrupt: InterruptContext, name: &str) -> TracedInterrupt<'_> {
    match interrupt {
        InterruptContext::Soft(_) => TracedInterrupt::soft(name),
        InterruptContext::Line(_) | InterruptContext::Vector(_) => TracedInterrupt::hard(name),
    }
}

fn toml(model: &TraceModel, arguments: &TraceModelArguments) -> Result<String, Failure> {
    let sources = model.interference.iter();
    let sources: Vec<_> = sources.map(|one| one.interference.clone()).collect();
    let toml = match arguments.interference || model.tasks.is_empty() {
        true => interference_to_toml(&arguments.host, &sources),
        false => to_toml(&model.description("recorded", &arguments.host)),
    };
    let toml = toml.map_err(Failure::from_error)?;
    let mut remarks = format!(
        "# Derived from {} of a recording. Distances and longest times are those that were seen: bounds of the recording, and of\n\
         # what comes only as far as the recording is like it.\n",
        model.length
    );
    for task in model.tasks.iter().filter(|_| !arguments.interference) {
        remarks.push_str(&remark(task));
    }
    for one in &model.interference {
        let source = &one.interference;
        remarks.push_str(&format!(
            "# {} on CPU {} ({}): {} events, {:.3}% of the CPU\n",
            source.source,
            source.cpu,
            one.kind(),
            one.events,
            one.share * 100.0
        ));
    }
    Ok(format!("{remarks}\n{toml}"))
}

/// A line about a task: its jobs and what a description does not say.
fn remark(task: &ModelledTask) -> String {
    let releases = match task.period {
        Some(fit) => format!("every {}, late by up to {}", fit.period, fit.jitter),
        None => "without a period".to_owned(),
    };
    let correlation = match task.autocorrelation.first_dependence() {
        None => "execution times independent of each other as far as seen".to_owned(),
        Some((lag, value)) => format!(
            "execution times depend on those {lag} jobs before (autocorrelation {value:.2}, 95% band {:.2}): predictions \
             take them to be independent",
            task.autocorrelation.band
        ),
    };
    format!(
        "# {} (thread {}, CPU {}): {} jobs {releases}; began up to {} after the wake-up, responded within {}; {correlation}\n",
        task.name, task.pid, task.cpu, task.jobs, task.longest_start_delay, task.longest_response
    )
}

fn rows(model: &TraceModel) -> Vec<Vec<String>> {
    let tasks = model.tasks.iter().map(|task| {
        let fit = |of: fn(&tailbound_model::kernel_trace::PeriodFit) -> Duration| {
            task.period.map(|fit| of(&fit).as_nanos().to_string())
        };
        let longest = task
            .execution_times
            .last()
            .map(|bin| bin.to.as_nanos().to_string());
        vec![
            "task".into(),
            task.name.clone(),
            task.cpu.to_string(),
            task.jobs.to_string(),
            fit(|fit| fit.period).unwrap_or_default(),
            fit(|fit| fit.jitter).unwrap_or_default(),
            longest.unwrap_or_default(),
        ]
    });
    let sources = model.interference.iter().map(|one| {
        let source = &one.interference;
        let longest = source.longest.map(|longest| longest.as_nanos().to_string());
        vec![
            one.kind().to_string(),
            source.source.clone(),
            source.cpu.to_string(),
            one.events.to_string(),
            String::new(),
            String::new(),
            longest.unwrap_or_default(),
        ]
    });
    tasks.chain(sources).collect()
}
