//! `tailbound predict`: the response times that the reservations of a description will give.

use std::path::Path;

use tailbound_assessment::prediction::{PredictionAnswer, predict};

use super::predict_answer::print;
use crate::arguments::{PredictArguments, PredictWhat};
use crate::failure::Failure;
use crate::output::Output;

/// Predicts every chosen service in every chosen variant, or one queue without a file.
pub fn carry_out(arguments: &PredictArguments, output: &Output) -> Result<(), Failure> {
    if let Some(PredictWhat::Recovery(recovery)) = &arguments.what {
        return super::predict_recovery::carry_out(recovery, output);
    }
    let output = &output.exporting(&arguments.export);
    let clocks = &arguments.clocks;
    if let (Some(model), Some(counters)) = (&clocks.frequency_model, &clocks.counters) {
        return super::predict_frequency::carry_out(model, counters, arguments, output);
    }
    let answers = match &arguments.file {
        Some(file) => of_file(file, arguments, output)?,
        None => vec![super::calculate::answer(arguments)?],
    };
    print(&answers, arguments, output)
}

fn of_file(
    file: &Path,
    arguments: &PredictArguments,
    output: &Output,
) -> Result<Vec<PredictionAnswer>, Failure> {
    let loaded = super::load(file, output)?;
    let inputs = super::inputs(&loaded)?;
    predict(&loaded.description, &inputs, &arguments.query()).map_err(Failure::from_assessment)
}
