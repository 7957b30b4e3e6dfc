//! `tailbound predict`: the response times that the reservations of a description will give.

use std::path::Path;

use tailbound_analysis::{CpuLimit, Outlook, SearchWatch, Unwatched};
use tailbound_assessment::band::Forecast;
use tailbound_assessment::chain_prediction::{ChainPrediction, predict_chains};
use tailbound_assessment::prediction::predict;
use tailbound_experiment::{CalibrationRecord, HostPrediction, predict_on_host};
use tailbound_manifest::container_limit;
use tailbound_report::{ServiceBand, forecast_line};

use super::predict_answer::{export_html, print, promise};
use crate::arguments::{AnswerSubject, PredictArguments, PredictWhat};
use crate::failure::Failure;
use crate::output::{Output, read_file};
use crate::search_progress::SearchProgress;

/// Predicts every chosen service in every chosen variant, or one queue without a file; status 2 if the first of
/// these variants is predicted to miss a promise, 3 if it was stopped.
pub fn carry_out(arguments: &PredictArguments, output: &Output) -> Result<(), Failure> {
    if let Some(PredictWhat::Recovery(recovery)) = &arguments.what {
        return super::predict_recovery::carry_out(recovery, output);
    }
    let output = &output.exporting(&arguments.export);
    if let (Some(model), Some(file)) = (&arguments.model, &arguments.file) {
        let wanted = arguments.model_form.map(Into::into);
        return super::sampled_model::predict(file, (model, wanted), output);
    }
    let subject = arguments.subject()?;
    let clocks = &arguments.clocks;
    if let (Some(model), Some(counters)) = (&clocks.frequency_model, &clocks.counters) {
        return super::predict_frequency::carry_out(model, counters, arguments, output);
    }
    arguments.on_host.check()?;
    // Runs of a calibrated host have no best answer so far.
    let progress = match arguments.on_host.calibration {
        None => Some(SearchProgress::begin(output)?),
        Some(_) => None,
    };
    let watch = progress
        .as_ref()
        .map(|progress| progress as &dyn SearchWatch);
    let watched = (output, watch.unwrap_or(&Unwatched));
    let (title, prediction, chains) = match subject {
        AnswerSubject::Description(file) => of_file(file, arguments, watched)?,
        AnswerSubject::Manifest(file) => {
            let limit = limit_in(file, arguments)?;
            output.note(format!("the container's CPU limit is {limit}"));
            of_queue(arguments, Some(limit), watched)?
        }
        AnswerSubject::Queue => of_queue(arguments, arguments.queue.limit, watched)?,
    };
    drop(progress);
    prediction
        .remarks
        .iter()
        .for_each(|remark| output.note(remark));
    export_html(
        arguments.export_html.as_deref(),
        &title,
        &prediction.answers,
        &chains,
    )?;
    print(&prediction, &chains, arguments, output)?;
    if prediction.answers.iter().any(|answer| answer.is_stopped) {
        let what =
            "stopped: the bounds lie farther apart than the whole computation would have left them";
        return Err(Failure::Stopped(what.into()));
    }
    judge(&prediction, &chains)
}

/// The name of a system, the answers for its services, and those for its chains.
type SystemPrediction = (String, HostPrediction, Vec<ChainPrediction>);

/// The answer for the queue of the options.
fn of_queue(
    arguments: &PredictArguments,
    limit: Option<CpuLimit>,
    watched: (&Output, &dyn SearchWatch),
) -> Result<SystemPrediction, Failure> {
    let answers = vec![super::calculate::answer(arguments, limit, watched)?];
    Ok(("A queue".into(), answers.into(), Vec::new()))
}

/// The CPU limit of the container in a manifest.
fn limit_in(manifest: &Path, arguments: &PredictArguments) -> Result<CpuLimit, Failure> {
    let text = read_file(manifest)?;
    let container = arguments.queue.load.service.as_deref();
    let limit = container_limit(&text, container, &manifest.display().to_string());
    limit.map_err(|problems| Failure::Description { problems, text })
}

/// The answers for a description.
fn of_file(
    file: &Path,
    arguments: &PredictArguments,
    (output, watch): (&Output, &dyn SearchWatch),
) -> Result<SystemPrediction, Failure> {
    let loaded = super::load(file, output)?;
    let inputs = super::inputs(&loaded)?;
    let query = arguments.query(watch);
    let prediction = match &arguments.on_host.calibration {
        None => {
            let answers = predict(&loaded.description, &inputs, &query);
            answers.map_err(Failure::from_assessment)?.into()
        }
        Some(folder) => {
            let record = CalibrationRecord::read(folder).map_err(Failure::from_error)?;
            let history = arguments.on_host.history.file();
            let from = (&record, history.as_deref());
            let run = arguments.on_host.run();
            predict_on_host(&loaded, &inputs, from, run, &query).map_err(Failure::from_error)?
        }
    };
    let chains = match query.service {
        Some(_) => Vec::new(),
        None => predict_chains(&loaded.description, &inputs, query.variant)
            .map_err(Failure::from_assessment)?,
    };
    Ok((loaded.description.name, prediction, chains))
}

/// The promises are about the system as described, which is its first variant; the others are for comparison.
fn judge(prediction: &HostPrediction, chains: &[ChainPrediction]) -> Result<(), Failure> {
    let mut against = against_services(prediction);
    let first = chains.first().map(|chain| &chain.variant);
    let first = chains.iter().filter(|chain| Some(&chain.variant) == first);
    against.extend(first.flat_map(ChainPrediction::objections));
    match against.is_empty() {
        true => Ok(()),
        false => Err(Failure::Verdict(against.join("\n"))),
    }
}

/// Objections to the services in the first variant. Where there is a band it decides, as it knows of the host and of the
/// run's length what the model does not.
fn against_services(prediction: &HostPrediction) -> Vec<String> {
    let answers = &prediction.answers;
    let Some(first) = answers.first().map(|answer| &answer.variant) else {
        return Vec::new();
    };
    let mut against = Vec::new();
    for answer in answers.iter().filter(|answer| answer.variant == *first) {
        let place = format!("{} in variant {}", answer.service, answer.variant);
        if answer.overload.is_some() {
            against.push(format!("{place} has more work than CPU time"));
            continue;
        }
        if let Some(band) = prediction.band(&answer.service, &answer.variant) {
            against.extend(missed_forecasts(band));
            continue;
        }
        let missed = answer.promises.iter();
        let missed = missed.filter(|one| one.outlook == Outlook::Missed);
        against.extend(missed.map(|one| format!("{place} will miss {}", promise(one))));
    }
    // A service has several answers, and one band.
    against.dedup();
    against
}

/// The promises that the run will miss.
fn missed_forecasts(band: &ServiceBand) -> impl Iterator<Item = String> {
    let promises = band.band.promises.iter();
    let missed = promises.filter(|promise| promise.forecast == Forecast::WillMiss);
    missed.map(|promise| forecast_line(band, promise))
}
