//! `tailbound size`: the reservations that keep promises, of a description or of one queue.

use super::{size_file, size_queue};
use crate::arguments::SizeArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Sizes the services of the description, or the queue of the options.
pub fn carry_out(arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    check(arguments)?;
    match arguments.description()? {
        Some(file) => size_file::carry_out(file, arguments, output),
        None => size_queue::carry_out(arguments, output),
    }
}

/// A share of runs is about a calibrated host, and what a calibration is for here.
fn check(arguments: &SizeArguments) -> Result<(), Failure> {
    arguments.on_host.check()?;
    match (arguments.probability, &arguments.on_host.calibration) {
        (Some(_), None) => Err(Failure::with_help(
            "in which share of runs a promise is kept depends on the host, its slow phases and its stalls, and no \
             calibration is named",
            "give the result folder of a `tailbound run` with --calibration, or leave --probability out",
        )),
        (None, Some(_)) => Err(Failure::with_help(
            "a calibrated host is sized for a share of runs, and none is given",
            "give one, such as --probability 97%, or leave --calibration out",
        )),
        _ => Ok(()),
    }
}
