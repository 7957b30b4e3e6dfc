//! `tailbound internal`: programs of ours that run inside domains, and the one that makes manual pages.

use tailbound_linux::isolation::{self, IsolatedProgram};
use tailbound_measurement::synthetic::{self, ServeOptions};
use tailbound_measurement::{Endpoint, hog};

use crate::arguments::{InternalArguments, InternalProgram};
use crate::failure::Failure;
use crate::held_command;
use crate::interrupts;
use crate::manual;
use crate::verbs::own_tasks;

/// Runs the program until it is told to end.
pub fn carry_out(arguments: &InternalArguments) -> Result<(), Failure> {
    match &arguments.program {
        InternalProgram::SyntheticService {
            endpoint,
            scheduling,
            message_size,
        } => {
            let here = std::env::current_dir().map_err(Failure::from_error)?;
            let endpoint = Endpoint::resolve(endpoint, &here).map_err(Failure::from_error)?;
            let endpoint = endpoint.with_message_size(*message_size);
            let options = ServeOptions::new(endpoint, *scheduling);
            let stop = interrupts::watch()?;
            synthetic::serve(&options, &stop).map_err(Failure::from_error)
        }
        InternalProgram::Manual { folder, date } => {
            manual::write(folder, date).map_err(Failure::from_error)
        }
        InternalProgram::CpuHog => {
            let stop = interrupts::watch()?;
            hog::run(&stop);
            Ok(())
        }
        InternalProgram::OwnTasks { domain, jobs, file } => {
            own_tasks::carry_out(domain, jobs, file)
        }
        InternalProgram::Isolated {
            namespaces,
            memory_group,
            memory_limit_bytes,
            kept,
            command,
        } => {
            let program = IsolatedProgram {
                namespaces: namespaces.iter().copied().collect(),
                memory_group: memory_group.clone(),
                memory_limit_bytes: *memory_limit_bytes,
                kept: kept.clone(),
                command: command.clone(),
            };
            let status = isolation::run(&program)
                .map_err(|error| Failure::error(format!("cannot isolate a program: {error}")))?;
            std::process::exit(status)
        }
        // Signals keep their default effect: what is held ends at once.
        InternalProgram::Hold { socket, command } => match held_command::hold(socket, command)? {},
    }
}
