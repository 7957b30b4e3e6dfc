//! `tailbound size`: the reservations that keep promises, of a description or of one queue.

use super::{size_file, size_queue};
use crate::arguments::SizeArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Sizes the services of the description, or the queue of the options.
pub fn carry_out(arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    match &arguments.file {
        Some(file) => size_file::carry_out(file, arguments, output),
        None => size_queue::carry_out(arguments, output),
    }
}
