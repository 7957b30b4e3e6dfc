//! `predict --model` and `size --model`: answers of the model that a campaign of `sample` left.

use std::path::Path;

use serde::Serialize;
use tailbound_experiment::sample_campaign::{axis_values, described_loads, read_model};
use tailbound_sampling::{FittedModel, ModelForm, PredictedPromise, PromiseModel, SampledModel};
use tailbound_time::{Duration, nanoseconds};

use crate::failure::Failure;
use crate::output::Output;

/// The columns of a prediction.
const PREDICTION_HEADER: [&str; 7] = [
    "service",
    "task",
    "percentile",
    "limit",
    "predicted",
    "90% interval",
    "promise",
];
/// The columns of a sizing.
const SIZING_HEADER: [&str; 4] = ["condition", "share", "period", "highest predicted / limit"];

/// A predicted promise, as a document.
#[derive(Serialize)]
struct ModelForecast<'a> {
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    percentile: f64,
    #[serde(rename = "limit_ns", with = "nanoseconds")]
    limit: Duration,
    #[serde(rename = "predicted_ns", with = "nanoseconds")]
    predicted: Duration,
    #[serde(rename = "low_ns", with = "nanoseconds")]
    low: Duration,
    #[serde(rename = "high_ns", with = "nanoseconds")]
    high: Duration,
    form: ModelForm,
    promise: &'static str,
}

/// The cheapest point of a condition, as a document.
#[derive(Serialize)]
struct SampledSize {
    condition: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highest_ratio: Option<f64>,
}

/// An answer with the model that it is from.
#[derive(Serialize)]
struct ModelDocument<'a, T: Serialize> {
    model: String,
    name: &'a str,
    points: usize,
    promises: Vec<PromiseForm<'a>>,
    answers: Vec<T>,
}

/// The form that predicts a promise, with how far each form is from points that were left out, as a document.
#[derive(Serialize)]
struct PromiseForm<'a> {
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    percentile: f64,
    form: ModelForm,
    regression_error_factor: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_error_factor: Option<f64>,
}

impl<'a> PromiseForm<'a> {
    fn of(model: &PromiseModel<'a>) -> Self {
        let promise = model.promise;
        Self {
            service: &promise.service,
            task: promise.task.as_deref(),
            percentile: promise.percentile,
            form: model.form,
            regression_error_factor: model.regression_error_factor,
            queue_error_factor: promise.queue.as_ref().map(|queue| queue.fit.error_factor),
        }
    }
}

impl<'a, T: Serialize> ModelDocument<'a, T> {
    fn of(file: &Path, model: &'a SampledModel, fitted: &FittedModel<'a>, answers: Vec<T>) -> Self {
        let promises = model.promises.iter();
        let points = promises.map(|promise| promise.points.len()).max();
        Self {
            model: file.display().to_string(),
            name: &model.name,
            points: points.unwrap_or(0),
            promises: fitted.promises().iter().map(PromiseForm::of).collect(),
            answers,
        }
    }
}

/// Predicts the promises of a description by a model; status 2 if one is missed.
pub fn predict(
    file: &Path,
    (model_file, wanted): (&Path, Option<ModelForm>),
    output: &Output,
) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    let model = read_model(model_file).map_err(Failure::from_error)?;
    let fitted = model.fit(wanted).map_err(Failure::from_error)?;
    let values = axis_values(&loaded, &model).map_err(Failure::from_error)?;
    let loads = described_loads(&loaded.description);
    let predicted = fitted.predict(&values, &loads);
    let predicted = predicted.map_err(Failure::from_error)?;
    let forecasts: Vec<ModelForecast<'_>> = predicted.iter().map(forecast).collect();
    let rows: Vec<Vec<String>> = forecasts.iter().map(prediction_row).collect();
    say_model(model_file, &model, &fitted, output);
    let missed = forecasts.iter().filter(|one| one.promise == "missed");
    let missed: Vec<&str> = missed.map(|one| one.service).collect();
    let failure = (!missed.is_empty())
        .then(|| Failure::Verdict(format!("predicted to miss: {}", missed.join(", "))));
    let document = ModelDocument::of(model_file, &model, &fitted, forecasts);
    output.rows(&PREDICTION_HEADER, &rows, &document)?;
    failure.map_or(Ok(()), Err)
}

/// Finds the cheapest point of each condition at which the model predicts that every promise is kept, with its whole
/// interval; status 2 if a condition has none.
pub fn size(
    file: &Path,
    (model_file, wanted): (&Path, Option<ModelForm>),
    output: &Output,
) -> Result<(), Failure> {
    super::load(file, output)?;
    let model = read_model(model_file).map_err(Failure::from_error)?;
    let fitted = model.fit(wanted).map_err(Failure::from_error)?;
    say_model(model_file, &model, &fitted, output);
    let grid = fitted.grid();
    let conditions = grid.conditions();
    let sizes: Vec<SampledSize> = conditions
        .iter()
        .map(|points| cheapest(&fitted, points))
        .collect();
    let rows: Vec<Vec<String>> = sizes.iter().map(sizing_row).collect();
    let open = sizes.iter().any(|size| size.highest_ratio.is_none());
    let document = ModelDocument::of(model_file, &model, &fitted, sizes);
    output.rows(&SIZING_HEADER, &rows, &document)?;
    match open {
        false => Ok(()),
        true => Err(Failure::Verdict(
            "the model predicts no reservation that keeps the promises in a condition".into(),
        )),
    }
}

fn say_model(file: &Path, model: &SampledModel, fitted: &FittedModel<'_>, output: &Output) {
    let name = &model.name;
    for own in fitted.promises() {
        let promise = own.promise;
        let covered = own.coverage.map_or_else(
            || "too few to tell how good its intervals are".to_owned(),
            |coverage| {
                let (covered, points) = (coverage.covered, coverage.points);
                format!("intervals of 90% hold {covered} of {points} that were left out")
            },
        );
        output.note(format!(
            "by the {} of \"{name}\" in {}, {} measurements of {}: {covered}",
            own.form.word(),
            file.display(),
            promise.points.len(),
            promise.service
        ));
        if let Some(queue) = &promise.queue {
            let percent = |factor: f64| (factor - 1.0) * 100.0;
            output.note(format!(
                "half of the points of {} that were left out are within {:.0}% of the regression, and within {:.0}% of the \
                 queue",
                promise.service,
                percent(own.regression_error_factor),
                percent(queue.fit.error_factor),
            ));
        }
        if !own.is_falling {
            output.note(format!(
                "measurements of {} were slower at some higher share, so predictions may be, too",
                promise.service
            ));
        }
    }
}

fn forecast<'a>(predicted: &PredictedPromise<'a>) -> ModelForecast<'a> {
    let ratio = predicted.ratio;
    ModelForecast {
        service: &predicted.promise.service,
        task: predicted.promise.task.as_deref(),
        percentile: predicted.promise.percentile,
        limit: predicted.promise.limit,
        predicted: predicted.latency(ratio.middle),
        low: predicted.latency(ratio.low),
        high: predicted.latency(ratio.high),
        form: predicted.form,
        promise: match (ratio.low > 0.0, ratio.high <= 0.0) {
            (true, _) => "missed",
            (false, true) => "kept",
            (false, false) => "open",
        },
    }
}

fn prediction_row(one: &ModelForecast<'_>) -> Vec<String> {
    vec![
        one.service.to_owned(),
        one.task.unwrap_or("*").to_owned(),
        format!("p{}", one.percentile),
        one.limit.to_string(),
        in_milliseconds(one.predicted),
        format!(
            "{} .. {}",
            in_milliseconds(one.low),
            in_milliseconds(one.high)
        ),
        one.promise.to_owned(),
    ]
}

fn in_milliseconds(time: Duration) -> String {
    format!("{:.2}ms", time.as_millis_f64())
}

fn cheapest(fitted: &FittedModel<'_>, points: &[usize]) -> SampledSize {
    let grid = fitted.grid();
    let highest = |point: usize| {
        let predicted = fitted.predict_point(point);
        let ratios = predicted.iter().map(|one| one.ratio.high);
        ratios.fold(f64::NEG_INFINITY, f64::max)
    };
    let cost = |point: usize| (grid.share(point).unwrap_or(0.0), highest(point));
    let kept = points.iter().map(|point| (*point, cost(*point)));
    let kept = kept.filter(|(_, (_, ratio))| *ratio <= 0.0);
    let least = kept
        .min_by(|(_, one), (_, other)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let values = points
        .first()
        .map(|point| grid.values(*point))
        .unwrap_or_default();
    let axes = grid.condition_axes().into_iter();
    let condition = axes.map(|axis| (grid.axes()[axis].key.clone(), values[axis].to_owned()));
    SampledSize {
        condition: condition.collect(),
        share_percent: least.and_then(|(point, _)| grid.share(point)),
        period: least.and_then(|(point, _)| grid.period(point).map(|period| period.to_string())),
        highest_ratio: least.map(|(_, (_, ratio))| ratio.exp()),
    }
}

fn sizing_row(size: &SampledSize) -> Vec<String> {
    let condition: Vec<String> = size
        .condition
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let none = || "-".to_owned();
    vec![
        match condition.is_empty() {
            true => "as described".to_owned(),
            false => condition.join(" "),
        },
        size.share_percent
            .map_or_else(none, |share| format!("{share}%")),
        size.period.clone().unwrap_or_else(none),
        size.highest_ratio
            .map_or_else(none, |ratio| format!("{ratio:.2}")),
    ]
}
