//! `tailbound trace`: recordings of the kernel's events, and of what programs do.

mod export;
mod kernel_locks;
mod lock_report;
mod locks;
mod model;
mod record;
mod report;
mod triggers;

use std::fs::File;
use std::path::Path;

use tailbound_trace::recording::KernelRecording;

use crate::arguments::{TraceArguments, TraceWhat};
use crate::failure::Failure;
use crate::output::Output;

/// Lets others switch the triggers of this process: those of the load generator.
pub(in crate::verbs) fn listen(output: &Output) {
    if let Err(cause) = tailbound_trigger::listen() {
        output.detail(format!(
            "the triggers of this process cannot be switched: {cause}"
        ));
    }
}

/// Records, reports or exports.
pub fn carry_out(arguments: &TraceArguments, output: &Output) -> Result<(), Failure> {
    match &arguments.what {
        TraceWhat::Record(arguments) => record::carry_out(arguments, output),
        TraceWhat::Report(arguments) => report::carry_out(arguments, output),
        TraceWhat::Export(arguments) => export::carry_out(arguments, output),
        TraceWhat::Locks(arguments) => locks::carry_out(arguments, output),
        TraceWhat::Triggers(arguments) => triggers::carry_out(arguments, output),
        TraceWhat::Model(arguments) => model::carry_out(arguments, output),
    }
}

/// Opens a recording; faults that were read around go to standard error.
pub(in crate::verbs) fn open(
    path: &Path,
    output: &Output,
) -> Result<KernelRecording<File>, Failure> {
    let failed =
        |cause: &dyn std::fmt::Display| Failure::error(format!("{}: {cause}", path.display()));
    let file = File::open(path).map_err(|cause| failed(&cause))?;
    let recording = KernelRecording::open(file).map_err(|cause| failed(&cause))?;
    for remark in recording.remarks() {
        output.warn(format!("{}: {remark}", path.display()));
    }
    Ok(recording)
}
