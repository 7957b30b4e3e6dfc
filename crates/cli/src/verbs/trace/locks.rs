//! `tailbound trace locks`: a command whose locks are recorded, and their evaluation.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration as Pause;

use tailbound_linux::process::send_signal;
use tailbound_linux::trigger_control::path_for_others;
use tailbound_lock_trace::{
    LockEventReader, LockStudy, MAPPINGS_VARIABLE, MappedModules, PRELOADED_LIBRARY,
    RECORDING_VARIABLE,
};
use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::{RecordingReader, TriggerEvent};

use super::lock_report::{LockReport, TraceQuality};
use crate::arguments::LockTraceArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// The time between two readings of the recording. At ten million events a second of one thread its buffer is full
/// after six milliseconds.
const READ_EVERY: Pause = Pause::from_millis(2);
const SLOTS: u32 = 1 << 16;
/// Threads with a buffer of their own, and the one for all others.
const RINGS: u32 = 128;
/// Lock, place and request.
const ARGUMENTS: u32 = 3;
/// What shells add to the number of the signal that ended a command.
const ENDED_BY_SIGNAL: i32 = 128;
/// The number of the signal that asks to end (signal(7)).
const SIGTERM: i32 = 15;

/// Runs the command, and prints what its locks did.
pub fn carry_out(arguments: &LockTraceArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let (report, status) = trace(arguments).map_err(Failure::of_wrapper)?;
    if report.is_empty() {
        output.warn(format!(
            "\"{}\" took no lock that is seen; trace a program that is linked dynamically with libc and takes locks of \
             POSIX threads",
            arguments.command[0]
        ));
    }
    report.print(arguments.rows, output)?;
    match status
        .code()
        .or(status.signal().map(|signal| ENDED_BY_SIGNAL + signal))
    {
        Some(0) => Ok(()),
        code => Err(Failure::Command(
            code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1),
        )),
    }
}

/// A folder for the library and for copies of mappings, which goes with the value.
struct TraceFolder(PathBuf);

impl TraceFolder {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("tailbound-locks-{}", std::process::id()));
        let failed = |error| Failure::error(format!("cannot write to {}: {error}", path.display()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(failed)?;
        let folder = Self(path.clone());
        fs::write(folder.library(), PRELOADED_LIBRARY).map_err(failed)?;
        Ok(folder)
    }

    fn library(&self) -> PathBuf {
        self.0.join("locks.so")
    }

    fn mappings(&self) -> PathBuf {
        self.0.join("mappings.")
    }

    /// The files of each process, by its number.
    fn modules(&self) -> BTreeMap<u32, MappedModules> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let modules = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let process = name.strip_prefix("mappings.")?.parse().ok()?;
            let text = fs::read_to_string(entry.path()).ok()?;
            Some((process, MappedModules::parse(&text)))
        });
        modules.collect()
    }
}

impl Drop for TraceFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the command to its end, and evaluates its locks meanwhile.
fn trace(arguments: &LockTraceArguments) -> Result<(LockReport, ExitStatus), Failure> {
    let layout = RecordingLayout {
        arguments: ARGUMENTS,
        rings: RINGS,
        slots: SLOTS,
        ..RecordingLayout::default()
    };
    let no_memory = |error| Failure::error(format!("no memory for the recording: {error}"));
    let file = layout.anonymous_file().map_err(no_memory)?;
    let mut reader = RecordingReader::open(&file).map_err(no_memory)?;
    let folder = TraceFolder::make()?;
    let stop = interrupts::watch()?;
    let mut child = start(&arguments.command, &file, &folder)?;
    let mut evaluation = Evaluation::default();
    let status = wait(&mut child, &stop, || evaluation.take(&mut reader))
        .map_err(|error| Failure::error(format!("cannot wait for the command: {error}")))?;
    while evaluation.take(&mut reader) > 0 {}
    let mut remains = Vec::new();
    let salvage = reader.salvage(|event| remains.push(*event));
    evaluation.add(&reader, &remains);
    let reading = TraceQuality {
        events: evaluation.events,
        lost: reader.lost(),
        unfinished: salvage.unfinished,
        clock_error_ns: reader.conversion().error_ns(),
    };
    let report = LockReport::new(evaluation.study.finish(), reading, &folder.modules());
    Ok((report, status))
}

fn start(words: &[String], file: &File, folder: &TraceFolder) -> Result<Child, Failure> {
    let mut libraries = folder.library().into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        libraries.push(":");
        libraries.push(others);
    }
    Command::new(&words[0])
        .args(&words[1..])
        .env("LD_PRELOAD", libraries)
        .env(RECORDING_VARIABLE, path_for_others(file))
        .env(MAPPINGS_VARIABLE, folder.mappings())
        .spawn()
        .map_err(|error| Failure::error(format!("cannot start \"{}\": {error}", words[0])))
}

/// Waits for the command and reads meanwhile; passes the request to end on.
fn wait(
    child: &mut Child,
    stop: &AtomicBool,
    mut read: impl FnMut() -> usize,
) -> std::io::Result<ExitStatus> {
    let mut was_asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !was_asked {
            was_asked = true;
            // The command may have ended since.
            let _ = send_signal(child.id(), SIGTERM);
        }
        if read() == 0 {
            sleep(READ_EVERY);
        }
    }
}

#[derive(Default)]
struct Evaluation {
    translation: LockEventReader,
    study: LockStudy,
    events: u64,
    batch: Vec<TriggerEvent>,
}

impl Evaluation {
    /// Evaluates the events that are ready; returns their number.
    fn take(&mut self, reader: &mut RecordingReader) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        reader.drain(|event| batch.push(*event));
        self.add(reader, &batch);
        self.batch = batch;
        self.batch.len()
    }

    fn add(&mut self, reader: &RecordingReader, events: &[TriggerEvent]) {
        for event in events {
            let name = |site| reader.name(site);
            let event = self.translation.translate(event, reader.conversion(), name);
            if let Some(event) = event {
                self.study.take(&event);
                self.events += 1;
            }
        }
    }
}
