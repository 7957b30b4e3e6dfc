//! `tailbound predict`: the response times that the reservations of a description will give.

use std::path::Path;

use tailbound_analysis::Outlook;
use tailbound_assessment::prediction::{PredictionAnswer, predict};

use super::predict_answer::{export_html, print, promise};
use crate::arguments::{PredictArguments, PredictWhat};
use crate::failure::Failure;
use crate::output::Output;

/// Predicts every chosen service in every chosen variant, or one queue without a file; status 2 if the first of
/// these variants is predicted to miss a promise.
pub fn carry_out(arguments: &PredictArguments, output: &Output) -> Result<(), Failure> {
    if let Some(PredictWhat::Recovery(recovery)) = &arguments.what {
        return super::predict_recovery::carry_out(recovery, output);
    }
    let output = &output.exporting(&arguments.export);
    let clocks = &arguments.clocks;
    if let (Some(model), Some(counters)) = (&clocks.frequency_model, &clocks.counters) {
        return super::predict_frequency::carry_out(model, counters, arguments, output);
    }
    let (title, answers) = match &arguments.file {
        Some(file) => of_file(file, arguments, output)?,
        None => ("A queue".into(), vec![super::calculate::answer(arguments)?]),
    };
    export_html(arguments.export_html.as_deref(), &title, &answers)?;
    print(&answers, arguments, output)?;
    judge(&answers)
}

/// The name of the description, and the answers for its services.
fn of_file(
    file: &Path,
    arguments: &PredictArguments,
    output: &Output,
) -> Result<(String, Vec<PredictionAnswer>), Failure> {
    let loaded = super::load(file, output)?;
    let inputs = super::inputs(&loaded)?;
    let answers = predict(&loaded.description, &inputs, &arguments.query());
    let answers = answers.map_err(Failure::from_assessment)?;
    Ok((loaded.description.name, answers))
}

/// The promises are about the system as described, which is its first variant; the others are for comparison.
fn judge(answers: &[PredictionAnswer]) -> Result<(), Failure> {
    let Some(first) = answers.first().map(|answer| &answer.variant) else {
        return Ok(());
    };
    let mut against = Vec::new();
    for answer in answers.iter().filter(|answer| answer.variant == *first) {
        let place = format!("{} in variant {}", answer.service, answer.variant);
        if answer.overload.is_some() {
            against.push(format!("{place} has more work than CPU time"));
            continue;
        }
        let missed = answer.promises.iter();
        let missed = missed.filter(|one| one.outlook == Outlook::Missed);
        against.extend(missed.map(|one| format!("{place} will miss {}", promise(one))));
    }
    match against.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(against.join("\n"))),
    }
}
