//! `tailbound predict --frequency-model`: response times at other clock frequencies.

use std::path::Path;

use tailbound_analysis::Unwatched;
use tailbound_assessment::set_points::{
    Basis, Platform, SetPointPrediction, SetPointPredictions, SetPointVerdict,
};
use tailbound_execution_time::{FrequencyModel, SetPoint};

use super::predict_answer;
use crate::arguments::{FrequencyChoice, PredictArguments};
use crate::failure::Failure;
use crate::output::{Output, read_file};

/// Predicts a service of a description, or the queue of the arguments, at each chosen set point; status 2 if none of
/// them keeps the promises.
pub fn carry_out(
    model: &Path,
    counters: &Path,
    arguments: &PredictArguments,
    output: &Output,
) -> Result<(), Failure> {
    let model = FrequencyModel::parse(&model.display().to_string(), &read_file(model)?)
        .map_err(Failure::from_error)?;
    let recording = super::model_frequency::read_recording(counters)?;
    let asked = &arguments.clocks;
    let workload = recording.workload(asked.program.as_deref(), asked.measured_at.as_ref());
    let workload = workload.map_err(Failure::from_error)?;
    let platform =
        Platform::new(&model, &recording.file, &workload).map_err(Failure::from_error)?;
    let set_points = set_points(&model, &asked.frequency)?;
    let predictions = match &arguments.file {
        Some(file) => {
            let loaded = super::load(file, output)?;
            let inputs = super::inputs(&loaded)?;
            platform.predict_service(
                &loaded.description,
                &inputs,
                &arguments.query(&Unwatched),
                &set_points,
            )
        }
        None => {
            let queue = super::calculate::queue_of_arguments(arguments, output)?;
            let slos = super::calculate::slos(arguments);
            platform.predict_queue(&queue, &slos, &arguments.query(&Unwatched), &set_points)
        }
    };
    let predictions = predictions.map_err(Failure::from_assessment)?;
    explain(&predictions.basis, output);
    print(&predictions, arguments, output)?;
    judge(&predictions)
}

fn set_points(
    model: &FrequencyModel,
    chosen: &[FrequencyChoice],
) -> Result<Vec<SetPoint>, Failure> {
    let mut set_points = Vec::new();
    for choice in chosen {
        match choice {
            FrequencyChoice::All => {
                set_points.extend(model.set_points.iter().map(|point| point.set_point.clone()))
            }
            FrequencyChoice::One(notation) => {
                set_points.push(model.set_point(notation).map_err(Failure::from_error)?);
            }
        }
    }
    Ok(set_points)
}

fn explain(basis: &Basis, output: &Output) {
    for note in &basis.notes {
        output.note(format!("{}: {note}", basis.source));
    }
    let start = match &basis.measured_at {
        Some(set_point) => format!("{} was measured at {set_point}", basis.program),
        None => format!(
            "{} was counted on another host: times from counts alone",
            basis.program
        ),
    };
    output.note(format!(
        "{start}; for programs that it has not seen, the model errs by {:.1} % on average, and in 95 % of cases by at \
         most {:.1} %, which verdicts allow for",
        basis.mean_error * 100.0,
        basis.p95_error * 100.0
    ));
    if basis.demand.limited {
        output.warn(format!(
            "by the model, {} would wait for memory longer than it took: its times do not scale with the core at all",
            basis.program
        ));
    }
}

fn print(
    predictions: &SetPointPredictions,
    arguments: &PredictArguments,
    output: &Output,
) -> Result<(), Failure> {
    let mut header = vec![
        "set point".to_owned(),
        "slowdown".into(),
        "by 1/f".into(),
        "load".into(),
        "mean".into(),
    ];
    header.extend(arguments.percentiles.iter().map(ToString::to_string));
    header.extend(["promises", "power", "least energy"].map(str::to_owned));
    let rows: Vec<Vec<String>> = predictions
        .set_points
        .iter()
        .map(|point| {
            row(
                point,
                arguments.percentiles.len(),
                predictions.least_energy.as_ref(),
            )
        })
        .collect();
    for point in &predictions.set_points {
        if let Some(why) = &point.refused {
            output.note(format!("{}: {why}", point.set_point));
        }
        if !point.extrapolated.is_empty() {
            let clocks = point.extrapolated.join(", ");
            output.warn(format!(
                "{}: {clocks} outside of the recorded frequencies",
                point.set_point
            ));
        }
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    output.rows(&header, &rows, predictions)
}

fn row(point: &SetPointPrediction, percentiles: usize, least: Option<&SetPoint>) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let time = |bounds: &tailbound_assessment::prediction::TimeBounds| {
        let ns =
            |time: Option<tailbound_time::Duration>| time.map(tailbound_time::Duration::as_nanos);
        predict_answer::millisecond_range(ns(bounds.low), ns(bounds.high))
    };
    let mut row = vec![
        point.set_point.to_string(),
        format!("{:.3}", point.slowdown),
        or_dash(
            point
                .naive_slowdown
                .map(|slowdown| format!("{slowdown:.3}")),
        ),
        or_dash(
            point
                .utilisation
                .map(|load| format!("{:.1} %", load * 100.0)),
        ),
        or_dash(point.mean.as_ref().map(time)),
    ];
    let quantiles = (0..percentiles)
        .map(|index| or_dash(point.quantiles.get(index).map(|one| time(&one.bounds))));
    row.extend(quantiles);
    row.push(verdict(point.verdict).into());
    row.push(or_dash(
        point.mean_power_mw.map(|power| format!("{power:.0} mW")),
    ));
    row.push(
        if least == Some(&point.set_point) {
            "chosen"
        } else {
            ""
        }
        .into(),
    );
    row
}

fn verdict(verdict: SetPointVerdict) -> &'static str {
    match verdict {
        SetPointVerdict::Kept => "kept",
        SetPointVerdict::Missed => "missed",
        SetPointVerdict::TooClose => "too close",
        SetPointVerdict::NotJudged => "-",
    }
}

fn judge(predictions: &SetPointPredictions) -> Result<(), Failure> {
    let mut verdicts = predictions.set_points.iter().map(|point| point.verdict);
    match verdicts.all(|verdict| verdict == SetPointVerdict::Missed) {
        true => Err(Failure::Verdict(format!(
            "{} misses a promise at every one of these set points",
            predictions.service
        ))),
        false => Ok(()),
    }
}
