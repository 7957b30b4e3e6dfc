//! `tailbound internal`: programs of ours that run inside domains.

use tailbound_measurement::synthetic::{self, ServeOptions};
use tailbound_measurement::{Endpoint, hog};

use crate::arguments::{InternalArguments, InternalProgram};
use crate::failure::Failure;
use crate::interrupts;

/// Runs the program until it is told to end.
pub fn carry_out(arguments: &InternalArguments) -> Result<(), Failure> {
    let stop = interrupts::watch()?;
    match &arguments.program {
        InternalProgram::SyntheticService {
            endpoint,
            scheduling,
        } => {
            let here = std::env::current_dir().map_err(Failure::from_error)?;
            let endpoint = Endpoint::resolve(endpoint, &here).map_err(Failure::from_error)?;
            let options = ServeOptions::new(endpoint, *scheduling);
            synthetic::serve(&options, &stop).map_err(Failure::from_error)
        }
        InternalProgram::CpuHog => {
            hog::run(&stop);
            Ok(())
        }
    }
}
