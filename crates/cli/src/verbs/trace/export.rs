//! `tailbound trace export`: a recording in formats of other tools.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use tailbound_trace::export::{
    ExportError, ProgramEvents, SimulatedTraces, write_csv, write_ctf, write_perfetto,
    write_trace_dat,
};
use tailbound_trace::recording::KernelRecording;

use crate::arguments::{TraceExportArguments, TraceFileFormat};
use crate::failure::Failure;
use crate::output::{Output, read_file};

/// Writes the recording. A file appears when it is whole.
pub fn carry_out(arguments: &TraceExportArguments, output: &Output) -> Result<(), Failure> {
    if !arguments.simulated.is_empty() && arguments.to != TraceFileFormat::Perfetto {
        let message = "--simulated goes with --to perfetto alone";
        return Err(Failure::with_help(
            message,
            "other formats have no tracks for simulated schedules",
        ));
    }
    if !arguments.triggers.is_empty() && arguments.to == TraceFileFormat::TraceDat {
        return Err(Failure::with_help(
            "--triggers does not go with --to trace-dat, which has events of the kernel alone",
            "choose perfetto, csv or ctf",
        ));
    }
    let programs = program_events(&arguments.triggers, output)?;
    let recording = super::open(&arguments.file, output)?;
    let path = &arguments.output;
    match arguments.to {
        TraceFileFormat::Perfetto => {
            let simulated = open_simulated(&arguments.simulated)?;
            write_whole(path, |out| {
                write_perfetto(&recording, &programs, simulated, out).map(drop)
            })?;
        }
        TraceFileFormat::Csv => write_whole(path, |out| write_csv(&recording, &programs, out))?,
        TraceFileFormat::TraceDat => write_whole(path, |out| write_trace_dat(&recording, out))?,
        TraceFileFormat::Ctf => write_folder(path, &recording, &programs)?,
    }
    output.note(format!("export: {}", path.display()));
    Ok(())
}

/// The events of programs in files, with a note of what is lost and how exact their instants are.
fn program_events(paths: &[PathBuf], output: &Output) -> Result<ProgramEvents, Failure> {
    let mut all = ProgramEvents::default();
    for path in paths {
        let text = read_file(path)?;
        let events = ProgramEvents::parse(&text).map_err(|why| {
            Failure::with_help(
                format!("{} holds no events of triggers: {why}", path.display()),
                "record them by `tailbound trace triggers PID record PATTERN --format json`",
            )
        })?;
        all.add(events);
    }
    if !paths.is_empty() {
        output.note(format!(
            "{} events of programs, {} lost; their instants are on the recording's clock to {}",
            all.events.len(),
            all.lost,
            all.clock_error()
        ));
    }
    Ok(all)
}

fn open_simulated(paths: &[PathBuf]) -> Result<SimulatedTraces<'static>, Failure> {
    let mut traces = SimulatedTraces::new();
    for path in paths {
        let name = path.display().to_string();
        let file = File::open(path);
        let file = file.map_err(|cause| Failure::error(format!("cannot read {name}: {cause}")))?;
        traces.push((name, Box::new(BufReader::new(file))));
    }
    Ok(traces)
}

/// Writes a file beside its place, and moves it there when it is whole.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), ExportError>,
) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = File::create(&part).map_err(ExportError::Write);
    let written = written.and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        Ok(fs::rename(&part, path)?)
    });
    written.map_err(|cause| {
        // What cannot be removed was not made.
        let _gone = fs::remove_file(&part);
        failure(path, &cause)
    })
}

/// Writes the files of a folder that is made, or is empty.
fn write_folder(
    path: &Path,
    recording: &KernelRecording<File>,
    programs: &ProgramEvents,
) -> Result<(), Failure> {
    let made = fs::create_dir(path);
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    match &made {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && is_empty() => {}
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists, and is no empty folder", path.display());
            return Err(Failure::with_help(
                message,
                "give a folder that does not exist yet; the Common Trace Format has several files",
            ));
        }
        Err(cause) => {
            let message = format!("cannot write {}: {cause}", path.display());
            return Err(Failure::error(message));
        }
        Ok(()) => {}
    }
    let open = |name: &str| File::create(path.join(name)).map(BufWriter::new);
    write_ctf(recording, programs, open).map_err(|cause| {
        // The folder was empty before.
        let _gone = match made.is_ok() {
            true => fs::remove_dir_all(path),
            false => empty(path),
        };
        failure(path, &cause)
    })
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        fs::remove_file(entry?.path())?;
    }
    Ok(())
}

fn failure(path: &Path, cause: &ExportError) -> Failure {
    match cause {
        ExportError::Write(cause) => {
            Failure::error(format!("cannot write {}: {cause}", path.display()))
        }
        other => Failure::error(other),
    }
}
