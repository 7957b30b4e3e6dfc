//! The `tailbound` command: arguments in, tables out; everything else is in the libraries.

mod arguments;
mod excerpt;
mod failure;
mod held;
mod interrupts;
mod output;
mod progress;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Verb};
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; bad usage is status 1, since 2 means a verdict.
            let status = u8::from(error.use_stderr());
            let _printed = error.print();
            return ExitCode::from(status);
        }
    };
    let output = Output::new(arguments.format, arguments.quiet, arguments.verbose);
    match carry_out(arguments.verb, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.render();
            failure.exit_code()
        }
    }
}

fn carry_out(verb: Verb, output: &Output) -> Result<(), Failure> {
    match verb {
        Verb::Doctor(arguments) => verbs::doctor::carry_out(&arguments, output),
        Verb::Check(arguments) => verbs::check::carry_out(&arguments, output),
        Verb::Predict(arguments) => verbs::predict::carry_out(&arguments, output),
        Verb::Size(arguments) => verbs::size::carry_out(&arguments, output),
        Verb::Analyze(arguments) => verbs::analyze::carry_out(&arguments, output),
        Verb::Simulate(arguments) => verbs::simulate::carry_out(&arguments, output),
        Verb::Sweep(arguments) => verbs::sweep::carry_out(&arguments, output),
        Verb::Apply(arguments) => verbs::apply::carry_out(&arguments, output),
        Verb::Revert(arguments) => verbs::revert::carry_out(&arguments, output),
        Verb::Status => verbs::status::carry_out(output),
        Verb::Mode(arguments) => verbs::mode::carry_out(&arguments, output),
        Verb::Run(arguments) if arguments.command.is_empty() => {
            verbs::run_file::carry_out(&arguments, output)
        }
        Verb::Run(arguments) => verbs::run_command::carry_out(&arguments, output),
        Verb::Measure(arguments) => verbs::measure::carry_out(&arguments, output),
        Verb::Compare(arguments) => verbs::compare::carry_out(&arguments, output),
        Verb::Report(arguments) => verbs::report::carry_out(&arguments, output),
        Verb::Schema => verbs::schema::carry_out(output),
        Verb::Import(arguments) => verbs::import::carry_out(&arguments, output),
        Verb::Generate(arguments) => verbs::generate::carry_out(&arguments, output),
        Verb::Internal(arguments) => verbs::internal::carry_out(&arguments),
    }
}
