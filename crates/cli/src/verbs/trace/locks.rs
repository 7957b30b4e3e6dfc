//! `tailbound trace locks`: a command whose locks are recorded, or a file with such a recording, and the evaluation.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration as Pause;

use tailbound_linux::process::send_signal;
use tailbound_linux::trigger_control::path_for_others;
use tailbound_lock_trace::{
    LockEvent, LockEventReader, LockRecording, LockRecordingEnd, LockRecordingHeader,
    LockRecordingWriter, LockStudy, MAPPINGS_VARIABLE, MappedModules, PRELOADED_LIBRARY,
    RECORDING_VARIABLE,
};
use tailbound_trace::recording::KernelRecordingError;
use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::{RecordingReader, TriggerEvent};

use super::kernel_locks;
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

/// Runs the command, or reads the file, and prints what locks did.
pub fn carry_out(arguments: &LockTraceArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    if let Some(file) = &arguments.file {
        let failed = |error: &dyn Display| Failure::error(format!("{}: {error}", file.display()));
        let bytes = File::open(file).map_err(|error| failed(&error))?;
        let report = match LockRecording::open(&bytes) {
            Ok(recording) => evaluate(&recording, file, output).map_err(|error| failed(&error))?,
            Err(KernelRecordingError::NoLocks) => {
                kernel_locks::evaluate(&super::open(file, output)?, output)
                    .map_err(|error| failed(&error))?
            }
            Err(error) => return Err(failed(&error)),
        };
        return report.print(arguments.rows, output);
    }
    let (report, status, kept) = trace(arguments).map_err(Failure::of_wrapper)?;
    if report.is_empty() {
        output.warn(format!(
            "\"{}\" took no lock that is seen; trace a program that is linked dynamically with libc and takes locks of \
             POSIX threads",
            arguments.command[0]
        ));
    }
    report.print(arguments.rows, output)?;
    kept.map_err(Failure::of_wrapper)?;
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

/// The report of a recording, with a warning for every fault that was read around.
fn evaluate(
    recording: &LockRecording<&File>,
    file: &Path,
    output: &Output,
) -> Result<LockReport, KernelRecordingError> {
    let mut study = LockStudy::default();
    let mut events = 0;
    let gaps = recording.visit(|event| {
        study.take(event);
        events += 1;
    })?;
    for remark in recording.remarks() {
        output.warn(format!("{}: {remark}", file.display()));
    }
    if gaps > 0 {
        output.warn(format!(
            "{}: {gaps} pieces of events cannot be read; sections there are incomplete",
            file.display()
        ));
    }
    let end = recording.end().copied().unwrap_or_default();
    let reading = TraceQuality {
        events,
        lost: end.lost,
        unfinished: end.unfinished,
        clock_error_ns: end.clock_error_ns,
    };
    let modules = recording.modules()?;
    Ok(LockReport::new(study.finish(), reading, &modules))
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

    /// The text of /proc/PID/maps of each process, by its number.
    fn mappings_by_process(&self) -> BTreeMap<u32, String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mappings = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let process = name.strip_prefix("mappings.")?.parse().ok()?;
            Some((process, fs::read_to_string(entry.path()).ok()?))
        });
        mappings.collect()
    }
}

impl Drop for TraceFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the command to its end, and evaluates its locks meanwhile; the last of the results is whether the recording is
/// kept.
fn trace(
    arguments: &LockTraceArguments,
) -> Result<(LockReport, ExitStatus, Result<(), Failure>), Failure> {
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
    let mut evaluation = Evaluation {
        kept: KeptRecording::begin(arguments)?,
        ..Evaluation::default()
    };
    let mut child = start(&arguments.command, &file, &folder)?;
    let status = wait(&mut child, &stop, || evaluation.take(&mut reader))
        .map_err(|error| Failure::error(format!("cannot wait for the command: {error}")))?;
    while evaluation.take(&mut reader) > 0 {}
    let mut remains = Vec::new();
    let salvage = reader.salvage(|event| remains.push(*event));
    evaluation.add(&reader, &remains);
    let mappings = folder.mappings_by_process();
    let modules = mappings.iter();
    let modules = modules.map(|(process, text)| (*process, MappedModules::parse(text)));
    let modules = modules.collect();
    let end = LockRecordingEnd {
        lost: reader.lost(),
        unfinished: salvage.unfinished,
        clock_error_ns: reader.conversion().error_ns(),
    };
    let reading = TraceQuality {
        events: evaluation.events,
        lost: end.lost,
        unfinished: end.unfinished,
        clock_error_ns: end.clock_error_ns,
    };
    let report = LockReport::new(evaluation.study.finish(), reading, &modules);
    let kept = evaluation.kept.map(|kept| kept.finish(mappings, &end));
    Ok((report, status, kept.unwrap_or(Ok(()))))
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
    kept: Option<KeptRecording>,
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
                if let Some(kept) = &mut self.kept {
                    kept.write(&event);
                }
            }
        }
    }
}

/// The file of the recording. The command runs on where the file cannot be written any more; the first fault is kept.
struct KeptRecording {
    path: PathBuf,
    writer: LockRecordingWriter<BufWriter<File>>,
    fault: Option<io::Error>,
}

impl KeptRecording {
    /// Begins the file that the arguments name, if they name one.
    fn begin(arguments: &LockTraceArguments) -> Result<Option<Self>, Failure> {
        let Some(path) = &arguments.output else {
            return Ok(None);
        };
        let header = LockRecordingHeader {
            command: arguments.command.clone(),
        };
        let begun = File::create(path)
            .and_then(|file| LockRecordingWriter::new(BufWriter::new(file), &header));
        let writer = begun.map_err(|error| unwritten(path, &error))?;
        Ok(Some(Self {
            path: path.clone(),
            writer,
            fault: None,
        }))
    }

    fn write(&mut self, event: &LockEvent) {
        if self.fault.is_none() {
            self.fault = self.writer.write(event).err();
        }
    }

    fn finish(
        self,
        mappings: BTreeMap<u32, String>,
        end: &LockRecordingEnd,
    ) -> Result<(), Failure> {
        let result = match self.fault {
            Some(fault) => Err(fault),
            None => self.writer.finish(mappings, end).map(drop),
        };
        result.map_err(|error| unwritten(&self.path, &error))
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::error(format!(
        "cannot write the recording to {}: {error}",
        path.display()
    ))
}
