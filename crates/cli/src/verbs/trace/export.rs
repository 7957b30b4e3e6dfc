//! `tailbound trace export`: a recording in formats of other tools.

use crate::arguments::TraceExportArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Writes the recording.
pub fn carry_out(arguments: &TraceExportArguments, output: &Output) -> Result<(), Failure> {
    let recording = super::open(&arguments.file, output)?;
    let _todo = recording;
    Err(Failure::error("not built yet"))
}
