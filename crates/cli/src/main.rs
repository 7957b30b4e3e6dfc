//! The `tailbound` command: arguments in, tables out; everything else is in the libraries.

mod arguments;
mod excerpt;
mod failure;
mod held_command;
mod interrupts;
mod manual;
mod output;
mod progress;
mod search_progress;
mod subsystems;
mod transient_scope;
mod verbs;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::arguments::{Arguments, OutputArguments, Verb};
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    match parse_and_carry_out() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            failure.render();
            failure.exit_code()
        }
        Err(error) => {
            // Help and version are no errors; bad usage is status 1, since 2 means a verdict.
            let status = u8::from(error.use_stderr());
            let _printed = error.print();
            ExitCode::from(status)
        }
    }
}

/// Carries out what was typed, unless that is bad usage.
fn parse_and_carry_out() -> Result<Result<(), Failure>, clap::Error> {
    let matches = subsystems::with_verbs(Arguments::command()).try_get_matches()?;
    let said = OutputArguments::from_arg_matches(&matches)?;
    let output = Output::new(said.format, said.quiet, said.verbose);
    if let Some(result) = subsystems::carry_out(&matches, &output) {
        return Ok(result);
    }
    Ok(carry_out(Verb::from_arg_matches(&matches)?, &output))
}

fn carry_out(verb: Verb, output: &Output) -> Result<(), Failure> {
    match verb {
        Verb::Doctor(arguments) => verbs::doctor::carry_out(&arguments, output),
        Verb::Check(arguments) => verbs::check::carry_out(&arguments, output),
        Verb::Predict(arguments) => verbs::predict::carry_out(&arguments, output),
        Verb::Size(arguments) => verbs::size::carry_out(&arguments, output),
        Verb::Analyze(arguments) => verbs::analyze::carry_out(&arguments, output),
        Verb::Interface(arguments) => verbs::interface::carry_out(&arguments, output),
        Verb::Simulate(arguments) => verbs::simulate::carry_out(&arguments, output),
        Verb::Sweep(arguments) => verbs::sweep::carry_out(&arguments, output),
        Verb::Sample(arguments) => verbs::sample::carry_out(&arguments, output),
        Verb::Apply(arguments) => verbs::apply::carry_out(&arguments, output),
        Verb::Revert(arguments) => verbs::revert::carry_out(&arguments, output),
        Verb::Status => verbs::status::carry_out(output),
        Verb::Metrics(arguments) => verbs::metrics::carry_out(&arguments, output),
        Verb::Run(arguments) if arguments.command.is_empty() => {
            verbs::run_file::carry_out(&arguments, output)
        }
        Verb::Run(arguments) => verbs::run_command::carry_out(&arguments, output),
        Verb::Route(arguments) => verbs::route::carry_out(&arguments, output),
        Verb::Measure(arguments) => verbs::measure::carry_out(&arguments, output),
        Verb::Compare(arguments) => verbs::compare::carry_out(&arguments, output),
        Verb::Trace(arguments) => verbs::trace::carry_out(&arguments, output),
        Verb::Explain(arguments) => verbs::explain::carry_out(&arguments, output),
        Verb::Model(arguments) => verbs::model::carry_out(&arguments, output),
        Verb::Report(arguments) => verbs::report::carry_out(&arguments, output),
        Verb::Schema => verbs::schema::carry_out(output),
        Verb::Import(arguments) => verbs::import::carry_out(&arguments, output),
        Verb::Generate(arguments) => verbs::generate::carry_out(&arguments, output),
        Verb::OciHook(arguments) => verbs::oci_hook::carry_out(&arguments, output),
        Verb::NriPlugin(arguments) => verbs::nri_plugin::carry_out(&arguments, output),
        Verb::Internal(arguments) => verbs::internal::carry_out(&arguments),
    }
}
