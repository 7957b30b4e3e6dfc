//! `tailbound trace export`: a recording in formats of other tools.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use tailbound_trace::export::{
    ExportError, SimulatedTraces, write_csv, write_ctf, write_perfetto, write_trace_dat,
};
use tailbound_trace::recording::KernelRecording;

use crate::arguments::{TraceExportArguments, TraceFileFormat};
use crate::failure::Failure;
use crate::output::Output;

/// Writes the recording. A file appears when it is whole.
pub fn carry_out(arguments: &TraceExportArguments, output: &Output) -> Result<(), Failure> {
    if !arguments.simulated.is_empty() && arguments.to != TraceFileFormat::Perfetto {
        let message = "--simulated goes with --to perfetto alone";
        return Err(Failure::with_help(
            message,
            "other formats have no tracks for simulated schedules",
        ));
    }
    let recording = super::open(&arguments.file, output)?;
    let path = &arguments.output;
    match arguments.to {
        TraceFileFormat::Perfetto => {
            let simulated = open_simulated(&arguments.simulated)?;
            write_whole(path, |out| {
                write_perfetto(&recording, simulated, out).map(drop)
            })?;
        }
        TraceFileFormat::Csv => write_whole(path, |out| write_csv(&recording, out))?,
        TraceFileFormat::TraceDat => write_whole(path, |out| write_trace_dat(&recording, out))?,
        TraceFileFormat::Ctf => write_folder(path, &recording)?,
    }
    output.note(format!("export: {}", path.display()));
    Ok(())
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
fn write_folder(path: &Path, recording: &KernelRecording<File>) -> Result<(), Failure> {
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
    write_ctf(recording, open).map_err(|cause| {
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
