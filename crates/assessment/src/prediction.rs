//! The response times that analysis predicts for the services of a description.

use serde::Serialize;
use tailbound_analysis::resolution::{Deployment, only_simulated};
use tailbound_analysis::{AnalysisError, Prediction, ServiceQuery, SharpPoints, predict_at};
use tailbound_distribution::{Distribution, Interval};
use tailbound_model::{Description, InputFiles, Percentile, ReservationServer, Service, Variant};
use tailbound_time::{Duration, nanoseconds};

use crate::AssessmentError;
use crate::error::named;
use crate::execution_times::{Known, execution_times};

/// The predictions for one service in one variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServicePrediction {
    /// The predictions with their labels, the most faithful first.
    pub cases: Vec<(&'static str, Prediction)>,
    /// Why there is none.
    pub refused: Option<String>,
}

/// The label of the prediction from the whole distribution of execution times.
pub const FAITHFUL: &str = "execution times as known";

/// Predicts the response times of a service on a reservation server: from all that is known of
/// the execution times, and, where they vary, from their mean and their maximum alone (thesis,
/// section 4.4: approximation and lower bound of the distribution function).
///
/// # Errors
/// The description itself makes no sense to the analysis.
pub fn predict_service(
    name: &str,
    service: &Service,
    known: &Known,
    server: Option<ReservationServer>,
    points: &SharpPoints,
) -> Result<ServicePrediction, AssessmentError> {
    let Some(server) = server else {
        let why = "the back end guarantees the domain no CPU time, so no response time is bounded";
        return Ok(ServicePrediction {
            cases: Vec::new(),
            refused: Some(why.into()),
        });
    };
    let mut cases = vec![(FAITHFUL, known.clone())];
    if known.varies() {
        let mean = known.reduced("mean execution time", |times| {
            times
                .mean()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        let worst = known.reduced("worst-case execution time", |times| {
            times
                .max()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        cases.push(("mean execution time", mean));
        cases.push(("worst-case execution time", worst));
    }
    let mut prediction = ServicePrediction::default();
    for (label, known) in cases {
        let query = ServiceQuery {
            name,
            service,
            server: known.as_seen(server),
            execution_times: known.measured,
            dispatch_overhead: known.dispatch_overhead,
        };
        match predict_at(&query, points) {
            Ok(mut found) => {
                let distribution = &mut found.overall;
                if let Some((trip, execution)) = known.trip_and_execution {
                    distribution.provenance.assumptions.push(format!(
                        "one request at a time: of a round trip of {trip}, {execution} is \
                         execution and uses budget (means)"
                    ));
                }
                prediction.cases.push((label, found));
            }
            Err(AnalysisError::Invalid { what }) => {
                return Err(AnalysisError::Invalid { what }.into());
            }
            Err(error) if label == FAITHFUL => prediction.refused = Some(error.to_string()),
            // The worst case may overload a reservation that the real mixture does not.
            Err(_) => {}
        }
    }
    Ok(prediction)
}

/// The questions about the services of a description.
#[derive(Clone, Copy, Debug)]
pub struct PredictionQuery<'a> {
    /// Only this service.
    pub service: Option<&'a str>,
    /// Only this variant of the experiment.
    pub variant: Option<&'a str>,
    /// The percentiles that are told.
    pub percentiles: &'a [Percentile],
    /// The response times within which shares of all responses are told.
    pub times: &'a [Duration],
}

impl PredictionQuery<'_> {
    /// Where answers are to be sharp.
    pub fn points(&self) -> SharpPoints {
        let percentiles = self.percentiles.iter();
        SharpPoints {
            probabilities: percentiles.map(|one| one.probability()).collect(),
            times: self.times.to_vec(),
        }
    }
}

/// One predicted distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PredictionAnswer {
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// The source of the execution times.
    pub from: String,
    /// Why there is no distribution.
    pub refused: Option<String>,
    /// The answers about the response times.
    #[serde(flatten)]
    pub responses: Option<PredictedResponses>,
}

/// The answers about predicted response times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedResponses {
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// The mean.
    pub mean: TimeBounds,
    /// The percentiles that were asked for.
    pub quantiles: Vec<QuantileBounds>,
    /// The shares of all responses within the times that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareBounds>,
    /// The method by name, with its source.
    pub method: String,
    /// The assumptions of the method.
    pub assumptions: Vec<String>,
    /// The distribution's provenance and values.
    pub distribution: Distribution,
}

/// A time between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBounds {
    /// At least this; `None` where nothing is known.
    #[serde(rename = "low_ns", with = "nanoseconds::optional")]
    pub low: Option<Duration>,
    /// At most this, where that is known.
    #[serde(rename = "high_ns", with = "nanoseconds::optional")]
    pub high: Option<Duration>,
}

/// A percentile of the response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantileBounds {
    /// The percentile.
    pub percentile: f64,
    /// The response time at the percentile.
    #[serde(flatten)]
    pub bounds: TimeBounds,
}

/// The share of all responses within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShareBounds {
    /// The time.
    #[serde(rename = "at_ns", with = "nanoseconds")]
    pub at: Duration,
    /// At least this share is within it.
    pub low: f64,
    /// At most this share is within it.
    pub high: f64,
}

impl From<Option<Interval>> for TimeBounds {
    fn from(interval: Option<Interval>) -> Self {
        Self {
            low: interval.map(|interval| interval.low),
            high: interval.and_then(|interval| interval.high),
        }
    }
}

impl PredictedResponses {
    /// The answers at the percentiles and times that were asked for.
    pub fn of(prediction: Prediction, query: &PredictionQuery<'_>) -> Self {
        let mean = prediction.mean().into();
        let distribution = prediction.overall;
        let quantiles = query.percentiles.iter().map(|percentile| QuantileBounds {
            percentile: percentile.0,
            bounds: distribution.quantile(percentile.probability()).into(),
        });
        let shares = query.times.iter().map(|&at| {
            let (low, high) = distribution.cdf(at);
            ShareBounds { at, low, high }
        });
        Self {
            utilisation: prediction.utilisation,
            bandwidth: prediction.bandwidth,
            mean,
            quantiles: quantiles.collect(),
            shares: shares.collect(),
            method: prediction.method,
            assumptions: prediction.assumptions,
            distribution,
        }
    }
}

/// Predicts every chosen service of a description in every chosen variant.
///
/// # Errors
/// The description has no such service or variant, or makes no sense to the analysis; an execution time is
/// not known before a run.
pub fn predict(
    description: &Description,
    inputs: &InputFiles,
    query: &PredictionQuery<'_>,
) -> Result<Vec<PredictionAnswer>, AssessmentError> {
    if let Some(name) = query.service {
        let services = &description.services;
        named("service", name, services.get(name), services.keys())?;
    }
    let mut answers = Vec::new();
    for variant in chosen_variants(description, query.variant)? {
        let deployment = Deployment::of_run(description, variant)?;
        for (name, service) in &description.services {
            if query.service.is_some_and(|chosen| chosen != name) {
                continue;
            }
            let place = (name.as_str(), variant.name.as_str());
            if let Some(why) = only_simulated(description, &service.domain) {
                let why = format!("not analysed: {why}; `tailbound simulate` answers for it");
                answers.push(refusal(place, why));
                continue;
            }
            let reserved = deployment.reserved.get(&service.domain);
            let server = reserved.and_then(|domain| domain.server());
            let known = execution_times(name, service, inputs, None)?;
            let found = predict_service(name, service, &known, server, &query.points())?;
            answers.extend(found.refused.map(|why| refusal(place, why)));
            let cases = found.cases.into_iter();
            answers.extend(cases.map(|(from, prediction)| PredictionAnswer {
                service: name.clone(),
                variant: variant.name.clone(),
                from: from.into(),
                refused: None,
                responses: Some(PredictedResponses::of(prediction, query)),
            }));
        }
    }
    Ok(answers)
}

/// The answer that there is none, for a service in a variant.
fn refusal((service, variant): (&str, &str), why: String) -> PredictionAnswer {
    PredictionAnswer {
        service: service.into(),
        variant: variant.into(),
        from: "prediction".into(),
        refused: Some(why),
        responses: None,
    }
}

/// The variant of a name, or all of them.
fn chosen_variants<'a>(
    description: &'a Description,
    name: Option<&str>,
) -> Result<Vec<&'a Variant>, AssessmentError> {
    let all = &description.experiment.variants;
    match name {
        None => Ok(all.iter().collect()),
        Some(name) => Ok(vec![variant_named(description, name)?]),
    }
}

/// The variant of a name.
///
/// # Errors
/// The experiment has no such variant.
pub fn variant_named<'a>(
    description: &'a Description,
    name: &str,
) -> Result<&'a Variant, AssessmentError> {
    let all = &description.experiment.variants;
    let found = all.iter().find(|variant| variant.name == name);
    named(
        "variant",
        name,
        found,
        all.iter().map(|variant| &variant.name),
    )
}
