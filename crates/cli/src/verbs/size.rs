//! `tailbound size`: the reservations that keep promises, of a description or of one queue.

use std::path::Path;

use tailbound_analysis::USUAL_QUOTA_PERIOD;
use tailbound_manifest::container_limit_if_any;

use super::{size_file, size_frame, size_queue};
use crate::arguments::{AnswerSubject, SizeArguments};
use crate::failure::Failure;
use crate::output::{Output, read_file};

/// Sizes the services of the description, or the queue of the options.
pub fn carry_out(arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    if let (Some(model), Some(file)) = (&arguments.model, &arguments.file) {
        let wanted = arguments.model_form.map(Into::into);
        return super::sampled_model::size(file, (model, wanted), output);
    }
    check(arguments)?;
    match arguments.subject()? {
        AnswerSubject::Description(file) if arguments.frame => {
            size_frame::carry_out(file, arguments, output)
        }
        AnswerSubject::Description(file) => size_file::carry_out(file, arguments, output),
        AnswerSubject::Manifest(file) => of_manifest(file, arguments, output),
        AnswerSubject::Queue => {
            size_queue::carry_out(arguments, arguments.limit, output)?;
            Ok(())
        }
    }
}

/// Sizes the limit of a container, and says what the one in the manifest is worth.
fn of_manifest(file: &Path, arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let text = read_file(file)?;
    let container = arguments.load.service.as_deref();
    let limit = container_limit_if_any(&text, container, &file.display().to_string());
    let limit = limit.map_err(|problems| Failure::Description { problems, text })?;
    let sizing = size_queue::carry_out(arguments, true, output)?;
    let choice = sizing.choice();
    let Some((least, _)) = choice.and_then(|choice| sizing.limits(choice)) else {
        return Ok(());
    };
    let period = choice.map(|choice| choice.period);
    let at = match period.filter(|period| *period != USUAL_QUOTA_PERIOD) {
        None => String::new(),
        Some(period) => format!(" at periods of {period}"),
    };
    output.note(match limit {
        None => format!("the container has no CPU limit; {least} is the least{at}"),
        // As billionths of a CPU, since both are numbers of CPUs.
        Some(limit) if limit.billionths() >= least.billionths() => {
            format!("the container's CPU limit {limit} is enough: {least} is the least{at}")
        }
        Some(limit) => {
            format!("the container's CPU limit {limit} is too low: {least} is the least{at}")
        }
    });
    Ok(())
}

/// A share of runs is about a calibrated host, and what a calibration is for here; a stanza is of a limit.
fn check(arguments: &SizeArguments) -> Result<(), Failure> {
    arguments.on_host.check()?;
    let of_limit = arguments.limit || matches!(arguments.subject()?, AnswerSubject::Manifest(_));
    if arguments.stanza.is_some() && !of_limit {
        return Err(Failure::with_help(
            "a stanza sets a CPU limit, and a reservation is asked for",
            "ask for the least limit with --limit, or leave --stanza out",
        ));
    }
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
